"""Fractions of sizes: what exporters compute in floats, floor(size · 0.5), on the way from one shape to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from anyshape.symbolic import Size

_GREATEST_DIVISOR = 2**20


@dataclass(frozen=True)
class Ratio:
    """size / divisor exactly, with a divisor above 0."""

    size: Size
    divisor: int

    @staticmethod
    def of(element: object) -> Ratio | None:
        """A size, a ratio or a number as a ratio; None for a number that is no fraction of a small divisor."""
        if isinstance(element, Ratio):
            return element
        if isinstance(element, Size):
            return Ratio(element, 1)
        if not isinstance(element, int | float) or not math.isfinite(element):
            return None
        fraction = Fraction(element)
        if fraction.denominator > _GREATEST_DIVISOR or abs(fraction.numerator) >= 2**53:
            return None
        return Ratio(Size.const(fraction.numerator), fraction.denominator)

    def __add__(self, other: Ratio) -> Ratio:
        return _reduced(self.size * other.divisor + other.size * self.divisor, self.divisor * other.divisor)

    def __sub__(self, other: Ratio) -> Ratio:
        return _reduced(self.size * other.divisor - other.size * self.divisor, self.divisor * other.divisor)

    def __mul__(self, other: Ratio) -> Ratio:
        return _reduced(self.size * other.size, self.divisor * other.divisor)

    def divided(self, other: Ratio) -> Ratio | None:
        """The quotient; None where what it is divided by depends on sizes, or is 0."""
        if not other.size.is_constant or other.size.value == 0:
            return None
        sign = 1 if other.size.value > 0 else -1
        return _reduced(self.size * (sign * other.divisor), self.divisor * abs(other.size.value))

    def floor(self) -> Size:
        return self.size // self.divisor

    def ceil(self) -> Size:
        return -((-self.size) // self.divisor)


def _reduced(size: Size, divisor: int) -> Ratio:
    common = math.gcd(divisor, *(coefficient for _, coefficient in size.terms))
    return Ratio(size // common, divisor // common)


__all__ = ["Ratio"]
