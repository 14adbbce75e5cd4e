"""Fractions of sizes: what exporters compute in floats, floor(size · 0.5), on the way from one shape to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from anyshape.symbolic import Size, size_max, size_min

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

    def larger(self, other: Ratio) -> Ratio:
        return _reduced(size_max(self.size * other.divisor, other.size * self.divisor), self.divisor * other.divisor)

    def smaller(self, other: Ratio) -> Ratio:
        return _reduced(size_min(self.size * other.divisor, other.size * self.divisor), self.divisor * other.divisor)

    def floor(self) -> Size:
        return self.size // self.divisor

    def ceil(self) -> Size:
        return -((-self.size) // self.divisor)

    def nearest(self) -> Size:
        """The nearest integer, the even one of two: ⌊x + 1/2⌋, less 1 where x + 1/2 is an odd integer."""
        doubled, period = self.size * 2 + self.divisor, 2 * self.divisor
        up = doubled // period
        if self.divisor % 2:
            return up
        between = 1 - size_min(doubled % period, 1)
        return up - between * (up % 2)


def _reduced(size: Size, divisor: int) -> Ratio:
    common = math.gcd(divisor, *(coefficient for _, coefficient in size.terms))
    return Ratio(size // common, divisor // common)


__all__ = ["Ratio"]
