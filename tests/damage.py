"""Random damage to files, and the loop that opens them: each is refused with a typed error, or read, in little memory."""

from __future__ import annotations

import argparse
import random
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

EXTREMES = (
    0,
    1,
    2,
    31,
    33,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**42 + 1,
    2**60,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)

Damage: TypeAlias = Callable[[bytearray, random.Random], None]


@dataclass
class Outcome:
    """What became of the files."""

    refused: int = 0
    accepted: int = 0


def flip(raw: bytearray, rng: random.Random) -> None:
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def overwrite(raw: bytearray, rng: random.Random) -> None:
    """A number of 4 or 8 bytes, anywhere, becomes an extreme one."""
    size = rng.choice((4, 8))
    at = rng.randrange(max(1, len(raw) - size))
    raw[at : at + size] = (rng.choice(EXTREMES) % 2 ** (8 * size)).to_bytes(size, "little")


def cut(raw: bytearray, rng: random.Random) -> None:
    del raw[rng.randrange(16, max(17, len(raw))) :]


def remove(raw: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(raw))
    del raw[at : at + rng.randrange(1, 16)]


def repeat(raw: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(raw)), rng.randrange(1, 64)
    raw[at:at] = raw[at : at + size]


BYTES: Sequence[Damage] = (flip, flip, overwrite, overwrite, overwrite, cut, remove, repeat)


def damaged(sound: bytes, rng: random.Random, damage: Sequence[Damage] = BYTES) -> bytes:
    """The file with one to three kinds of damage."""
    raw = bytearray(sound)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(damage)(raw, rng)
    return bytes(raw)


def open_damaged(
    path: Path,
    seeds: range,
    make: Callable[[random.Random], bytes],
    read: Callable[[Path], object],
    *,
    refusal: type[Exception],
    most_bytes: int,
    mistake: type[Exception] | tuple[type[Exception], ...] = (),
) -> Outcome:
    """Write and read the file of each seed. AssertionError, with the seed, for anything but a refusal, and for too much memory.

    Args:
        make: the damaged file.
        refusal: the error that a file may give.
        mistake: what is none, though it is of that class.
        most_bytes: memory that reading one may take.
    """
    outcome = Outcome()
    tracemalloc.start()
    try:
        for seed in seeds:
            path.write_bytes(make(random.Random(seed)))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                read(path)
                outcome.accepted += 1
            except Exception as error:
                if isinstance(error, mistake) or not isinstance(error, refusal):
                    raise AssertionError(f"seed {seed}: {error!r}") from error
                outcome.refused += 1
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < most_bytes, f"seed {seed}: {peak} bytes for a file of {path.stat().st_size}"
    finally:
        tracemalloc.stop()
    return outcome


def main(description: str | None, fuzz: Callable[[Path, int, int], Outcome], count: int) -> None:
    """Run the seeds that the command line asks for, `count` where it does not say how many."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=count)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(fuzz(Path(folder), asked.first, asked.count))


__all__ = ["EXTREMES", "Damage", "Outcome", "damaged", "main", "open_damaged"]
