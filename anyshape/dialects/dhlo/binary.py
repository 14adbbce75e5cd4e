"""Elementwise functions of two operands: one class an op. Integers wrap, and no integer division ever traps.

An integer divided by 0 gives 0 here, and the remainder is 0 too; a front end whose framework raises an error puts a guard before
the op. The least integer divided by −1 wraps to itself.
"""

from __future__ import annotations

from abc import ABC
from functools import partial

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dhlo.constant import constant_value
from anyshape.dialects.dhlo.elementwise import BITWISE, EXPENSIVE, Binary, binary_samples, in_f32, is_numeric
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import BOOL, DTYPES, FLOATS, I32, INTEGERS, DType
from anyshape.dialects.scalars import Scalars, is_float
from anyshape.symbolic import Facts


class Numeric(Binary, ABC):
    """result = f(lhs, rhs) on numbers."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    @property
    def unsigned(self) -> bool:
        return self.operand_dtype().is_unsigned


class Add(Binary, op="add"):
    """result = lhs + rhs; integers wrap, bools are or-ed (StableHLO add)."""

    SAMPLES = binary_samples("aten.add.Tensor", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.add(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.add(*operands)

    @law(
        "x + 0 -> x for integers, x + (-0.0) -> x for floats (x + 0.0 turns -0.0 into 0.0)",
        example=lambda g: g(Add, g.input("m", dtype=I32), g.full(0, "m", dtype=I32)),
    )
    def drop_zero(self, builder: Builder, facts: Facts) -> Simplified:
        for this, other in (self.operands, reversed(self.operands)):
            value = constant_value(other)
            if value == 0 and (not self.operand_dtype().is_float or np.signbit(value)):
                return this
        return None


class Subtract(Numeric, op="subtract"):
    """result = lhs − rhs; integers wrap."""

    SAMPLES = binary_samples("aten.sub.Tensor")

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.subtract(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.sub(*operands)

    @law("x - 0 -> x", example=lambda g: g(Subtract, g.input("m"), g.full(0.0, "m")))
    def drop_zero(self, builder: Builder, facts: Facts) -> Simplified:
        value = constant_value(self.operands[1])
        if value != 0 or (self.operand_dtype().is_float and np.signbit(value)):  # -0.0 - (-0.0) is 0.0
            return None
        return self.operands[0]


class Multiply(Binary, op="multiply", aten=["aten.mul.Tensor"]):
    """result = lhs · rhs; integers wrap, bools are and-ed."""

    SAMPLES = binary_samples("aten.mul.Tensor", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.multiply(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.mul(*operands)

    @law("x * 1 -> x", example=lambda g: g(Multiply, g.full(1.0, "m"), g.input("m")))
    def drop_one(self, builder: Builder, facts: Facts) -> Simplified:
        for this, other in (self.operands, reversed(self.operands)):
            if constant_value(other) == 1:
                return this
        return None


class Maximum(Binary, op="maximum", aten=["aten.maximum.default"]):
    """result = max(lhs, rhs); NaN when either is NaN; bools are or-ed."""

    SAMPLES = binary_samples("aten.maximum.default", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.maximum(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.maximum(*operands, unsigned=self.operand_dtype().is_unsigned)

    @law("max(x, x) -> x", example=lambda g: g(Maximum, *[g.input("m")] * 2))
    def idempotent(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operands[0] is self.operands[1] else None


class Minimum(Binary, op="minimum", aten=["aten.minimum.default"]):
    """result = min(lhs, rhs); NaN when either is NaN; bools are and-ed."""

    SAMPLES = binary_samples("aten.minimum.default", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.minimum(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.minimum(*operands, unsigned=self.operand_dtype().is_unsigned)

    @law("min(x, x) -> x", example=lambda g: g(Minimum, *[g.input("m")] * 2))
    def idempotent(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operands[0] is self.operands[1] else None


def _modular_power(base: int, exponent: int, bits: int, signed: bool) -> int:
    if exponent < 0:
        return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
    value = pow(base, exponent, 1 << bits)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


class Power(Numeric, op="power"):
    """result = lhs ^ rhs.

    Integers wrap; a negative exponent gives the exact value rounded toward zero: 1 of 1, ±1 of −1, else 0 (of 0 too).
    """

    COST = EXPENSIVE
    SAMPLES = (
        *binary_samples("aten.pow.Tensor_Tensor", dtypes=FLOATS, values={0: "positive", 1: "unit"}),
        *binary_samples("aten.pow.Tensor_Tensor", dtypes=INTEGERS, values={1: "small"}),
    )

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        dtype = self.operand_dtype()
        if dtype.is_float:
            return np.power(lhs, rhs)
        bits, signed = 8 * dtype.bytes, not dtype.is_unsigned
        values = [_modular_power(int(a), int(b), bits, signed) for a, b in zip(lhs.flat, rhs.flat, strict=True)]
        return np.array(values, lhs.dtype).reshape(lhs.shape)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        dtype = self.operand_dtype()
        if dtype.is_float:
            return in_f32(scalars, dtype, operands, scalars.pow)
        return self._integer_power(scalars, *operands)

    @law("x ^ 1 -> x, x ^ 2 -> x * x", example=lambda g: g(Power, g.input("m"), g.full(2.0, "m")))
    def multiply_instead(self, builder: Builder, facts: Facts) -> Simplified:
        base, exponent = self.operands
        value = constant_value(exponent)
        if value == 2:
            return Multiply.emit(builder, base, base)
        return base if value == 1 else None

    def _integer_power(self, scalars: Scalars, base: SSAValue, exponent: SSAValue) -> SSAValue:
        """By squaring: base^e = Π base^(2^k) over the set bits k of e."""
        type = base.type
        zero, one = scalars.constant(0, type), scalars.constant(1, type)
        result, square = one, base
        bits = 8 * self.operand_dtype().bytes - (not self.unsigned)
        for k in range(bits):
            bit = scalars.logical_and(exponent, scalars.constant(1 << k, type))
            result = scalars.select(scalars.compare("ne", bit, zero), scalars.mul(result, square), result)
            if k + 1 < bits:
                square = scalars.mul(square, square)
        if self.unsigned:
            return result
        # The loop is right for negative exponents of ±1 too: their lowest bit tells −1 from 1.
        magnitude_is_one = scalars.logical_or(
            scalars.compare("eq", base, one), scalars.compare("eq", base, scalars.constant(-1, type))
        )
        negative = scalars.compare("lt", exponent, zero)
        vanishes = scalars.logical_and(negative, scalars.logical_not(magnitude_is_one))
        return scalars.select(vanishes, zero, result)

    @law("x ^ 1 -> x", example=lambda g: g(Power, g.input("m"), g.full(1.0, "m")))
    def drop_one(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if constant_value(self.operands[1]) == 1 else None


class Division(Numeric, ABC):
    """An integer quotient or remainder that never traps, and its float form."""

    COST = EXPENSIVE

    def safe_divisor(self, scalars: Scalars, b: SSAValue) -> SSAValue:
        """b, or 1 where b is 0 or, signed, −1: a/1 and a%1 never trap."""
        one = scalars.constant(1, b.type)
        unsafe = scalars.compare("eq", b, scalars.constant(0, b.type))
        if not self.unsigned:
            unsafe = scalars.logical_or(unsafe, scalars.compare("eq", b, scalars.constant(-1, b.type)))
        return scalars.select(unsafe, one, b)

    def truncated(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        """The integer quotient rounded towards zero; 0 where b = 0, and min / −1 = min."""
        zero = scalars.constant(0, b.type)
        quotient = scalars.trunc_div(a, self.safe_divisor(scalars, b), unsigned=self.unsigned)
        if not self.unsigned:
            is_minus_one = scalars.compare("eq", b, scalars.constant(-1, b.type))
            quotient = scalars.select(is_minus_one, scalars.neg(a), quotient)
        return scalars.select(scalars.compare("eq", b, zero), zero, quotient)

    def rounds_down(self, scalars: Scalars, remainder: SSAValue, divisor: SSAValue) -> SSAValue:
        """Whether the remainder is not 0 and its sign is not the divisor's: rounding down then differs from truncation."""
        zero = scalars.constant(0, remainder.type)
        signs = (scalars.compare("lt", value, zero) for value in (remainder, divisor))
        return scalars.logical_and(scalars.compare("ne", remainder, zero), scalars.logical_xor(*signs))


class Divide(Division, op="divide"):
    """result = lhs / rhs; x/0 of floats is ±inf or NaN as IEEE 754 says.

    Integers round towards zero (StableHLO divide): 0 where rhs = 0, and min / −1 = min.
    """

    SAMPLES = (
        *binary_samples("aten.div.Tensor", dtypes=FLOATS),
        *binary_samples(
            "aten.div.Tensor_mode", dtypes=INTEGERS, values={1: "nonzero"}, keywords={"rounding_mode": "trunc"}
        ),
    )

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        if lhs.dtype.kind == "f":
            return np.divide(lhs, rhs)
        whole = np.floor_divide(lhs, rhs)
        return whole + ((np.fmod(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0)))

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        return scalars.div(lhs, rhs) if is_float(lhs) else self.truncated(scalars, lhs, rhs)

    @law("x / 1 -> x", example=lambda g: g(Divide, g.input("m"), g.full(1.0, "m")))
    def drop_one(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if constant_value(self.operands[1]) == 1 else None


class Remainder(Division, op="remainder", aten=["aten.fmod.Tensor"]):
    """result = lhs − rhs · trunc(lhs / rhs): C's fmod, with the sign of lhs (StableHLO remainder). Integers: 0 where rhs = 0."""

    SAMPLES = binary_samples("aten.fmod.Tensor", values={1: "nonzero"})

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.fmod(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        if is_float(lhs):
            return in_f32(scalars, self.operand_dtype(), operands, scalars.rem)
        return scalars.trunc_rem(lhs, self.safe_divisor(scalars, rhs), unsigned=self.unsigned)


class Modulo(Division, op="modulo", aten=["aten.remainder.Tensor"]):
    """result = lhs − rhs · ⌊lhs / rhs⌋: Python's %, with the sign of rhs. Integers: 0 where rhs = 0."""

    SAMPLES = binary_samples("aten.remainder.Tensor", values={1: "nonzero"})

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return _float_modulo(lhs, rhs) if lhs.dtype.kind == "f" else np.remainder(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        if is_float(lhs):
            return in_f32(scalars, self.operand_dtype(), operands, partial(self._float, scalars))
        safe = self.safe_divisor(scalars, rhs)
        remainder = scalars.trunc_rem(lhs, safe, unsigned=self.unsigned)
        return remainder if self.unsigned else self._of(scalars, remainder, safe)

    def _float(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._of(scalars, scalars.rem(a, b), b)

    def _of(self, scalars: Scalars, remainder: SSAValue, divisor: SSAValue) -> SSAValue:
        shifted = scalars.add(remainder, divisor)
        return scalars.select(self.rounds_down(scalars, remainder, divisor), shifted, remainder)


def _float_modulo(lhs: Array, rhs: Array) -> Array:
    rest = np.fmod(lhs, rhs)
    return np.where((rest != 0) & ((rest < 0) != (rhs < 0)), rest + rhs, rest)


class FloorDivide(Division, op="floor_divide", aten=["aten.floor_divide.default"]):
    """result = ⌊lhs / rhs⌋; integers: 0 where rhs = 0, and min // −1 = min.

    Floats divide what the exact remainder leaves, (lhs − fmod(lhs, rhs)) / rhs, as Python and ATen do: 1.0 // 0.1 = 9.
    """

    SAMPLES = binary_samples("aten.floor_divide.default", values={1: "nonzero"})

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        if lhs.dtype.kind != "f":
            return np.floor_divide(lhs, rhs)
        rest = np.fmod(lhs, rhs)
        quotient = np.rint((lhs - rest) / rhs) - ((rest != 0) & ((rest < 0) != (rhs < 0)))
        return np.where(rhs == 0, lhs / rhs, quotient)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        if is_float(lhs):
            return in_f32(scalars, self.operand_dtype(), operands, partial(self._float, scalars))
        quotient = self.truncated(scalars, lhs, rhs)
        if self.unsigned:
            return quotient
        safe = self.safe_divisor(scalars, rhs)
        remainder = scalars.trunc_rem(lhs, safe)
        below = scalars.sub(quotient, scalars.constant(1, rhs.type))
        return scalars.select(self.rounds_down(scalars, remainder, safe), below, quotient)

    def _float(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        rest = scalars.rem(a, b)
        truncated = scalars.function("roundeven", scalars.div(scalars.sub(a, rest), b))
        below = scalars.sub(truncated, scalars.constant(1.0, b.type))
        quotient = scalars.select(self.rounds_down(scalars, rest, b), below, truncated)
        by_zero = scalars.compare("eq", b, scalars.constant(0.0, b.type))
        return scalars.select(by_zero, scalars.div(a, b), quotient)


class Bitwise(Binary, ABC):
    """result = f(lhs, rhs) on bools, or on every bit of integers."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return not dtype.is_float

    def ones(self) -> int:
        """The value with every bit set."""
        return 1 if self.operand_dtype().is_bool else 255 if self.operand_dtype().is_unsigned else -1


class And(Bitwise, op="and", aten=["aten.bitwise_and.Tensor"]):
    """result = lhs and rhs."""

    SAMPLES = binary_samples("aten.bitwise_and.Tensor", dtypes=BITWISE)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.bitwise_and(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.logical_and(*operands)

    @law(
        "x and true -> x; x and x -> x", example=lambda g: g(And, g.input("m", dtype=BOOL), g.full(1, "m", dtype=BOOL))
    )
    def drop_neutral(self, builder: Builder, facts: Facts) -> Simplified:
        return _drop_neutral(self, self.ones())

    @law("x and false -> false", example=lambda g: g(And, g.full(0, "m", dtype=BOOL), g.input("m", dtype=BOOL)))
    def absorb(self, builder: Builder, facts: Facts) -> Simplified:
        return _absorbing(self, 0)


class Or(Bitwise, op="or", aten=["aten.bitwise_or.Tensor"]):
    """result = lhs or rhs."""

    SAMPLES = binary_samples("aten.bitwise_or.Tensor", dtypes=BITWISE)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.bitwise_or(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.logical_or(*operands)

    @law("x or false -> x; x or x -> x", example=lambda g: g(Or, g.full(0, "m", dtype=BOOL), g.input("m", dtype=BOOL)))
    def drop_neutral(self, builder: Builder, facts: Facts) -> Simplified:
        return _drop_neutral(self, 0)

    @law("x or true -> true", example=lambda g: g(Or, g.input("m", dtype=BOOL), g.full(1, "m", dtype=BOOL)))
    def absorb(self, builder: Builder, facts: Facts) -> Simplified:
        return _absorbing(self, self.ones())


class Xor(Bitwise, op="xor", aten=["aten.bitwise_xor.Tensor"]):
    """result = lhs exclusive-or rhs."""

    SAMPLES = binary_samples("aten.bitwise_xor.Tensor", dtypes=BITWISE)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.bitwise_xor(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.logical_xor(*operands)

    @law("x xor false -> x", example=lambda g: g(Xor, g.input("m", dtype=BOOL), g.full(0, "m", dtype=BOOL)))
    def drop_false(self, builder: Builder, facts: Facts) -> Simplified:
        return _drop_neutral(self, 0) if self.operands[0] is not self.operands[1] else None


def _drop_neutral(op: Bitwise, neutral: int) -> Simplified:
    lhs, rhs = op.operands
    if lhs is rhs or constant_value(rhs) == neutral:
        return lhs
    return rhs if constant_value(lhs) == neutral else None


def _absorbing(op: Bitwise, value: int) -> Simplified:
    return next((operand for operand in op.operands if constant_value(operand) == value), None)


class Shift(Binary, ABC):
    """result = lhs with its bits moved by rhs; an rhs outside [0, bits) moves every bit out."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_integer

    def in_range(self, scalars: Scalars, rhs: SSAValue) -> SSAValue:
        return scalars.compare("lt", rhs, scalars.constant(8 * self.operand_dtype().bytes, rhs.type), unsigned=True)


class ShiftLeft(Shift, op="shift_left", aten=["aten.bitwise_left_shift.Tensor"]):
    """result = lhs · 2^rhs, wrapping; 0 where rhs is outside [0, bits)."""

    SAMPLES = binary_samples("aten.bitwise_left_shift.Tensor", dtypes=INTEGERS, values={1: "small"})

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        inside = (rhs >= 0) & (rhs < 8 * lhs.dtype.itemsize)
        return np.where(inside, np.left_shift(lhs, np.where(inside, rhs, 0)), 0)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        zero, inside = scalars.constant(0, lhs.type), self.in_range(scalars, rhs)
        return scalars.select(inside, scalars.shift_left(lhs, scalars.select(inside, rhs, zero)), zero)

    @law("x << 0 -> x", example=lambda g: g(ShiftLeft, g.input("m", dtype=I32), g.full(0, "m", dtype=I32)))
    def drop_zero(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if constant_value(self.operands[1]) == 0 else None


class ShiftRightArithmetic(Shift, op="shift_right_arithmetic", aten=["aten.bitwise_right_shift.Tensor"]):
    """result = ⌊lhs / 2^rhs⌋; where rhs is outside [0, bits): −1 of negative lhs, else 0."""

    SAMPLES = binary_samples("aten.bitwise_right_shift.Tensor", dtypes=INTEGERS, values={1: "small"})

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        inside = (rhs >= 0) & (rhs < 8 * lhs.dtype.itemsize)
        return np.where(inside, np.right_shift(lhs, np.where(inside, rhs, 0)), np.where(lhs < 0, -1, 0))

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        inside, unsigned = self.in_range(scalars, rhs), self.operand_dtype().is_unsigned
        last = scalars.constant(8 * self.operand_dtype().bytes - 1, rhs.type)
        shifted = scalars.shift_right(lhs, scalars.select(inside, rhs, last), unsigned=unsigned)
        return scalars.select(inside, shifted, scalars.constant(0, lhs.type)) if unsigned else shifted

    @law("x >> 0 -> x", example=lambda g: g(ShiftRightArithmetic, g.input("m", dtype=I32), g.full(0, "m", dtype=I32)))
    def drop_zero(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if constant_value(self.operands[1]) == 0 else None


__all__ = [
    "Add", "And", "Divide", "FloorDivide", "Maximum", "Minimum", "Modulo", "Multiply", "Or", "Power", "Remainder", "ShiftLeft",
    "ShiftRightArithmetic", "Subtract", "Xor",
]  # fmt: skip
