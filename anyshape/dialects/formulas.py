"""Formulas of scalar floats in Python's operators: `Real` wraps a scalar, numbers beside it become constants of its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeAlias

from xdsl.ir import SSAValue

from anyshape.dialects.scalars import Comparison, Scalars

Operand: TypeAlias = "Real | float"


@dataclass(frozen=True, slots=True)
class Condition:
    """An i1 under construction; `&`, `|` and `~` are what they are of bools."""

    scalars: Scalars
    value: SSAValue

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.scalars, self.scalars.logical_and(self.value, other.value))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.scalars, self.scalars.logical_or(self.value, other.value))

    def __invert__(self) -> Condition:
        return Condition(self.scalars, self.scalars.logical_not(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A scalar float under construction. Comparisons are ordered (false with NaN), but `ne`."""

    scalars: Scalars
    value: SSAValue

    def of(self, operand: Operand) -> Real:
        """A number as a constant of this type; a scalar as it is."""
        if isinstance(operand, Real):
            return operand
        return Real(self.scalars, self.scalars.constant(operand, self.value.type))

    def __add__(self, other: Operand) -> Real:
        return Real(self.scalars, self.scalars.add(self.value, self.of(other).value))

    def __radd__(self, other: float) -> Real:
        return self.of(other) + self

    def __sub__(self, other: Operand) -> Real:
        return Real(self.scalars, self.scalars.sub(self.value, self.of(other).value))

    def __rsub__(self, other: float) -> Real:
        return self.of(other) - self

    def __mul__(self, other: Operand) -> Real:
        return Real(self.scalars, self.scalars.mul(self.value, self.of(other).value))

    def __rmul__(self, other: float) -> Real:
        return self.of(other) * self

    def __truediv__(self, other: Operand) -> Real:
        return Real(self.scalars, self.scalars.div(self.value, self.of(other).value))

    def __rtruediv__(self, other: float) -> Real:
        return self.of(other) / self

    def __neg__(self) -> Real:
        return Real(self.scalars, self.scalars.neg(self.value))

    def __abs__(self) -> Real:
        return function("abs", self)

    def _compare(self, how: Comparison, other: Operand) -> Condition:
        return Condition(self.scalars, self.scalars.compare(how, self.value, self.of(other).value))

    def __lt__(self, other: Operand) -> Condition:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Condition:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Condition:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Condition:
        return self._compare("ge", other)

    def equals(self, other: Operand) -> Condition:
        """self = other"""
        return self._compare("eq", other)

    def is_nan(self) -> Condition:
        return Condition(self.scalars, self.scalars.is_nan(self.value))

    def with_sign_of(self, other: Operand) -> Real:
        """|self| with the sign of `other`."""
        return Real(self.scalars, self.scalars.copysign(self.value, self.of(other).value))


def function(name: str, x: Real) -> Real:
    """One of `Scalars.FUNCTIONS` of a scalar."""
    return Real(x.scalars, x.scalars.function(name, x.value))


def fma(a: Real, b: Operand, c: Operand) -> Real:
    """a·b + c, rounded once."""
    return Real(a.scalars, a.scalars.fma(a.value, a.of(b).value, a.of(c).value))


def power(base: Real, exponent: Operand) -> Real:
    return Real(base.scalars, base.scalars.pow(base.value, base.of(exponent).value))


def maximum(a: Real, b: Operand) -> Real:
    """NaN where either is."""
    return Real(a.scalars, a.scalars.maximum(a.value, a.of(b).value))


def minimum(a: Real, b: Operand) -> Real:
    """NaN where either is."""
    return Real(a.scalars, a.scalars.minimum(a.value, a.of(b).value))


def where(condition: Condition, if_true: Operand, if_false: Operand) -> Real:
    """One of two operands, of which one at least is no number."""
    like = if_true if isinstance(if_true, Real) else if_false
    assert isinstance(like, Real)
    scalars = condition.scalars
    return Real(scalars, scalars.select(condition.value, like.of(if_true).value, like.of(if_false).value))


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c₀ + c₁·x + c₂·x² + … by Horner's rule."""
    result = x.of(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


def chebyshev(t: Real, coefficients: Sequence[float]) -> Real:
    """Σ c_k·T_k(t), |t| ≤ 1, by Clenshaw's recurrence."""
    twice = t + t
    after, last = t.of(0.0), t.of(coefficients[-1])
    for coefficient in reversed(coefficients[1:-1]):
        after, last = last, fma(twice, last, coefficient) - after
    return fma(t, last, coefficients[0]) - after


def onto_unit(x: Real, low: float, high: float) -> Real:
    """[low, high] mapped onto [−1, 1]; x outside is clamped, so that what is not selected stays finite."""
    inside = minimum(maximum(x, low), high)
    slope = 2.0 / (high - low)
    return fma(inside, slope, -1.0 - slope * low)


def formula(of_reals: Callable[..., Real]) -> Callable[..., SSAValue]:
    """A function of `Real`s as one of `(scalars, *values)`."""

    @wraps(of_reals)
    def of_values(scalars: Scalars, *values: SSAValue) -> SSAValue:
        return of_reals(*(Real(scalars, value) for value in values)).value

    return of_values


__all__ = [
    "Condition", "Operand", "Real", "chebyshev", "fma", "formula", "function", "maximum", "minimum", "onto_unit", "polynomial", "power",
    "where",
]  # fmt: skip
