"""`anyshape generate` and `chat` with odd input: a clear error or a clear end, and the same text for the same seed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from anyshape.cli.dispatch import load_subcommand
from anyshape.support.errors import AnyshapeError, ArgumentError, OptionError
from bench.random_llama import Sizes, write

SIZES = Sizes(width=64, layers=1, heads=4, kv_heads=2, hidden=96, vocabulary=400, context=24)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write(path / "model.gguf", SIZES)
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What `anyshape generate MODEL --prompt PROMPT …` writes."""
    monkeypatch.setenv("ANYSHAPE_CACHE", str(folder / "cache"))

    def generate(prompt: str, *arguments: str) -> str:
        command = [str(folder / "model.gguf"), "--prompt", prompt, "--threads", "1", *arguments]
        load_subcommand("generate").main(command, standalone_mode=False)
        return capsys.readouterr().out

    return generate


def test_lengths(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("a", "--max-tokens", "0") == "\n"
    longest = run("a")
    assert len(longest) > 1
    assert run("a", "--max-tokens", "1000") == longest
    assert run("a", "--max-tokens", "60", "--shift").startswith(longest[:-1])
    assert run("a", "--context", "8") != longest


@pytest.mark.parametrize(
    ("prompt", "arguments", "error", "words"),
    [
        ("a " * 40, (), ArgumentError, "does not fit"),
        ("a b c", ("--context", "2"), ArgumentError, "does not fit"),
        ("a", ("--context", "25"), ArgumentError, "1 to 24"),
        ("a", ("--context", "0"), ArgumentError, "1 to 24"),
        ("a", ("--max-tokens", "-1"), ArgumentError, "negative"),
        ("a", ("--temperature", "-1"), OptionError, "temperature"),
        ("a", ("--temperature", "nan"), OptionError, "temperature"),
        ("a", ("--top-k", "-1"), OptionError, "top_k"),
        ("a", ("--top-p", "0"), OptionError, "top_p"),
        ("a", ("--min-p", "1.5"), OptionError, "min_p"),
        ("a", ("--repetition-penalty", "0"), OptionError, "repetition_penalty"),
        ("a", ("--seed", "-1"), OptionError, "seed"),
        ("a", ("--stop", ""), ArgumentError, "stop"),
        ("a", ("--cache", "f64"), ArgumentError, "f32, f16, int8"),
        ("a", ("--threads", "-1"), AnyshapeError, "threads"),
    ],
)  # fmt: skip
def test_what_is_refused(run: Run, prompt: str, arguments: tuple[str, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(prompt, *arguments)


def test_an_empty_prompt(run: Run) -> None:
    """The model's own first token is a prompt."""
    assert run("", "--max-tokens", "4") != "\n"


def test_choices_repeat(run: Run) -> None:
    seeded = [run("a", "--max-tokens", "12", "--temperature", "1.5", "--seed", seed) for seed in "112"]
    assert seeded[0] == seeded[1] != seeded[2]
    greedy = run("a", "--max-tokens", "12", "--temperature", "0", "--top-k", "0")
    assert greedy == run("a", "--max-tokens", "12", "--temperature", "1", "--top-k", "1")
    assert greedy == run("a", "--max-tokens", "12", "--temperature", "1", "--min-p", "1")
    assert greedy != run("a", "--max-tokens", "12", "--repetition-penalty", "1e6")


@pytest.mark.parametrize("cache", ["f32", "f16", "int8"])
def test_caches(run: Run, cache: str) -> None:
    assert len(run("a b c", "--max-tokens", "6", "--cache", cache)) > 1


def test_a_prompt_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a"))
    assert run("-", "--max-tokens", "5") == run("a", "--max-tokens", "5")
