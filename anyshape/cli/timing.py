"""Fair timing of several functions that do the same work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

SETTLING = 0.015
"""Seconds for which threads may spin after their last work."""
OUTLASTS = 0.05
"""Seconds of a call that needs no settling: the first of them are few."""


def alternate(
    functions: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    block: int = 3,
    rounds: int = 3,
    settling: float = SETTLING,
) -> dict[str, list[float]]:
    """Seconds of each timed call, the functions taking turns.

    In a round every function runs `block` timed calls in a row, after some that are not timed: the thread pool of the
    function before may still be spinning (that of GNU OpenMP does for several milliseconds, and takes a core as long), and
    caches hold its data. The order turns round from one round to the next,
    so that a drift of the clock favours nobody.

    Args:
        functions: name -> what to time.
        seconds: start no further round after this time.
        block: timed calls in a row; fewer, down to one, where a call takes long beside `seconds`.
        rounds: rounds at least.
        settling: seconds of untimed calls before a block, one call at least.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    start = time.perf_counter()
    slowest = max(_timed(function) for function in functions.values())
    block = max(1, min(block, int(seconds / (slowest * len(functions) * rounds + 1e-9))))
    order = list(functions)
    done = 0
    while done < rounds or time.perf_counter() - start < seconds:
        for name in order:
            if slowest < OUTLASTS:
                settle(functions[name], settling)
            samples[name] += [_timed(functions[name]) for _ in range(block)]
        order.reverse()
        done += 1
    return samples


def settle(function: Callable[[], object], seconds: float = SETTLING) -> None:
    """Untimed calls, one at least, until what another function's threads did has passed."""
    start = time.perf_counter()
    function()
    while time.perf_counter() - start < seconds:
        function()


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
