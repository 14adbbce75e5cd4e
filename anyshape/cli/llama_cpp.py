"""llama.cpp, through `llama-cpp-python` where that is installed: what `anyshape bench llm` measures beside our own programs.

As a program, `python -m anyshape.cli.llama_cpp MODEL THREADS PROMPT` writes the first token of an answer, for the time that takes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODULE = "llama_cpp"
MICRO_BATCH = 512
"""Tokens that llama.cpp reads at a time, its own default."""


def is_installed() -> bool:
    """Whether `llama-cpp-python` is there."""
    return find_spec(MODULE) is not None


class LlamaCpp:
    """A model with one sequence, on the interface of `anyshape.llm.model.Session`.

    Args:
        path: a GGUF file.
        threads: for prompts and for single tokens.
        capacity: tokens for which there is room.
    """

    def __init__(self, path: Path | str, threads: int, capacity: int) -> None:
        library = import_module(MODULE)
        self._model: Any = library.Llama(
            str(path), n_ctx=capacity, n_threads=threads, n_threads_batch=threads,
            n_batch=max(capacity, MICRO_BATCH), n_ubatch=MICRO_BATCH, verbose=False,
        )  # fmt: skip

    def keep(self, count: int) -> None:
        """Forget all but the first `count` tokens."""
        self._model.n_tokens = count

    def read(self, tokens: Sequence[int]) -> None:
        """Append tokens; logits of the last one are computed."""
        self._model.eval(list(tokens))

    def close(self) -> None:
        """Free the model."""
        self._model.close()

    def first_piece(self, prompt: str) -> bytes:
        """The likeliest token after a prompt, as text."""
        model = self._model
        model.eval(model.tokenize(prompt.encode(), special=True))
        piece: bytes = model.detokenize([model.sample(temp=0.0)])
        return piece


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    path, threads, prompt = arguments
    sys.stdout.buffer.write(LlamaCpp(path, int(threads), MICRO_BATCH).first_piece(prompt))


if __name__ == "__main__":
    main(sys.argv[1:])
