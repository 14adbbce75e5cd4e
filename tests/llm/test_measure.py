"""`anyshape bench llm` on a tiny model with random weights: what is counted, and its JSON. No test looks at times."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf as reference
import numpy as np
import pytest

from anyshape.cli import llm_speed
from anyshape.cli.dispatch import main
from anyshape.cli.llama_cpp import MODULE, LlamaCpp
from anyshape.driver.calibrate import measure_read_rates
from anyshape.llm import gguf
from bench.random_llama import Sizes, matrices, write

SIZES = Sizes(width=64, layers=2, heads=4, kv_heads=2, hidden=96, vocabulary=400, context=64)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write(path, SIZES)
    return path


class Recorder:
    """llama.cpp's interface as far as it is used; keeps what was read."""

    def __init__(self, path: str, **settings: object) -> None:
        self.settings = settings
        self.n_tokens = 0
        self.closed = False
        self.reads: list[tuple[int, int]] = []

    def eval(self, tokens: Sequence[int]) -> None:
        self.reads.append((self.n_tokens, len(tokens)))
        self.n_tokens += len(tokens)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """Stands in for llama-cpp-python; a list of the models that were made."""
    made: list[Recorder] = []

    def make(path: str, **settings: object) -> Recorder:
        made.append(Recorder(path, **settings))
        return made[-1]

    module = ModuleType(MODULE)
    module.Llama = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setattr(llm_speed, "is_installed", lambda: True)

    def first_output(command: Sequence[str]) -> float:
        return float(len(command))

    # Processes of their own know nothing of the stand-in, and are what takes long.
    monkeypatch.setattr(llm_speed, "_first_output", first_output)
    return made


def run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "llm", *arguments])
    return int(caught.value.code or 0)


def test_report_as_json(path: Path, peer: list[Recorder], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--threads",
        "1",
        "--prompt",
        "8,20",
        "--generate",
        "5",
        "--rounds",
        "2",
        "--activations",
        "int16,int8",
    ]
    assert run([str(path), *arguments, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (report["architecture"], report["threads"]) == ("llama", 1)
    assert report["file_bytes"] == path.stat().st_size
    vectors = 4 * SIZES.width * (2 * SIZES.layers + 1)
    products = sum(rows * columns for name, rows, columns in matrices(SIZES) if name != "token_embd")
    assert report["weight_bytes"] == products // 32 * 18 + vectors
    assert [engine["engine"] for engine in report["engines"]] == ["anyshape int16", "anyshape int8", "llama.cpp"]
    for engine in report["engines"]:
        assert [(rate["tokens"], rate["samples"]) for rate in engine["prompts"]] == [(8, 2), (20, 2)]
        assert (engine["generation"]["tokens"], engine["generation"]["samples"]) == (1, 5)
        assert (engine["generation"]["gain"] is None) == (engine["engine"] == "llama.cpp")
        seconds = report["weight_bytes"] / report["rates"]["memory"] * 1e-9
        assert engine["memory_share"] == pytest.approx(seconds * engine["generation"]["per_second"])
        assert (
            engine["limit_share"] <= engine["memory_share"] * 1.001
            or report["rates"]["cache"] < report["rates"]["memory"]
        )
    assert report["engines"][0]["start"]["cold_load"] > 0 and report["engines"][2]["start"]["cold_load"] is None
    (model,) = peer
    assert model.closed and model.settings["n_threads"] == model.settings["n_threads_batch"] == 1
    # Prompts from nothing; then steps, each one position on, within the capacity.
    assert {read for read in model.reads if read[1] > 1} == {(0, 8), (0, 20)}
    assert {position for position, count in model.reads if count == 1} <= set(range(8, 25))


def test_report_as_a_table(path: Path, peer: list[Recorder], capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                str(path),
                "--threads",
                "1",
                "--prompt",
                "4",
                "--generate",
                "2",
                "--rounds",
                "1",
                "--no-peer",
                "--no-starts",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "prompt of 4" in text and "anyshape int16" in text and "llama.cpp" not in text and "first token" not in text
    assert not peer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prompt", "8,x"], "--prompt"),
        (["--prompt", "0"], "1 at least"),
        (["--generate", "60", "--prompt", "8"], "at most 64"),
        (["--activations", "int4"], "int16, int8"),
    ],
)
@pytest.mark.usefixtures("peer")
def test_mistakes_are_named(path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(path), "--threads", "1", "--no-starts", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_the_text_is_repeated_as_often_as_it_takes(path: Path) -> None:
    tokenizer = llm_speed.load(path).tokenizer
    tokens = llm_speed._text_tokens(tokenizer, 3000)  # pyright: ignore[reportPrivateUsage]
    assert len(tokens) == 3000 and tokens.count(1) == 1
    assert tokens[:4] == llm_speed._text_tokens(tokenizer, 4)  # pyright: ignore[reportPrivateUsage]


def test_llama_cpp_is_driven_with_the_same_interface(peer: list[Recorder]) -> None:
    session = LlamaCpp("a file", threads=2, capacity=600)
    session.read([1, 2, 3])
    session.keep(1)
    session.read([4])
    assert peer[0].reads == [(0, 3), (1, 1)] and peer[0].settings["n_batch"] == 600


def test_read_rates_are_rates() -> None:
    rates = measure_read_rates(2, memory_bytes=1 << 20, rounds=1)
    assert rates.memory > 0 and rates.cache > 0


def test_a_random_model_is_sound(path: Path) -> None:
    file = gguf.open(path)
    assert (file.architecture, file.block_count, len(file.tensors)) == ("llama", 2, 2 + 7 * 2 + 5)
    matrix = file.tensor("blk.1.ffn_down.weight")
    assert (matrix.shape, matrix.type) == ((64, 96), "Q4_0")
    values = reference.quants.dequantize(matrix.data, reference.GGMLQuantizationType.Q4_0)
    np.testing.assert_array_equal(values, matrix.dequantized())
    # A product keeps the variance of its input, so that nothing overflows in 32 layers.
    assert 0.7 < np.var(values) * 96 < 1.4
