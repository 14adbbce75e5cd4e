"""Quotients of sizes, as Python's floats have them, and their roundings to integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils._sympy import functions as symbolic

from anyshape.symbolic import Facts, Size, size_max, size_min


@dataclass(frozen=True)
class Ratio:
    """The number `numerator` / `denominator`.

    Attributes:
        is_exact: whether Python's float is the one nearest to the number; else it is one that lies between the same integers.
    """

    numerator: Size
    denominator: Size
    is_exact: bool = True

    def is_comparable_with(self, other: Ratio) -> bool:
        """Whether floats compare as the numbers do, by the denominators: different ones of sizes below 2²⁶ are no equal floats."""
        signs = all(is_never_negative(each.denominator) for each in (self, other))
        return signs and self._is_exact_beside(other) and other._is_exact_beside(self)

    def _is_exact_beside(self, other: Ratio) -> bool:
        return self.is_exact or other.denominator.constant_or(0) == 1


def is_never_negative(size: Size) -> bool:
    """Whether sizes of 0 and more make it 0 or more, as far as its terms say."""
    low, _ = _ANY.range_of(size)
    return low is not None and low >= 0


_ANY = Facts()


def rounded(kind: Any, a: Size, b: Size) -> Size:
    """The quotient of a by b rounded as `kind`, a function of PyTorch's, says; b is not 0.

    The float nearest to a / b is between the same integers, and on the same side of the half between them, for |a| below 2⁵².
    """
    return _ROUNDED[kind](a, b)


def _ceil(a: Size, b: Size) -> Size:
    return (a + b - 1) // b if is_never_negative(b) else -(-a // b)


def _trunc(a: Size, b: Size) -> Size:
    """⌊a / b⌋ where that is not negative, else ⌈a / b⌉."""
    if is_never_negative(a) and is_never_negative(b):
        return a // b
    return size_max(a // b, 0) + size_min(_ceil(a, b), 0)


def _round(a: Size, b: Size) -> Size:
    """⌊a / b + ½⌋, which is the greater one of two nearest integers: one less where it is odd."""
    nearest, beyond = (2 * a + b) // (2 * b), (2 * a + b) % (2 * b)
    distance = beyond if is_never_negative(b) else size_max(beyond, -beyond)
    return nearest - size_max(1 - distance, 0) * (nearest % 2)


_ROUNDED: Mapping[Any, Callable[[Size, Size], Size]] = {
    symbolic.CeilToInt: _ceil,
    symbolic.FloorToInt: Size.__floordiv__,
    symbolic.RoundToInt: _round,
    symbolic.TruncToInt: _trunc,
}

__all__ = ["Ratio", "is_never_negative", "rounded"]
