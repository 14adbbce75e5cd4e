"""How a kernel's points are divided: over how many points it runs, and how many are worth a thread."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.symbolic import Size, size_max

WORTHWHILE = 32768
"""Simple operations that pay for waking another thread: about 2 µs at 16 lanes."""


def product(sizes: Sequence[Size]) -> Size:
    total = Size.const(1)
    for size in sizes:
        total = total * size
    return total


def grain_of(inner: Size, cost: int) -> Size:
    """Points a thread should at least get when one point runs `inner` elements of this cost each."""
    work = size_max(inner * max(cost, 1), 1)
    return size_max(Size.const(WORTHWHILE) // work, 1)
