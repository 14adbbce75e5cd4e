"""Values of symbols, from the axes whose size they are."""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.symbolic.expr import Size


def bind_symbols(axes: Iterable[tuple[Size, int]]) -> dict[str, int]:
    """The value of each symbol that is the whole size of an axis, by the first such (size, extent); other sizes bind nothing."""
    values: dict[str, int] = {}
    for size, extent in axes:
        symbol = size.as_symbol()
        if symbol is not None:
            values.setdefault(symbol, int(extent))
    return values


__all__ = ["bind_symbols"]
