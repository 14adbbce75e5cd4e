"""`python -m bench.llm_accuracy MODEL.gguf`: how far logits are from those of the decoded weights, and which tokens greedy choice gives.

The reference is `transformers` in f64 on the weights that the `gguf` package decodes. Beside it stand our program with both kinds of
activations, and llama.cpp where `llama-cpp-python` is installed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from anyshape.cli.llama_cpp import MODULE, is_installed
from anyshape.llm import gguf, gguf_tokenizer
from anyshape.llm.model import Model
from anyshape.support.machine import host_machine
from anyshape.support.options import Options

Logits = NDArray[Any]

SCORED = 64
"""Tokens of the text whose logits are compared."""
TEXT = """\
Call me Ishmael. Some years ago - never mind how long precisely - having little or no money in my purse, and nothing particular to
interest me on shore, I thought I would sail about a little and see the watery part of the world. It is a way I have of driving off
the spleen, and regulating the circulation. Whenever I find myself growing grim about the mouth; whenever it is a damp, drizzly
November in my soul; whenever I find myself involuntarily pausing before coffin warehouses, and bringing up the rear of every funeral
I meet; then, I account it high time to get to sea as soon as I can."""
"""H. Melville, Moby-Dick (1851), the beginning of chapter 1."""
PROMPTS = (
    "The",
    "Water boils",
    "The capital of France is",
    "def fibonacci(n):",
    "Once upon a time, in a village by the sea,",
    "<|im_start|>user\nWhat is a compiler?<|im_end|>\n<|im_start|>assistant\n",
    "1, 1, 2, 3, 5, 8, 13, 21,",
    "Dear Sir or Madam,\n\nI am writing to you because the parcel that I ordered three weeks ago has not arrived.",
    TEXT[:260],
    TEXT,
)


class Engine(Protocol):
    """One sequence, from which logits of all tokens come."""

    def restart(self) -> None:
        """Forget what was read."""
        ...

    def read(self, tokens: Sequence[int]) -> Logits:
        """Append tokens; their logits [tokens, vocabulary]."""
        ...


class Ours:
    """Our program."""

    def __init__(self, path: Path, options: Options, capacity: int) -> None:
        self._session = Model.open(path, options, logits="all").session(capacity=capacity)

    def restart(self) -> None:
        self._session.keep(0)

    def read(self, tokens: Sequence[int]) -> Logits:
        return self._session.read(tokens)[0]


class Peer:
    """llama.cpp."""

    def __init__(self, path: Path, threads: int, capacity: int) -> None:
        library: Any = import_module(MODULE)
        self._model: Any = library.Llama(
            str(path), n_ctx=capacity, n_batch=capacity, n_threads=threads, n_threads_batch=threads, logits_all=True,
            verbose=False,
        )  # fmt: skip

    def restart(self) -> None:
        self._model.n_tokens = 0

    def read(self, tokens: Sequence[int]) -> Logits:
        start = self._model.n_tokens
        self._model.eval(list(tokens))
        return np.array(self._model.scores[start : start + len(tokens)])


class Reference:
    """PyTorch in f64."""

    def __init__(self, path: Path) -> None:
        # What `from_pretrained(gguf_file=…)` does, which wants a further package.
        library: Any = transformers
        read: Any = import_module("transformers.modeling_gguf_pytorch_utils").load_gguf_checkpoint
        config = library.AutoConfig.for_model(**read(str(path), return_tensors=False)["config"])
        model = library.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        tensors = read(str(path), return_tensors=True, model_to_load=model)["tensors"]
        missing, unexpected = model.load_state_dict(tensors, strict=False)
        model.tie_weights()
        tied = {"lm_head.weight"} if config.tie_word_embeddings else set[str]()
        if not set(missing) <= tied or unexpected:
            raise ValueError(f"{path}: weights that transformers lacks {missing}, or does not know {unexpected}")
        self._model: Any = model.double().eval()
        self._cache: Any = None

    def restart(self) -> None:
        self._cache = None

    def read(self, tokens: Sequence[int]) -> Logits:
        with torch.no_grad():
            result = self._model(torch.tensor([list(tokens)]), past_key_values=self._cache, use_cache=True)
        self._cache = result.past_key_values
        return result.logits[0].numpy()


@dataclass(frozen=True)
class Difference:
    """The first token that greedy choice gives otherwise than the reference: how many agreed before it, both tokens, and by how much
    the reference's logit of its own choice is the larger."""

    after: int
    expected: int
    chosen: int
    gap: float


@dataclass(frozen=True)
class Accuracy:
    """Of one engine. `nmse_prompt`, `nmse_steps`: Σ(logit − reference)² / Σ reference² over all tokens of the text, which are read
    at once and one by one; `differences`: for each prompt, None where all tokens agree."""

    engine: str
    nmse_prompt: float
    nmse_steps: float
    differences: tuple[Difference | None, ...]


@dataclass(frozen=True)
class Choice:
    """Greedily chosen tokens, and the logits [vocabulary] that each was chosen by."""

    tokens: tuple[int, ...]
    logits: tuple[Logits, ...]


def nmse(logits: Logits, reference: Logits) -> float:
    """Σ(logits − reference)² / Σ reference², as in llama.cpp's tests of its operators."""
    return float(np.sum((logits.astype(np.float64) - reference) ** 2) / np.sum(reference**2))


def greedy(engine: Engine, prompt: Sequence[int], count: int) -> Choice:
    """The likeliest token, `count` times, whatever ends a text."""
    engine.restart()
    tokens: list[int] = []
    logits: list[Logits] = []
    unread = list(prompt)
    for _ in range(count):
        logits.append(engine.read(unread)[-1])
        unread = [int(np.argmax(logits[-1]))]
        tokens += unread
    return Choice(tuple(tokens), tuple(logits))


def first_difference(chosen: Choice, expected: Choice) -> Difference | None:
    """Where two choices part."""
    for index, (ours, theirs) in enumerate(zip(chosen.tokens, expected.tokens, strict=True)):
        if ours != theirs:
            logits = expected.logits[index]
            return Difference(index, theirs, ours, float(logits[theirs] - logits[ours]))
    return None


def read_both_ways(engine: Engine, tokens: Sequence[int]) -> tuple[Logits, Logits]:
    """The logits of all tokens, read at once and one by one."""
    engine.restart()
    at_once = engine.read(tokens)
    engine.restart()
    return at_once, np.concatenate([engine.read([token]) for token in tokens])


def measure_accuracy(path: Path, threads: int, count: int, options: Options) -> tuple[list[int], list[Accuracy]]:
    """The lengths of the prompts, and every engine's accuracy. One engine is in memory at a time, beside the reference's logits."""
    tokenizer = gguf_tokenizer.from_metadata(gguf.open(path).metadata)
    prompts = [tokenizer.encode(text) for text in PROMPTS]
    scored = tokenizer.encode(TEXT)[:SCORED]
    capacity = max(map(len, prompts)) + count
    reference = Reference(path)
    expected = read_both_ways(reference, scored)[0]
    choices = [greedy(reference, prompt, count) for prompt in prompts]
    del reference

    def measured(name: str, engine: Engine) -> Accuracy:
        at_once, steps = read_both_ways(engine, scored)
        differences = [
            first_difference(greedy(engine, prompt, count), choice)
            for prompt, choice in zip(prompts, choices, strict=True)
        ]
        return Accuracy(name, nmse(at_once, expected), nmse(steps, expected), tuple(differences))

    results = [
        measured(
            f"anyshape {activations}",
            Ours(path, replace(options, threads=threads, activations=activations), capacity),
        )
        for activations in ("int16", "int8")
    ]
    if is_installed():
        results.append(measured("llama.cpp", Peer(path, threads, capacity)))
    return [len(prompt) for prompt in prompts], results


def show(lengths: Sequence[int], results: Sequence[Accuracy], count: int, console: Console) -> None:
    """The table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(("", *(each.engine for each in results))):
        table.add_column(heading, justify="right" if number else "left")
    table.add_row("NMSE, read at once", *(f"{each.nmse_prompt:.2e}" for each in results))
    table.add_row("NMSE, one by one", *(f"{each.nmse_steps:.2e}" for each in results))
    for index, length in enumerate(lengths):
        table.add_row(f"{count} tokens after {length}", *(_difference(each.differences[index]) for each in results))
    console.print(table)


def _difference(difference: Difference | None) -> str:
    return "equal" if difference is None else f"{difference.after} equal, then a gap of {difference.gap:.2g}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.llm_accuracy", description="Compare logits with f64.")
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--threads", type=int, default=host_machine().cores, help="threads for every engine")
    parser.add_argument("--count", type=int, default=24, help="tokens that are chosen after each prompt")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = parser.parse_args()
    lengths, results = measure_accuracy(options.model, options.threads, options.count, Options.from_environment())
    if options.json:
        print(json.dumps({"lengths": lengths, "results": [asdict(each) for each in results]}, indent=1))
    else:
        show(lengths, results, options.count, Console(width=150))


if __name__ == "__main__":
    main()
