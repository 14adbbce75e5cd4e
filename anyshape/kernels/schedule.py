"""Sizes of boxes of points."""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.symbolic import Size


def product(sizes: Iterable[Size]) -> Size:
    """Points of a box; 1 for no axes."""
    total = Size.const(1)
    for size in sizes:
        total = total * size
    return total
