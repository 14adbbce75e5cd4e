"""Greatest common divisors and least common multiples of integers, by Euclid's algorithm."""

from __future__ import annotations

from abc import ABC

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dhlo.binary import Division
from anyshape.dialects.dhlo.elementwise import binary_samples
from anyshape.dialects.dtypes import I32, I64, INTEGERS, DType
from anyshape.dialects.scalars import Scalars


def _most_steps(bits: int) -> int:
    """Steps of Euclid's algorithm after which every pair below 2^bits has come to its end (G. Lamé, 1844).

    Neighbours among Fibonacci's numbers take the most, one a number; where the first is the larger one, one step more turns them.
    """
    steps, low, high = 1, 1, 1
    while high <= 1 << bits:
        steps, low, high = steps + 1, high, low + high
    return steps


class CommonDivision(Division, ABC):
    """An op on the greatest common divisor of two integers.

    The lanes of a vector end after different numbers of steps, so all take as many as the width of the dtype may need, and those
    behind the end of a pair leave it as it is.
    """

    COST = 400

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_integer

    def divisor(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        """gcd(a, b): (a, b) becomes (b mod a, a) until a is 0, which leaves it in b."""
        zero = scalars.constant(0, a.type)
        if not self.unsigned:
            a, b = (_magnitude(scalars, each) for each in (a, b))
        for _ in range(_most_steps(8 * self.operand_dtype().bytes)):
            ended = scalars.compare("eq", a, zero)
            rest = scalars.trunc_rem(b, self.safe_divisor(scalars, a), unsigned=self.unsigned)
            a, b = scalars.select(ended, a, rest), scalars.select(ended, b, a)
        return b


class GreatestCommonDivisor(CommonDivision, op="greatest_common_divisor", aten=["aten.gcd.default"]):
    """result = the largest number that divides lhs and rhs: gcd(0, x) = |x|, gcd(0, 0) = 0.

    The magnitude of the least signed number is no number of its dtype; as in PyTorch it is taken as it stands, remainders too.
    """

    SAMPLES = (
        *binary_samples("aten.gcd.default", dtypes=INTEGERS),
        *binary_samples("aten.gcd.default", dtypes=(I32,), values={0: "small", 1: "small"}),
    )

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return _greatest(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return self.divisor(scalars, *operands)


class LeastCommonMultiple(CommonDivision, op="least_common_multiple", aten=["aten.lcm.default"]):
    """result = |lhs / gcd(lhs, rhs) · rhs|, of integers below 32 bits computed in 32, and wrapped; 0 where either is 0."""

    # PyTorch's own traps where it divides the least number by −1.
    SAMPLES = (
        *binary_samples("aten.lcm.default", dtypes=INTEGERS, values={0: "positive", 1: "positive"}),
        *binary_samples("aten.lcm.default", dtypes=(I32,), values={0: "small", 1: "small"}),
    )

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        divisor = _greatest(lhs, rhs)
        quotient = _quotient(lhs, np.where(divisor == 0, 1, divisor).astype(lhs.dtype))
        wide = np.promote_types(lhs.dtype, np.int32)
        product = quotient.astype(wide) * rhs.astype(wide)
        return np.where(divisor == 0, 0, np.abs(product)).astype(lhs.dtype)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (lhs, rhs), dtype = operands, self.operand_dtype()
        wide = dtype if dtype == I64 else I32
        quotient = self.truncated(scalars, lhs, self.divisor(scalars, lhs, rhs))
        product = scalars.mul(*(scalars.convert(each, dtype, wide) for each in (quotient, rhs)))
        return scalars.convert(_magnitude(scalars, product), wide, dtype)


def _magnitude(scalars: Scalars, x: SSAValue) -> SSAValue:
    """|x|, which is the least number itself where no other is as large."""
    return scalars.select(scalars.compare("lt", x, scalars.constant(0, x.type)), scalars.neg(x), x)


def _greatest(lhs: Array, rhs: Array) -> Array:
    a, b = np.abs(lhs), np.abs(rhs)
    while np.any(a != 0):
        rest = np.fmod(b, np.where(a == 0, 1, a).astype(a.dtype))
        a, b = np.where(a == 0, a, rest), np.where(a == 0, b, a)
    return b


def _quotient(lhs: Array, rhs: Array) -> Array:
    """Rounded towards zero."""
    whole = np.floor_divide(lhs, rhs)
    return whole + ((np.fmod(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0)))


__all__ = ["GreatestCommonDivisor", "LeastCommonMultiple"]
