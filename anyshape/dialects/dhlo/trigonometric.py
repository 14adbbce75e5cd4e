"""Trigonometric and hyperbolic functions and their inverses, on floats: one class an op. Edge cases are C's Annex F."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dhlo.elementwise import EXPENSIVE, Binary, FloatUnary, binary_samples, in_f32, unary_samples
from anyshape.dialects.dtypes import FLOATS, DType
from anyshape.dialects.scalars import Scalars


class Tan(FloatUnary, op="tan", aten=["aten.tan.default"]):
    """result = tan x, x in radians."""

    FUNCTION = "tan"
    SAMPLES = unary_samples("aten.tan.default")

    def numpy_function(self, x: Array) -> Array:
        return np.tan(x)


class Acos(FloatUnary, op="acos", aten=["aten.acos.default"]):
    """result = the angle in [0, π] whose cosine is x; NaN outside [−1, 1]."""

    FUNCTION = "acos"
    SAMPLES = (*unary_samples("aten.acos.default"), *unary_samples("aten.acos.default", values="unit"))

    def numpy_function(self, x: Array) -> Array:
        return np.arccos(x)


class Asin(FloatUnary, op="asin", aten=["aten.asin.default"]):
    """result = the angle in [−π/2, π/2] whose sine is x; NaN outside [−1, 1]."""

    FUNCTION = "asin"
    SAMPLES = (*unary_samples("aten.asin.default"), *unary_samples("aten.asin.default", values="unit"))

    def numpy_function(self, x: Array) -> Array:
        return np.arcsin(x)


class Atan(FloatUnary, op="atan", aten=["aten.atan.default"]):
    """result = the angle in [−π/2, π/2] whose tangent is x."""

    FUNCTION = "atan"
    SAMPLES = unary_samples("aten.atan.default")

    def numpy_function(self, x: Array) -> Array:
        return np.arctan(x)


class Sinh(FloatUnary, op="sinh", aten=["aten.sinh.default"]):
    """result = (eˣ − e⁻ˣ) / 2."""

    FUNCTION = "sinh"
    SAMPLES = unary_samples("aten.sinh.default")

    def numpy_function(self, x: Array) -> Array:
        return np.sinh(x)


class Cosh(FloatUnary, op="cosh", aten=["aten.cosh.default"]):
    """result = (eˣ + e⁻ˣ) / 2."""

    FUNCTION = "cosh"
    SAMPLES = unary_samples("aten.cosh.default")

    def numpy_function(self, x: Array) -> Array:
        return np.cosh(x)


class Asinh(FloatUnary, op="asinh", aten=["aten.asinh.default"]):
    """result = ln(x + √(x² + 1))."""

    FUNCTION = "asinh"
    SAMPLES = unary_samples("aten.asinh.default")

    def numpy_function(self, x: Array) -> Array:
        return np.arcsinh(x)


class Acosh(FloatUnary, op="acosh", aten=["aten.acosh.default"]):
    """result = ln(x + √(x² − 1)); NaN below 1."""

    FUNCTION = "acosh"
    SAMPLES = (*unary_samples("aten.acosh.default"), *unary_samples("aten.acosh.default", values="positive"))

    def numpy_function(self, x: Array) -> Array:
        return np.arccosh(x)


class Atanh(FloatUnary, op="atanh", aten=["aten.atanh.default"]):
    """result = ½·ln((1 + x)/(1 − x)); ±inf at ±1, NaN outside [−1, 1]."""

    FUNCTION = "atanh"
    SAMPLES = (*unary_samples("aten.atanh.default"), *unary_samples("aten.atanh.default", values="unit"))

    def numpy_function(self, x: Array) -> Array:
        return np.arctanh(x)


class Atan2(Binary, op="atan2", aten=["aten.atan2.default"]):
    """result = the angle in [−π, π] of the point (rhs, lhs): zeros and infinities keep their quadrant (StableHLO atan2)."""

    COST = EXPENSIVE
    SAMPLES = binary_samples("aten.atan2.default", dtypes=FLOATS)

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_float

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.arctan2(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return in_f32(scalars, self.operand_dtype(), operands, scalars.atan2)


__all__ = ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cosh", "Sinh", "Tan"]
