"""Elementwise ops on the parts of a float, and extrema that pass NaNs over: copysign, signbit, hypot, nextafter, fmax, fmin."""

from __future__ import annotations

import math
from abc import ABC
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dhlo.elementwise import EXPENSIVE, Binary, Unary, binary_samples, in_f32, unary_samples
from anyshape.dialects.dtypes import BOOL, DTYPES, F32, F64, FLOATS, I32, I64, DType
from anyshape.dialects.scalars import Scalars


class FloatBinary(Binary, ABC):
    """result = f(lhs, rhs) on floats."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_float


class CopySign(FloatBinary, op="copy_sign", aten=["aten.copysign.Tensor"]):
    """result = |lhs| with the sign of rhs, that of a zero or a NaN too."""

    SAMPLES = binary_samples("aten.copysign.Tensor", dtypes=FLOATS)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.copysign(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.copysign(*operands)


class SignBit(Unary, op="sign_bit", aten=["aten.signbit.default"]):
    """result = whether x has a minus sign, as bool: −0.0 has one."""

    SAMPLES = unary_samples("aten.signbit.default", dtypes=DTYPES)

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return BOOL

    def numpy_function(self, x: Array) -> Array:
        return np.signbit(x) if x.dtype.kind == "f" else x < 0

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,), dtype = operands, self.operand_dtype()
        if dtype.is_unsigned:
            return scalars.constant(False, BOOL.scalar)
        zero = scalars.constant(0, x.type)
        signed = scalars.copysign(scalars.constant(1, x.type), x) if dtype.is_float else x
        return scalars.compare("lt", signed, zero)


class Hypot(FloatBinary, op="hypot", aten=["aten.hypot.default"]):
    """result = √(lhs² + rhs²) without overflow on the way; +inf beside an infinity, even where the other is NaN."""

    COST = EXPENSIVE
    SAMPLES = binary_samples("aten.hypot.default", dtypes=FLOATS)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.hypot(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        dtype = self.operand_dtype()
        if dtype == F64:
            return self._scaled(scalars, *operands)
        wide = [scalars.convert(operand, dtype, F64) for operand in operands]
        return scalars.convert(self._root(scalars, *wide), F64, dtype)

    def _root(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        """Squares of f32 neither overflow nor vanish in f64."""
        total = scalars.add(scalars.mul(a, a), scalars.mul(b, b))
        return self._beside_infinity(scalars, a, b, scalars.function("sqrt", total))

    def _scaled(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        """m·√(1 + (n/m)²) with m the larger magnitude."""
        a, b = scalars.function("abs", a), scalars.function("abs", b)
        large, small = scalars.maximum(a, b), scalars.minimum(a, b)
        zero, one = scalars.constant(0.0, a.type), scalars.constant(1.0, a.type)
        divisor = scalars.select(scalars.compare("eq", large, zero), one, large)
        ratio = scalars.div(small, divisor)
        root = scalars.function("sqrt", scalars.fma(ratio, ratio, one))
        return self._beside_infinity(scalars, a, b, scalars.mul(large, root))

    def _beside_infinity(self, scalars: Scalars, a: SSAValue, b: SSAValue, result: SSAValue) -> SSAValue:
        infinity = scalars.constant(math.inf, a.type)
        for x in (a, b):
            infinite = scalars.compare("eq", scalars.function("abs", x), infinity)
            result = scalars.select(infinite, infinity, result)
        return result


class NextAfter(FloatBinary, op="next_after", aten=["aten.nextafter.default"]):
    """result = the float next to lhs on the way to rhs, rhs where they are equal; f32 and f64."""

    SAMPLES = binary_samples("aten.nextafter.default", dtypes=(F64,))

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype in (F32, F64)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        if self.operand_dtype() == F32:  # the neighbours of an f32 are not those of the same number as an f64
            return np.nextafter(lhs.astype(np.float32), rhs.astype(np.float32))
        return np.nextafter(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        """Bit patterns of one sign are in the order of magnitudes; from ±0 the way leads to the smallest denormal of rhs's sign."""
        lhs, rhs = operands
        dtype, integer = self.operand_dtype(), I32 if self.operand_dtype() == F32 else I64
        zero, one = scalars.constant(0.0, lhs.type), scalars.constant(1, integer.scalar)
        grows = scalars.logical_not(
            scalars.logical_xor(scalars.compare("gt", lhs, zero), scalars.compare("gt", rhs, lhs))
        )
        bits = scalars.bitcast(lhs, integer)
        stepped = scalars.select(grows, scalars.add(bits, one), scalars.sub(bits, one))
        smallest = scalars.copysign(scalars.bitcast(one, dtype), rhs)
        step = scalars.select(scalars.compare("eq", lhs, zero), smallest, scalars.bitcast(stepped, dtype))
        step = scalars.select(scalars.compare("eq", lhs, rhs), rhs, step)
        either_nan = scalars.logical_or(scalars.is_nan(lhs), scalars.is_nan(rhs))
        return scalars.select(either_nan, scalars.constant(math.nan, lhs.type), step)


class NumberExtremum(Binary, ABC):
    """result = an extremum of lhs and rhs: the number beside a NaN (IEEE 754-2019 maximumNumber, minimumNumber)."""

    def choose(self, scalars: Scalars, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The extremum where neither is NaN."""
        raise TypeError(f"{self.name} does not choose")

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        if not self.operand_dtype().is_float:
            return self.choose(scalars, *operands)
        return in_f32(scalars, self.operand_dtype(), operands, partial(self._number, scalars))

    def _number(self, scalars: Scalars, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        number = scalars.select(scalars.is_nan(lhs), rhs, self.choose(scalars, lhs, rhs))
        return scalars.select(scalars.is_nan(rhs), lhs, number)


class MaximumNumber(NumberExtremum, op="maximum_number", aten=["aten.fmax.default"]):
    """result = max(lhs, rhs), the other one where one is NaN; bools are or-ed."""

    SAMPLES = binary_samples("aten.fmax.default", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.fmax(lhs, rhs)

    def choose(self, scalars: Scalars, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return scalars.maximum(lhs, rhs, unsigned=self.operand_dtype().is_unsigned)


class MinimumNumber(NumberExtremum, op="minimum_number", aten=["aten.fmin.default"]):
    """result = min(lhs, rhs), the other one where one is NaN; bools are and-ed."""

    SAMPLES = binary_samples("aten.fmin.default", dtypes=DTYPES)

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.fmin(lhs, rhs)

    def choose(self, scalars: Scalars, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return scalars.minimum(lhs, rhs, unsigned=self.operand_dtype().is_unsigned)


__all__ = ["CopySign", "Hypot", "MaximumNumber", "MinimumNumber", "NextAfter", "SignBit"]
