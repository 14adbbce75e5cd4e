"""What it costs to see whether weights changed since the last call: with everything in the caches, and with nothing there.

    python -m bench.watch

Beside it, what a cold line costs on this machine, asked for with many others: one after another in memory, and each in a page of
its own, where finding the page is part of it. A check reads about nine lines of a weight, in four pages or so.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from anyshape.frontends.torch.live import _Notes  # pyright: ignore[reportPrivateUsage]

ROUNDS = 60
FLUSHED = 96 << 20
"""Bytes that are read between two cold calls: more than the caches hold."""
SHAPES = {"384 × 384": (384, 384), "64": (64,)}
FEW, MANY = 40, 400
LINE, PAGE, LINES = 64, 4096, 9


def main() -> None:
    """Print nanoseconds for each weight, as the slope between two numbers of weights, and what a call costs whatever their number."""
    flushed = np.ones(FLUSHED // 8)
    for name, shape in SHAPES.items():
        weights = tuple(torch.nn.Parameter(torch.randn(shape), requires_grad=False) for _ in range(MANY))
        for kind, contents in (("pointers, versions, samples", True), ("pointers", False)):
            hot, cold = (_line(weights, contents, each) for each in (None, flushed))
            print(f"weights of {name}, {kind}: {hot[0]:.0f} ns each hot, {cold[0]:.0f} cold;", end=" ")
            print(f"a call {hot[1] / 1e3:.1f} µs hot, {cold[1] / 1e3:.1f} cold")
    for name, stride in (("neighbours", LINE), ("in a page each", PAGE)):
        lines = np.ones(MANY * LINES * stride // 8)  # zeros would all lie in one page
        places = np.random.default_rng(0).permutation(MANY * LINES) * (stride // 8)
        taken = _nanoseconds(lambda lines=lines, places=places: lines.take(places), flushed)
        print(f"a cold line among many, {name}: {taken / places.size:.0f} ns")


def _line(weights: tuple[torch.Tensor, ...], contents: bool, flushed: np.ndarray | None) -> tuple[float, float]:
    """Slope and intercept of the nanoseconds that n weights take."""
    taken: list[float] = []
    for count in (FEW, MANY):
        some = weights[:count]
        notes = _Notes(some, contents=contents)
        taken.append(_nanoseconds(lambda notes=notes, some=some: notes.is_true_of(some), flushed))
    slope = (taken[1] - taken[0]) / (MANY - FEW)
    return slope, taken[0] - slope * FEW


def _nanoseconds(call: Callable[[], object], flushed: np.ndarray | None) -> float:
    """The median of a call; before each, other memory is read."""
    taken: list[int] = []
    for _ in range(ROUNDS):
        if flushed is not None:
            flushed.sum()
        start = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
