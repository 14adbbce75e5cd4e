"""The speed of a language model: prompts, single tokens, loading and the first token, beside llama.cpp where that is installed.

All engines read the same tokens, a real text's, in turn in one process, so that a drift of the machine favours nobody.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from anyshape.cli.llama_cpp import LlamaCpp, is_installed
from anyshape.cli.timing import alternate
from anyshape.driver.calibrate import ReadRates, measure_read_rates
from anyshape.llm import gguf
from anyshape.llm.gguf import GGUFFile
from anyshape.llm.key_cache import DEFAULT, CacheType
from anyshape.llm.language_model import LanguageModel, load
from anyshape.llm.tokenizer import Tokenizer
from anyshape.support.errors import ArgumentError
from anyshape.support.machine import host_machine
from anyshape.support.options import Activations, Options

TEXT = """\
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife. However
little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth is so well fixed in the
minds of the surrounding families, that he is considered as the rightful property of some one or other of their daughters. "My
dear Mr. Bennet," said his lady to him one day, "have you heard that Netherfield Park is let at last?" Mr. Bennet replied that he
had not. "But it is," returned she; "for Mrs. Long has just been here, and she told me all about it." Mr. Bennet made no answer.
"""
"""J. Austen, Pride and Prejudice (1813), the beginning of chapter 1; repeated where more tokens are wanted."""
SHORT_PROMPT = "The capital of France is"
PEER = "llama.cpp"
WARM_STARTS = 3


class Reader(Protocol):
    """One sequence of an engine."""

    def keep(self, count: int) -> None:
        """Forget all but the first `count` tokens."""
        ...

    def read(self, tokens: Sequence[int]) -> object:
        """Append tokens and compute the logits of the last."""
        ...


@dataclass(frozen=True)
class Wanted:
    """What to measure.

    Args:
        path: a GGUF file.
        threads: for every engine.
        prompts: lengths of prompts, in tokens.
        generated: single tokens read, each a sample.
        activations: our program is measured once for each.
        rounds: samples of each prompt.
        peer: whether llama.cpp is measured too, where it is installed.
        cache: the type of our program's cache; llama.cpp's is f16.
        starts: whether processes are started to measure cold loads and first tokens; of large models that takes minutes.
    """

    path: Path
    threads: int
    prompts: tuple[int, ...] = (128, 512)
    generated: int = 64
    activations: tuple[Activations, ...] = ("int16",)
    rounds: int = 5
    peer: bool = True
    starts: bool = True
    cache: CacheType = DEFAULT

    def __post_init__(self) -> None:
        if not self.prompts or min(*self.prompts, self.generated, self.rounds, self.threads) < 1:
            raise ArgumentError(
                "lengths and counts are 1 at least", got=f"{self.prompts}, {self.generated}, {self.rounds}"
            )


@dataclass(frozen=True)
class Rate:
    """Tokens a second: the median of `samples` samples; `gain` is the median of llama.cpp's seconds over these, sample by
    sample, and its 10th and 90th percentile; None where there is no llama.cpp."""

    tokens: int
    samples: int
    per_second: float
    gain: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Start:
    """Seconds, the model file being in the system's memory: `load` within a process, `first_token` from a process's start to
    the first text of `anyshape generate`. Cold: no program is in the cache of compiled programs; an engine without one is
    never cold. What was not measured is None."""

    load: float
    first_token: float | None = None
    cold_load: float | None = None
    cold_first_token: float | None = None


@dataclass(frozen=True)
class EngineSpeed:
    """What one engine reached.

    Attributes:
        engine: `anyshape int16`, `anyshape int8` or `llama.cpp`.
        prompts: for each length.
        generation: single tokens, after the shortest prompt.
        memory_share: of the rate at which memory is read: bytes of weights · tokens a second / bytes a second.
        limit_share: the same, where as much of the weights as the last level of caches can hold is read from there.
    """

    engine: str
    start: Start
    prompts: tuple[Rate, ...]
    generation: Rate
    memory_share: float
    limit_share: float


@dataclass(frozen=True)
class SpeedReport:
    """All figures of one model. `weight_bytes`: what a token reads of the weights; `rates`: of memory and cache, byte/ns;
    `cache_bytes`: of the processor's last level; `cache`, `cache_bytes_of_token`: of keys and values."""

    model: str
    architecture: str
    file_bytes: int
    weight_bytes: int
    threads: int
    rates: ReadRates
    cache_bytes: int
    engines: tuple[EngineSpeed, ...]
    cache: CacheType
    cache_bytes_of_token: int


def measure_speed(wanted: Wanted, options: Options, say: Callable[[str], object] = lambda text: None) -> SpeedReport:
    """Measure a model; some tens of seconds for one of 100 million weights.

    Args:
        options: for our own program, besides threads and activations.
        say: is told what is measured next.

    Raises:
        FileFormatError: see `anyshape.llm.load`.
        ArgumentError: a length is not positive, or does not fit into the model's context.
    """
    file = gguf.open(wanted.path)
    capacity = max(wanted.prompts) + wanted.generated
    starts: dict[str, Start] = {}
    readers: dict[str, Reader] = {}
    with ExitStack() as stack:
        tokenizer, token_cache_bytes = None, 0
        for activations in wanted.activations:
            name = f"anyshape {activations}"
            say(f"{name}: loading")
            own = replace(options, threads=wanted.threads, activations=activations)
            starts[name], readers[name], model = _start_own(wanted, own, capacity)
            tokenizer, token_cache_bytes = model.tokenizer, model.model.token_bytes
        if wanted.peer and is_installed():
            say(f"{PEER}: loading")
            starts[PEER], peer = _start_peer(wanted, capacity)
            stack.callback(peer.close)
            readers[PEER] = peer
        assert tokenizer is not None  # there is one of `activations` at least
        tokens = _text_tokens(tokenizer, capacity)
        prompts = {length: _prompt_seconds(readers, tokens[:length], wanted.rounds, say) for length in wanted.prompts}
        say("single tokens")
        generation = _step_seconds(readers, tokens, min(wanted.prompts), wanted.generated)
    say("reading memory")
    rates, cache_bytes = measure_read_rates(wanted.threads), host_machine().last_level_cache
    weight_bytes = token_bytes(file)
    cached = min(weight_bytes, cache_bytes)
    least = 1e-9 * (cached / rates.cache + (weight_bytes - cached) / rates.memory)

    def engine(name: str) -> EngineSpeed:
        step = _rate(generation, name, 1)
        shares = (1e-9 * weight_bytes / rates.memory * step.per_second, least * step.per_second)
        return EngineSpeed(
            name,
            starts[name],
            tuple(_rate(seconds, name, length) for length, seconds in prompts.items()),
            step,
            *shares,
        )

    return SpeedReport(
        str(wanted.path), file.architecture, wanted.path.stat().st_size, weight_bytes, wanted.threads, rates, cache_bytes,
        tuple(map(engine, readers)), wanted.cache, token_cache_bytes,
    )  # fmt: skip


def token_bytes(file: GGUFFile) -> int:
    """Bytes of the weights that every token reads, as the file stores them: all but the embeddings, of which it reads a row;
    those too where they are the output matrix."""
    tied = "output.weight" not in file.tensors
    return sum(tensor.data.nbytes for name, tensor in file.tensors.items() if tied or name != "token_embd.weight")


def _start_own(wanted: Wanted, options: Options, capacity: int) -> tuple[Start, Reader, LanguageModel]:
    measured = _own_starts(wanted, options) if wanted.starts else None
    start = time.perf_counter()
    model = load(wanted.path, cache=wanted.cache, options=options)
    seconds = time.perf_counter() - start
    if capacity > model.context:
        raise ArgumentError(
            "prompt and generated tokens do not fit into the model's context",
            got=capacity, expected=f"at most {model.context}",
        )  # fmt: skip
    return measured or Start(seconds), model.model.session(capacity=capacity), model


def _own_starts(wanted: Wanted, options: Options) -> Start:
    with tempfile.TemporaryDirectory(prefix="anyshape") as folder:
        empty = replace(options, cache=Path(folder) / "in process")
        cold = _timed(lambda: load(wanted.path, cache=wanted.cache, options=empty))
        warm = _timed(lambda: load(wanted.path, cache=wanted.cache, options=empty))
        command = [
            "env", f"ANYSHAPE_CACHE={Path(folder) / 'process'}", f"ANYSHAPE_ACTIVATIONS={options.activations}",
            sys.executable, "-m", "anyshape", "generate", str(wanted.path), "--prompt", SHORT_PROMPT, "--max-tokens", "1",
            "--threads", str(wanted.threads), "--cache", wanted.cache,
        ]  # fmt: skip
        cold_first = _first_output(command)
        first = statistics.median(_first_output(command) for _ in range(WARM_STARTS))
    return Start(warm, first, cold, cold_first)


def _start_peer(wanted: Wanted, capacity: int) -> tuple[Start, LlamaCpp]:
    first = None
    if wanted.starts:
        threads = str(wanted.threads)
        command = [sys.executable, "-m", "anyshape.cli.llama_cpp", str(wanted.path), threads, SHORT_PROMPT]
        first = statistics.median(_first_output(command) for _ in range(WARM_STARTS))
    start = time.perf_counter()
    peer = LlamaCpp(wanted.path, wanted.threads, capacity)
    return Start(time.perf_counter() - start, first), peer


def _text_tokens(tokenizer: Tokenizer, count: int) -> list[int]:
    """The first `count` tokens of the text, repeated."""
    tokens = tokenizer.encode(TEXT)
    more = tokenizer.encode(TEXT, special=False)
    return (tokens + more * (count // len(more)))[:count]


def _prompt_seconds(
    readers: Mapping[str, Reader], tokens: Sequence[int], rounds: int, say: Callable[[str], object]
) -> dict[str, list[float]]:
    say(f"prompt of {len(tokens)} tokens")

    def reading(reader: Reader) -> Callable[[], object]:
        def read() -> None:
            reader.keep(0)
            reader.read(tokens)

        return read

    return alternate({name: reading(reader) for name, reader in readers.items()}, seconds=0.0, rounds=rounds)


def _step_seconds(
    readers: Mapping[str, Reader], tokens: Sequence[int], past: int, count: int
) -> dict[str, list[float]]:
    """Seconds of single tokens after `past` others. Where all tokens are read, it goes on with the first of them again."""

    def stepping(reader: Reader) -> Callable[[], object]:
        position = past
        reader.keep(0)
        reader.read(tokens[:past])

        def step() -> None:
            nonlocal position
            if position == len(tokens):
                position = past
                reader.keep(past)
            reader.read(tokens[position : position + 1])
            position += 1

        return step

    return alternate({name: stepping(reader) for name, reader in readers.items()}, seconds=0.0, rounds=count)


def _rate(seconds: Mapping[str, Sequence[float]], name: str, tokens: int) -> Rate:
    own = seconds[name]
    gain = None
    if name != PEER and PEER in seconds:
        gain = _middle([theirs / ours for theirs, ours in zip(seconds[PEER], own, strict=True)])
    return Rate(tokens, len(own), tokens / statistics.median(own), gain)


def _middle(samples: Sequence[float]) -> tuple[float, float, float]:
    """Median, 10th and 90th percentile."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    tenths = statistics.quantiles(samples, n=10, method="inclusive")
    return statistics.median(samples), tenths[0], tenths[-1]


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _first_output(command: Sequence[str]) -> float:
    """Seconds from the start of a process to the first byte that it writes."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None  # they are pipes
        first = process.stdout.read(1)
        seconds = time.perf_counter() - start
        _, errors = process.communicate()
    if process.returncode or not first:
        raise ArgumentError("a process of its own wrote no token", got=errors.decode(errors="replace")[-2000:])
    return seconds


__all__ = ["EngineSpeed", "Rate", "Reader", "SpeedReport", "Start", "Wanted", "measure_speed", "token_bytes"]
