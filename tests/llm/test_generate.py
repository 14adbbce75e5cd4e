"""Text out of a model file: SmolLM2's greedy tokens, how texts end, and a process without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape.llm
from anyshape.llm.generate import Limits, StopStrings
from anyshape.llm.language_model import LanguageModel
from anyshape.support.errors import ArgumentError
from anyshape.support.options import Options
from tests.llm.models import smollm2

GREEDY: dict[str, Sequence[int]] = {
    "The capital of France is": (
        7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32, 33, 29, 34, 34, 216, 33, 34, 42, 33,
    ),
    "Once upon a time": (
        28, 260, 2240, 282, 23324, 27108, 436, 253, 15114, 39228, 28, 351, 25854, 41658, 284, 14055, 9018, 30, 1249, 347, 260, 929,
        3514, 411,
    ),
    "def fibonacci(n):": (
        472, 585, 304, 1758, 216, 32, 42, 448, 1003, 216, 33, 472, 1003, 304, 1672, 3987, 46477, 24, 94, 731, 216, 33, 25, 198,
    ),
    "<|im_start|>user\nWhat is a compiler?<|im_end|>\n<|im_start|>assistant\n": (
        49, 25316, 314, 253, 3197, 1763, 338, 18419, 1205, 2909, 618, 3746, 2909, 30, 657, 506, 8009, 253, 904, 29, 4638, 1789, 365,
        60,
    ),
}  # fmt: skip
"""What `transformers` chose, in f32 on the dequantised weights."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def model(cache: Path) -> LanguageModel:
    return anyshape.llm.load(smollm2(), context=256, options=Options(threads=1, cache=cache))


@pytest.mark.parametrize("prompt", GREEDY)
def test_greedy_tokens(model: LanguageModel, prompt: str) -> None:
    generation = model.generate(prompt, max_tokens=24)
    pieces = list(generation)
    assert generation.tokens[-24:] == list(GREEDY[prompt])
    assert len(pieces) == 24 and "".join(pieces) == model.tokenizer.decode(GREEDY[prompt])
    assert generation.finish == "length"


def test_the_program_is_small(model: LanguageModel) -> None:
    """Six kernels run in each of 30 layers, and equal layers have equal kernels: four products, of which three compute norms and gates on
    their way, attention, and one each for rotated queries and what goes to the cache. Of the last layer, only keys and values are
    computed at every position, so that it has five of its own."""
    launches = model.model.summary.launches
    assert len(launches) <= 17 and sum(launches.values()) <= 30 * 7 + 5
    assert sum(count == 29 for count in launches.values()) == 5


def test_sessions_share_a_program_but_no_state(model: LanguageModel) -> None:
    first, second = [5, 6, 7], [8, 9]
    alone = [model.session().read(tokens) for tokens in (first, second, [*first, 10], [*second, 11])]
    sessions = model.session(), model.session()
    together = [sessions[0].read(first), sessions[1].read(second), sessions[0].read([10]), sessions[1].read([11])]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-2)


def test_ends(model: LanguageModel) -> None:
    prompt = next(iter(GREEDY))
    stopped = model.generate(prompt, stop=["answer is", "never"])
    assert "".join(stopped) == " Paris.\n\nThe " and stopped.finish == "stop"
    short = replace(model, context=12)
    full = short.generate(prompt)
    assert len("".join(full)) > 0 and full.finish == "context" and len(full.tokens) == 13
    shifted = short.generate(prompt, max_tokens=30, shift=True)
    assert len(list(shifted)) == 30 and shifted.finish == "length"
    assert list(model.generate(prompt, max_tokens=0)) == [""]
    with pytest.raises(ArgumentError, match="does not fit"):
        short.generate("one two three four five six seven eight nine ten eleven twelve thirteen")


@pytest.mark.parametrize("prompt", [[2**70], [-1], [49152], ["a"], [1.5], b"abc", None], ids=repr)
def test_what_is_no_prompt(model: LanguageModel, prompt: Any) -> None:
    with pytest.raises(ArgumentError, match="prompt"):
        model.generate(prompt)


def test_limits_are_checked(model: LanguageModel) -> None:
    with pytest.raises(ArgumentError, match="max_tokens"):
        model.generate("Hi", max_tokens=-1)
    one = model.generate(next(iter(GREEDY)), stop="answer is")
    assert "".join(one) == " Paris.\n\nThe " and one.finish == "stop"


def test_a_cache_takes_memory_as_it_fills(model: LanguageModel) -> None:
    """Room for 100,000 tokens is 4.6 GB; a few tokens touch a page of each head."""
    before = _resident()
    session = model.model.session(capacity=100_000)
    session.read([1, 2, 3])
    assert _resident() - before < 64 << 20


def _resident() -> int:
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def test_sampling_with_a_seed_repeats(model: LanguageModel) -> None:
    texts = ["".join(model.generate("Hi", max_tokens=8, temperature=1.0, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_conversation_reads_only_what_is_new(model: LanguageModel) -> None:
    session, limits = model.session(), Limits(max_tokens=12)
    first = [{"role": "user", "content": "What is the capital of France?"}]
    answer = "".join(model.answer(first, session, limits))
    assert "Paris" in answer
    more = [*first, {"role": "assistant", "content": answer}, {"role": "user", "content": "And of Italy?"}]
    before = list(session.tokens)
    generation = model.answer(more, session, limits)
    assert session.tokens == before
    assert "".join(generation) == "".join(model.answer(more, model.session(), limits))


def test_logits_do_not_depend_on_how_a_text_is_cut(model: LanguageModel) -> None:
    tokens = model.tokenizer.encode("The quick brown fox jumps over the lazy dog, and then it runs away from it.")
    whole = model.session().read(tokens)
    session = model.session()
    logits = [session.read([token]) for token in tokens][-1]
    np.testing.assert_allclose(logits, whole, rtol=0, atol=2e-2)


def test_stop_strings_are_held_back_until_they_are_certain() -> None:
    stops = StopStrings(["<end>", "ab"])
    assert stops.push("x <e") == ("x ", False)
    assert stops.push("n") == ("", False)
    assert stops.push("t a") == ("<ent ", False)
    assert stops.flush() == "a"
    assert stops.push("1 ab 2") == ("1 ", True)
    with pytest.raises(ArgumentError):
        StopStrings([""])


def test_the_command_needs_no_torch(model: LanguageModel, cache: Path) -> None:
    code = (
        "import sys; from anyshape.cli.dispatch import load_subcommand; load_subcommand('generate').main("
        f"[{str(smollm2())!r}, '--prompt', 'The capital of France is', '--max-tokens', '4', '--threads', '1'], "
        "standalone_mode=False); assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    assert _output(code, cache) == " Paris.\n\n\n"


def test_a_program_from_the_cache_is_loaded_without_the_compiler(model: LanguageModel, cache: Path) -> None:
    heavy = (
        "xdsl",
        "mlir",
        "ml_dtypes",
        "jinja2",
        "torch",
        "anyshape.dialects.dhlo",
        "anyshape.kernels",
        "anyshape.nn",
    )
    code = (
        "import sys; from anyshape.llm.language_model import load\n"
        f"print(next(load({str(smollm2())!r}).generate('The capital of France is')))\n"
        f"print([name for name in {heavy} if name in sys.modules], len(sys.modules))"
    )
    text, modules = _output(code, cache).splitlines()
    loaded, count = modules.rsplit(" ", 1)
    assert text == " Paris" and loaded == "[]" and int(count) < 500


def _output(code: str, cache: Path) -> str:
    """What a process writes that has the programs in this cache."""
    environment = {**os.environ, "ANYSHAPE_CACHE": str(cache), "ANYSHAPE_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
