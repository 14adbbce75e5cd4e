"""Special functions of floats: one class an op. All are computed in f64 and rounded once (`dialects/special_scalars.py`)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects import gamma_scalars, special_scalars
from anyshape.dialects.dhlo.base import Arg, Array, Oracle, Sample
from anyshape.dialects.dhlo.elementwise import FloatUnary, binary_samples, unary_samples
from anyshape.dialects.dhlo.magnitudes import FloatBinary
from anyshape.dialects.dtypes import BF16, F16, F32, F64
from anyshape.dialects.formulas import Real
from anyshape.dialects.scalars import Scalars

ScalarFunction = Callable[[Scalars, SSAValue], SSAValue]


def _each(function: Callable[[float], float | np.float64], x: Array) -> Array:
    return np.vectorize(function, otypes=[np.float64])(x)


class SpecialFunction(FloatUnary, ABC):
    """result = f(x) by `FORMULA`, in f64 whatever the operand is."""

    COST = 60
    FORMULA: ClassVar[Any]
    """The function of `special_scalars`, as a static method."""

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        dtype = self.operand_dtype()
        wide = scalars.convert(operands[0], dtype, F64)
        return scalars.convert(self.FORMULA(scalars, wide), F64, dtype)


def _erfcx(x: float) -> float:
    """By the continued fraction of erfc (A&S 7.1.14) where e^(x²) might overflow."""
    if math.isnan(x) or x < 20:
        return math.inf if x < -26.7 else math.exp(x * x) * math.erfc(x) if x == x else x
    fraction = 0.0
    for k in range(40, 0, -1):
        fraction = 0.5 * k / (x + fraction)
    return 1.0 / ((x + fraction) * math.sqrt(math.pi)) if x < math.inf else 0.0


def _lgamma(x: float) -> float:
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _digamma(x: float) -> float:
    """By the recurrence up to 30, then ln x − 1/2x − Σ B₂ₖ/(2k·x²ᵏ)."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if math.isnan(x) or x == math.inf:
        return x
    if x < 0:
        offset = math.remainder(x, 1.0) if math.isfinite(x) else 0.0
        # From halfway between poles: π/2 has no exact tangent. ψ(1 − x) = ψ(−x) − 1/x, since 1 − x may be rounded.
        half = math.pi * (math.copysign(0.5, offset) - offset)
        cotangent = math.tan(half) if abs(offset) > 0.25 else 1.0 / math.tan(math.pi * offset) if offset else math.nan
        return _digamma(-x) - 1.0 / x - math.pi * cotangent
    total = 0.0
    while x < 30:
        total -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))


def _trigamma(x: float) -> float:
    """By the recurrence up to 30, then 1/x + 1/2x² + Σ B₂ₖ/x²ᵏ⁺¹."""
    if x < 0.5:
        offset = math.remainder(x, 1.0) if math.isfinite(x) else 0.0
        if offset == 0:
            return math.nan if math.isinf(x) else math.inf
        return (math.pi / math.sin(math.pi * offset)) ** 2 - _trigamma(1.0 - x)
    total = 0.0
    while x < 30:
        total += 1.0 / (x * x)
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    return (
        total + inverse + square / 2 + square * inverse * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))
    )


def _hurwitz_zeta(power: int, q: float) -> np.float64:
    """Σ 1/(q + k)ᵖ up to 60, then 1/((p − 1)·qᵖ⁻¹) + 1/2qᵖ + Σ B₂ₖ·(2k + p − 2)!/((2k)!·(p − 1)!·q²ᵏ⁺ᵖ⁻¹)."""
    total, at, one = np.float64(0.0), np.float64(q), np.float64(1.0)
    while at < 60:
        total += (one / at) ** power
        at += 1.0
    inverse = one / at
    total += inverse ** (power - 1) / (power - 1) + inverse**power / 2
    for k, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), 1):
        factor = math.factorial(2 * k + power - 2) / (math.factorial(2 * k) * math.factorial(power - 1))
        total += bernoulli * factor * inverse ** (2 * k + power - 1)
    return total


def _zeta(s: float, q: float) -> float:
    """Where q is negative from its terms up to the first above 0, which of a power that is an integer have signs."""
    if s == 1 or not s > 1:
        return math.inf if s == 1 else math.nan
    if q <= 0 and q == math.floor(q):
        return math.inf
    if (q < 0 and s != math.floor(s)) or math.isinf(q) or math.isinf(s):
        return math.nan
    total = 0.0
    while q < 60:
        total += float(np.float64(q) ** -s)
        q += 1.0
    last = float(np.float64(q) ** -s)
    total += last * q / (s - 1) + last / 2
    factor = last * s / q
    for k, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), 1):
        total += factor * bernoulli / math.factorial(2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k) / (q * q)
    return total


def _polygamma(order: int, x: float) -> np.float64:
    """(−1)ᵖ·n!·ζ(p, x), p = n + 1; where x < ½ the sum over all integers less that over those below x."""
    power = order + 1
    if x < 0.5:
        offset = 0.0 if math.isinf(x) else math.remainder(x, 1.0) + 0.0  # −0 would turn the sign of a pole
        after, before = (offset, 1 - offset) if offset >= 0 else (1 + offset, -offset)
        sign = (-1) ** power
        everywhere = _hurwitz_zeta(power, after) + sign * _hurwitz_zeta(power, before)
        return sign * math.factorial(order) * (everywhere - sign * _hurwitz_zeta(power, 1 - x))
    return (-1) ** power * math.factorial(order) * _hurwitz_zeta(power, x)


def _erfinv(x: float) -> float:
    """The quantile of the normal distribution, and a step of Newton's."""
    if not abs(x) <= 1:
        return math.nan
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    if x == 0:
        return x
    y = -NormalDist().inv_cdf((1.0 - abs(x)) / 2) / math.sqrt(2)
    missed = math.erf(y) - abs(x) if abs(x) < 0.5 else (1.0 - abs(x)) - math.erfc(y)
    return math.copysign(y - missed * math.sqrt(math.pi) / 2 * math.exp(y * y), x)


def _ndtri(p: float) -> float:
    if not 0 <= p <= 1:
        return math.nan
    if p in (0, 1):
        return math.inf if p else -math.inf
    return NormalDist().inv_cdf(p) if abs(p - 0.5) > 0.1 else math.sqrt(2) * _erfinv(2 * p - 1)


def _scaled_bessel(order: int, x: float) -> float:
    """e^(−|x|)·I(x): the series Σ (x/2)^(2k+n)/(k!·(k+n)!), or its expansion in 1/x (A&S 9.6.10, 9.7.1)."""
    magnitude = abs(x)
    if math.isnan(x) or math.isinf(x):
        return x if math.isnan(x) else 0.0
    if magnitude > 40:
        term = total = 1.0
        for k in range(1, 20):
            term *= -(4 * order * order - (2 * k - 1) ** 2) / (8 * k * magnitude)
            total += term
        return math.copysign(total / math.sqrt(2 * math.pi * magnitude), x if order else 1.0)
    term = total = (x / 2) ** order
    for k in range(1, 120):
        term *= (x / 2) ** 2 / (k * (k + order))
        total += term
    return total * math.exp(-magnitude)


def _bessel(order: int, x: float) -> float:
    if math.isinf(x):
        return math.copysign(math.inf, x if order else 1.0)
    half = math.exp(min(abs(x) / 2, 700.0)) if x == x else x
    return _scaled_bessel(order, x) * half * half


class Erfc(SpecialFunction, op="erfc", aten=["aten.erfc.default"]):
    """result = 1 − erf x, with its relative accuracy for large x too."""

    FORMULA = staticmethod(special_scalars.erfc)
    SAMPLES = unary_samples("aten.erfc.default")

    def numpy_function(self, x: Array) -> Array:
        return _each(math.erfc, x)


class Erfcx(SpecialFunction, op="erfcx", aten=["aten.special_erfcx.default"]):
    """result = e^(x²)·erfc x."""

    FORMULA = staticmethod(special_scalars.erfcx)
    SAMPLES = unary_samples("aten.special_erfcx.default")

    def numpy_function(self, x: Array) -> Array:
        return _each(_erfcx, x)


class ErfInv(SpecialFunction, op="erf_inv", aten=["aten.erfinv.default"]):
    """result = the y with erf y = x; ±inf at ±1, NaN outside [−1, 1]."""

    FORMULA = staticmethod(special_scalars.erfinv)
    SAMPLES = (*unary_samples("aten.erfinv.default"), *unary_samples("aten.erfinv.default", values="unit"))

    def numpy_function(self, x: Array) -> Array:
        return _each(_erfinv, x)


class Ndtri(SpecialFunction, op="ndtri", aten=["aten.special_ndtri.default"]):
    """result = the y to whose left a standard normal variable is with probability x; ∓inf at 0 and 1, NaN outside [0, 1]."""

    FORMULA = staticmethod(special_scalars.ndtri)
    SAMPLES = (
        *unary_samples("aten.special_ndtri.default"),
        *unary_samples("aten.special_ndtri.default", values="unit"),
    )

    def numpy_function(self, x: Array) -> Array:
        return _each(_ndtri, x)


class Lgamma(SpecialFunction, op="lgamma", aten=["aten.lgamma.default"]):
    """result = ln |Γ(x)|; +inf at 0, −1, −2, …"""

    FORMULA = staticmethod(gamma_scalars.lgamma)
    SAMPLES = (*unary_samples("aten.lgamma.default"), *unary_samples("aten.lgamma.default", values="positive"))

    def numpy_function(self, x: Array) -> Array:
        return _each(_lgamma, x)


class Digamma(SpecialFunction, op="digamma", aten=["aten.digamma.default"]):
    """result = the derivative of ln Γ(x); ∓inf at ±0, NaN at −1, −2, …"""

    FORMULA = staticmethod(gamma_scalars.digamma)
    SAMPLES = (*unary_samples("aten.digamma.default"), *unary_samples("aten.digamma.default", values="positive"))

    def numpy_function(self, x: Array) -> Array:
        return _each(_digamma, x)


class Trigamma(SpecialFunction, op="trigamma"):
    """result = the second derivative of ln Γ(x); +inf at 0, −1, −2, …"""

    FORMULA = staticmethod(gamma_scalars.trigamma)
    SAMPLES = (  # PyTorch's is less accurate than f64, and finite at the poles
        Sample((("m", "n"),), dtypes=(F16, BF16, F32), values={0: "positive"}, oracle=Oracle("aten.polygamma.default", (1, Arg(0)))),
        Sample((("m", "n"),), dtypes=(F32, F64)),
    )  # fmt: skip

    def numpy_function(self, x: Array) -> Array:
        return _each(_trigamma, x)


class Zeta(FloatBinary, op="zeta", aten=["aten.special_zeta.default"]):
    """result = Hurwitz's ζ(lhs, rhs) = Σ 1/(rhs + k)^lhs over k ≥ 0, in f64 whatever the operands are (DLMF 25.11).

    inf where lhs = 1, NaN where it is less; inf where rhs is 0, −1, −2, …; NaN beside any other rhs < 0 unless lhs is an integer.
    """

    COST = 2000
    SAMPLES = (
        *binary_samples("aten.special_zeta.default", dtypes=(F64,), values={0: "positive", 1: "positive"}),
        *binary_samples(None, dtypes=(F32, F64), values={0: "positive", 1: "finite"}),
        *binary_samples(None, dtypes=(F32, F64), values={0: "small", 1: "finite"}),
    )

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        return np.vectorize(_zeta, otypes=[np.float64])(lhs, rhs)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        dtype = self.operand_dtype()
        wide = (scalars.convert(operand, dtype, F64) for operand in operands)
        return scalars.convert(gamma_scalars.zeta(scalars, *wide), F64, dtype)


class Polygamma(SpecialFunction, op="polygamma"):
    """result = the derivative of order `order` ≥ 2 of digamma; (−1)ⁿ⁺¹·inf at 0, −1, −2, …, −inf."""

    DEFAULTS: ClassVar = {"order": 2}
    COST = 300
    SAMPLES = (
        *(
            Sample((("m", "n"),), {"order": order}, values={0: "positive"}, oracle=Oracle("aten.polygamma.default", (order, Arg(0))))
            for order in (2, 3, 6)
        ),
        *(Sample((("m", "n"),), {"order": order}, dtypes=(F32, F64)) for order in (2, 5)),
    )  # fmt: skip

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        dtype = self.operand_dtype()
        wide = Real(scalars, scalars.convert(operands[0], dtype, F64))
        return scalars.convert(gamma_scalars.polygamma(self.attribute("order"), wide).value, F64, dtype)

    def numpy_function(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return _each(partial(_polygamma, self.attribute("order")), x)


class BesselI0(SpecialFunction, op="bessel_i0", aten=["aten.i0.default"]):
    """result = I₀(x), the modified Bessel function of order 0."""

    FORMULA = staticmethod(special_scalars.i0)
    SAMPLES = unary_samples("aten.i0.default", values="finite")  # NaN of ±inf in PyTorch

    def numpy_function(self, x: Array) -> Array:
        return _each(lambda value: _bessel(0, value), x)


class BesselI0e(SpecialFunction, op="bessel_i0e", aten=["aten.special_i0e.default"]):
    """result = e^(−|x|)·I₀(x)."""

    FORMULA = staticmethod(special_scalars.i0e)
    SAMPLES = unary_samples("aten.special_i0e.default")

    def numpy_function(self, x: Array) -> Array:
        return _each(lambda value: _scaled_bessel(0, value), x)


class BesselI1(SpecialFunction, op="bessel_i1", aten=["aten.special_i1.default"]):
    """result = I₁(x), the modified Bessel function of order 1."""

    FORMULA = staticmethod(special_scalars.i1)
    SAMPLES = unary_samples("aten.special_i1.default", values="finite")  # NaN of ±inf in PyTorch

    def numpy_function(self, x: Array) -> Array:
        return _each(lambda value: _bessel(1, value), x)


class BesselI1e(SpecialFunction, op="bessel_i1e", aten=["aten.special_i1e.default"]):
    """result = e^(−|x|)·I₁(x)."""

    FORMULA = staticmethod(special_scalars.i1e)
    SAMPLES = unary_samples("aten.special_i1e.default")

    def numpy_function(self, x: Array) -> Array:
        return _each(lambda value: _scaled_bessel(1, value), x)


__all__ = [
    "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "Digamma", "ErfInv", "Erfc", "Erfcx", "Lgamma", "Ndtri",
    "Polygamma", "SpecialFunction", "Trigamma",
]  # fmt: skip
