"""GGUF files with random damage: opened, they give FileFormatError or a file all of which can be read, in little memory.

`python -m tests.llm.fuzz_gguf --first 0 --count 1000000` runs as many as wanted; `tests/llm/test_gguf.py` runs 10,000.
"""

from pathlib import Path

import numpy as np

from anyshape.llm import gguf, gguf_tokenizer
from anyshape.support.errors import FileFormatError
from tests import damage
from tests.llm.gguf_bytes import small


def read_all(path: Path) -> None:
    """Open a file, read all of it and make its tokenizer."""
    file = gguf.open(path)
    for value in file.metadata.values():
        if not isinstance(value, str | int | float | np.ndarray):
            list(value)
    for tensor in file.tensors.values():
        int(tensor.data.sum())
    tokenizer = gguf_tokenizer.from_metadata(file.metadata)
    assert tokenizer.decode(range(tokenizer.size), control=True)
    tokenizer.encode("<s>▁the ä ")


def fuzz(folder: Path, first: int, count: int) -> damage.Outcome:
    """Files of `count` seeds from `first` on; anything but FileFormatError, or too much memory, is an error that names the seed."""
    sound, seeds = small().bytes(), range(first, first + count)
    return damage.open_damaged(
        folder / "damaged.gguf",
        seeds,
        lambda rng: damage.damaged(sound, rng),
        read_all,
        refusal=FileFormatError,
        most_bytes=300_000,
    )


if __name__ == "__main__":
    damage.main(__doc__, fuzz, 100_000)
