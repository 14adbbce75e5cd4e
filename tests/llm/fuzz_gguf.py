"""GGUF files with random damage: opened, they give FileFormatError or a file all of which can be read, in little memory.

`python -m tests.llm.fuzz_gguf --first 0 --count 1000000` runs as many as wanted; `tests/llm/test_gguf.py` runs 10,000.
"""

import argparse
import random
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshape.llm import gguf, gguf_tokenizer
from anyshape.support.errors import FileFormatError
from tests.llm.gguf_bytes import small

EXTREMES = (0, 1, 2, 31, 33, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**42 + 1, 2**60, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass
class Outcome:
    refused: int = 0
    accepted: int = 0


def flip(raw: bytearray, rng: random.Random) -> None:
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def overwrite(raw: bytearray, rng: random.Random) -> None:
    """A number of 4 or 8 bytes, anywhere, becomes an extreme one."""
    size = rng.choice((4, 8))
    at = rng.randrange(len(raw) - size)
    raw[at : at + size] = (rng.choice(EXTREMES) % 2 ** (8 * size)).to_bytes(size, "little")


def cut(raw: bytearray, rng: random.Random) -> None:
    del raw[rng.randrange(24, len(raw)) :]


def remove(raw: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(raw))
    del raw[at : at + rng.randrange(1, 16)]


def repeat(raw: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(raw)), rng.randrange(1, 64)
    raw[at:at] = raw[at : at + size]


DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip,
    flip,
    overwrite,
    overwrite,
    overwrite,
    cut,
    remove,
    repeat,
)


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


def fuzz(folder: Path, first: int, count: int) -> Outcome:
    """Files of `count` seeds from `first` on; anything but FileFormatError, or too much memory, is an error that names the seed."""
    path, outcome, sound = folder / "damaged.gguf", Outcome(), small().bytes()
    tracemalloc.start()
    try:
        for seed in range(first, first + count):
            rng = random.Random(seed)
            raw = bytearray(sound)
            for _ in range(rng.choice((1, 1, 2, 3))):
                rng.choice(DAMAGE)(raw, rng)
            path.write_bytes(raw)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                read_all(path)
                outcome.accepted += 1
            except FileFormatError:
                outcome.refused += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 300_000, f"seed {seed}: {peak} bytes for a file of {len(raw)}"
    finally:
        tracemalloc.stop()
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(fuzz(Path(folder), asked.first, asked.count))


if __name__ == "__main__":
    main()
