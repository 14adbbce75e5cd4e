"""Fair timing of several functions that do the same work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def alternate(
    functions: Mapping[str, Callable[[], object]], *, seconds: float, block: int = 3, rounds: int = 3
) -> dict[str, list[float]]:
    """Seconds of each timed call, the functions taking turns.

    In a round every function runs `block` timed calls in a row, after one that is not timed: the thread pool of the
    function before may still be spinning, and caches hold its data. The order turns round from one round to the next,
    so that a drift of the clock favours nobody.

    Args:
        functions: name -> what to time.
        seconds: start no further round after this time.
        block: timed calls in a row; fewer, down to one, where a call takes long beside `seconds`.
        rounds: rounds at least.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    start = time.perf_counter()
    slowest = max(_timed(function) for function in functions.values())
    block = max(1, min(block, int(seconds / (slowest * len(functions) * rounds + 1e-9))))
    order = list(functions)
    done = 0
    while done < rounds or time.perf_counter() - start < seconds:
        for name in order:
            _settle(functions[name], slowest)
            samples[name] += [_timed(functions[name]) for _ in range(block)]
        order.reverse()
        done += 1
    return samples


def _settle(function: Callable[[], object], slowest: float) -> None:
    """One untimed call; a call of more than 50 ms outlasts whatever still spins, and needs none."""
    if slowest < 0.05:
        function()


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
