"""Elementwise functions of one operand: one class an op. Names and edge cases are StableHLO's where it has the op."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dhlo.elementwise import BITWISE, NUMERIC, FloatUnary, Unary, is_numeric, unary_samples
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import BOOL, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor
from anyshape.symbolic import Facts


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _logistic(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


class Sqrt(FloatUnary, op="sqrt", aten=["aten.sqrt.default"]):
    """result = √x; NaN below 0."""

    FUNCTION = "sqrt"
    SAMPLES = unary_samples("aten.sqrt.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return np.sqrt(x)


class Rsqrt(FloatUnary, op="rsqrt", aten=["aten.rsqrt.default"]):
    """result = 1/√x; +inf at 0, NaN below."""

    FUNCTION = "rsqrt"
    SAMPLES = unary_samples("aten.rsqrt.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return 1.0 / np.sqrt(x)


class Exponential(FloatUnary, op="exponential", aten=["aten.exp.default"]):
    """result = eˣ."""

    FUNCTION = "exp"
    SAMPLES = unary_samples("aten.exp.default")

    def numpy_function(self, x: Array) -> Array:
        return np.exp(x)


class ExponentialMinusOne(FloatUnary, op="exponential_minus_one", aten=["aten.expm1.default"]):
    """result = eˣ − 1, accurate near 0."""

    FUNCTION = "expm1"
    SAMPLES = unary_samples("aten.expm1.default")

    def numpy_function(self, x: Array) -> Array:
        return np.expm1(x)


class Log(FloatUnary, op="log", aten=["aten.log.default"]):
    """result = ln x; −inf at 0, NaN below."""

    FUNCTION = "log"
    SAMPLES = unary_samples("aten.log.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return np.log(x)


class Log2(FloatUnary, op="log2", aten=["aten.log2.default"]):
    """result = log₂ x, exact at powers of two; −inf at 0, NaN below."""

    FUNCTION = "log2"
    SAMPLES = unary_samples("aten.log2.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return np.log2(x)


class Log10(FloatUnary, op="log10", aten=["aten.log10.default"]):
    """result = log₁₀ x; −inf at 0, NaN below."""

    FUNCTION = "log10"
    SAMPLES = unary_samples("aten.log10.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return np.log10(x)


class LogPlusOne(FloatUnary, op="log_plus_one", aten=["aten.log1p.default"]):
    """result = ln(1 + x), accurate near 0."""

    FUNCTION = "log1p"
    SAMPLES = unary_samples("aten.log1p.default", values="positive")

    def numpy_function(self, x: Array) -> Array:
        return np.log1p(x)


class Tanh(FloatUnary, op="tanh", aten=["aten.tanh.default"]):
    """result = tanh x."""

    FUNCTION = "tanh"
    SAMPLES = unary_samples("aten.tanh.default")

    def numpy_function(self, x: Array) -> Array:
        return np.tanh(x)


class Erf(FloatUnary, op="erf", aten=["aten.erf.default"]):
    """result = erf x = 2/√π · ∫₀ˣ exp(−t²) dt."""

    FUNCTION = "erf"
    SAMPLES = unary_samples("aten.erf.default")

    def numpy_function(self, x: Array) -> Array:
        return _erf(x)


class Sine(FloatUnary, op="sine", aten=["aten.sin.default"]):
    """result = sin x, x in radians."""

    FUNCTION = "sin"
    SAMPLES = unary_samples("aten.sin.default")

    def numpy_function(self, x: Array) -> Array:
        return np.sin(x)


class Cosine(FloatUnary, op="cosine", aten=["aten.cos.default"]):
    """result = cos x, x in radians."""

    FUNCTION = "cos"
    SAMPLES = unary_samples("aten.cos.default")

    def numpy_function(self, x: Array) -> Array:
        return np.cos(x)


class Logistic(FloatUnary, op="logistic", aten=["aten.sigmoid.default"]):
    """result = 1 / (1 + e⁻ˣ)."""

    SAMPLES = unary_samples("aten.sigmoid.default")

    def numpy_function(self, x: Array) -> Array:
        return _logistic(x)

    def compute(self, scalars: Scalars, x: SSAValue) -> SSAValue:
        one = scalars.constant(1.0, x.type)
        return scalars.div(one, scalars.add(one, scalars.function("exp", scalars.neg(x))))


class Silu(FloatUnary, op="silu", aten=["aten.silu.default"]):
    """result = x / (1 + e⁻ˣ)."""

    SAMPLES = unary_samples("aten.silu.default")

    def numpy_function(self, x: Array) -> Array:
        return x / (1.0 + np.exp(-x))

    def compute(self, scalars: Scalars, x: SSAValue) -> SSAValue:
        one = scalars.constant(1.0, x.type)
        return scalars.div(x, scalars.add(one, scalars.function("exp", scalars.neg(x))))


class Gelu(FloatUnary, op="gelu", aten=["aten.gelu.default"]):
    """result = x·Φ(x), Φ the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415).

    `approximate`: "none": x/2 · (1 + erf(x/√2)); "tanh": x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))).
    """

    DEFAULTS: ClassVar = {"approximate": "none"}
    SAMPLES = (
        *unary_samples("aten.gelu.default"),
        *unary_samples("aten.gelu.default", attributes={"approximate": "tanh"}, keywords={"approximate": "tanh"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if attributes["approximate"] not in ("none", "tanh"):
            raise VerifyException(
                f'{cls.name}: approximate is "{attributes["approximate"]}", expected "none" or "tanh"'
            )
        return super().infer(operands, attributes)

    def numpy_function(self, x: Array) -> Array:
        if self.attribute("approximate") == "none":
            return 0.5 * x * (1.0 + _erf(x * math.sqrt(0.5)))
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))

    def compute(self, scalars: Scalars, x: SSAValue) -> SSAValue:
        def constant(value: float) -> SSAValue:
            return scalars.constant(value, x.type)

        if self.attribute("approximate") == "none":
            bounded = scalars.function("erf", scalars.mul(x, constant(math.sqrt(0.5))))
        else:
            cube = scalars.mul(scalars.mul(x, x), scalars.mul(x, constant(0.044715)))
            bounded = scalars.function("tanh", scalars.mul(scalars.add(x, cube), constant(math.sqrt(2.0 / math.pi))))
        return scalars.mul(scalars.mul(x, constant(0.5)), scalars.add(bounded, constant(1.0)))


class Ceil(FloatUnary, op="ceil", aten=["aten.ceil.default"]):
    """result = ⌈x⌉."""

    FUNCTION = "ceil"
    SAMPLES = unary_samples("aten.ceil.default")

    def numpy_function(self, x: Array) -> Array:
        return np.ceil(x)


class Floor(FloatUnary, op="floor", aten=["aten.floor.default"]):
    """result = ⌊x⌋."""

    FUNCTION = "floor"
    SAMPLES = unary_samples("aten.floor.default")

    def numpy_function(self, x: Array) -> Array:
        return np.floor(x)


class Trunc(FloatUnary, op="trunc", aten=["aten.trunc.default"]):
    """result = x rounded toward zero."""

    FUNCTION = "trunc"
    SAMPLES = unary_samples("aten.trunc.default")

    def numpy_function(self, x: Array) -> Array:
        return np.trunc(x)


class RoundNearestEven(FloatUnary, op="round_nearest_even", aten=["aten.round.default"]):
    """result = the nearest integer to x, the even one of two."""

    FUNCTION = "roundeven"
    SAMPLES = unary_samples("aten.round.default")

    def numpy_function(self, x: Array) -> Array:
        return np.rint(x)


class Abs(Unary, op="abs", aten=["aten.abs.default"]):
    """result = |x|; the least signed integer stays as it is."""

    SAMPLES = unary_samples("aten.abs.default", dtypes=NUMERIC)

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    def numpy_function(self, x: Array) -> Array:
        return np.abs(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        if self.operand_dtype().is_float:
            return scalars.function("abs", x)
        if self.operand_dtype().is_unsigned:
            return x
        return scalars.select(scalars.compare("lt", x, scalars.constant(0, x.type)), scalars.neg(x), x)


class Negate(Unary, op="negate", aten=["aten.neg.default"]):
    """result = −x; integers wrap."""

    SAMPLES = unary_samples("aten.neg.default", dtypes=NUMERIC)

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    def numpy_function(self, x: Array) -> Array:
        return np.negative(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.neg(*operands)

    @law("-(-x) -> x", example=lambda g: g(Negate, g(Negate, g.input("m"))))
    def cancel(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        return inner.operands[0] if isinstance(inner, Negate) else None


class Sign(Unary, op="sign"):
    """result = −1, 0 or 1 as x is below, at or above 0; NaN of NaN, as StableHLO says (PyTorch gives 0 there)."""

    SAMPLES = unary_samples("aten.sign.default", dtypes=NUMERIC, values="finite")

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    def numpy_function(self, x: Array) -> Array:
        return np.sign(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        unsigned = self.operand_dtype().is_unsigned
        zero, one = scalars.constant(0, x.type), scalars.constant(1, x.type)
        otherwise = x if self.operand_dtype().is_float else zero
        above = scalars.select(scalars.compare("gt", x, zero, unsigned=unsigned), one, otherwise)
        if unsigned:
            return above
        return scalars.select(scalars.compare("lt", x, zero), scalars.constant(-1, x.type), above)


class Relu(Unary, op="relu", aten=["aten.relu.default"]):
    """result = max(x, 0); NaN of NaN."""

    SAMPLES = unary_samples("aten.relu.default", dtypes=NUMERIC)

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    def numpy_function(self, x: Array) -> Array:
        return np.maximum(x, np.zeros((), x.dtype))

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        return scalars.maximum(x, scalars.constant(0, x.type), unsigned=self.operand_dtype().is_unsigned)

    @law("relu(relu(x)) -> relu(x)", example=lambda g: g(Relu, g(Relu, g.input("m"))))
    def idempotent(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if isinstance(self.operands[0].owner, Relu) else None


class Not(Unary, op="not", aten=["aten.bitwise_not.default"]):
    """result = the negation of a bool, or every bit of an integer inverted."""

    SAMPLES = unary_samples("aten.bitwise_not.default", dtypes=BITWISE)

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return not dtype.is_float

    def numpy_function(self, x: Array) -> Array:
        return np.invert(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.logical_not(*operands)

    @law("not not x -> x", example=lambda g: g(Not, g(Not, g.input("m", dtype=BOOL))))
    def cancel(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        return inner.operands[0] if isinstance(inner, Not) else None


class FloatTest(Unary, ABC):
    """result = a property of a float, as bool."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_float

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return BOOL


class IsNan(FloatTest, op="is_nan", aten=["aten.isnan.default"]):
    """result = whether x is NaN."""

    SAMPLES = unary_samples("aten.isnan.default")

    def numpy_function(self, x: Array) -> Array:
        return np.isnan(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.is_nan(*operands)


class IsInf(FloatTest, op="is_inf", aten=["aten.isinf.default"]):
    """result = whether x is +inf or −inf."""

    SAMPLES = unary_samples("aten.isinf.default")

    def numpy_function(self, x: Array) -> Array:
        return np.isinf(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        return scalars.compare("eq", scalars.function("abs", x), scalars.constant(math.inf, x.type))


class IsFinite(FloatTest, op="is_finite"):
    """result = whether x is neither NaN nor infinite."""

    SAMPLES = unary_samples("aten.isfinite.default")

    def numpy_function(self, x: Array) -> Array:
        return np.isfinite(x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        return scalars.compare("lt", scalars.function("abs", x), scalars.constant(math.inf, x.type))


__all__ = [
    "Abs", "Ceil", "Cosine", "Erf", "Exponential", "ExponentialMinusOne", "FloatTest", "Floor", "Gelu", "IsFinite",
    "IsInf", "IsNan", "Log", "Log2", "Log10", "LogPlusOne", "Logistic", "Negate", "Not", "Relu", "RoundNearestEven",
    "Rsqrt", "Sign", "Silu", "Sine", "Sqrt", "Tanh", "Trunc",
]  # fmt: skip
