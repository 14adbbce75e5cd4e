"""Bessel functions and the Airy function: one class an op, computed in f64 and rounded once (`dialects/bessel_scalars.py`).

References are integrals by the trapezoidal rule, which converges exponentially for periodic and for doubly exponential integrands.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial
from typing import ClassVar

import numpy as np

from anyshape.dialects import bessel_scalars
from anyshape.dialects.dhlo.base import Array, Sample
from anyshape.dialects.dhlo.elementwise import unary_samples
from anyshape.dialects.dhlo.special import SpecialFunction
from anyshape.dialects.dtypes import F32, F64

_EULER = 0.5772156649015329


def _first_kind(order: int, x: float) -> float:
    """(1/π)·∫ cos(n·τ − x·sin τ) dτ over [0, π] (DLMF 10.9.2)."""
    if not math.isfinite(x):
        return math.nan
    if x == 0:
        return x if order == 1 else float(order == 0)
    count = int(abs(x)) + order + 60
    angles = np.arange(2 * count) * (math.pi / count)
    return float(np.mean(np.cos(order * angles - x * np.sin(angles))))


def _second_kind(order: int, x: float) -> float:
    """Neumann's series: (2/π)·(ln(x/2) + γ)·J₀ − (4/π)·Σ (−1)ᵏ·J₂ₖ/k (DLMF 10.8.3), and less its derivative for order 1."""
    if not 0 < x < math.inf:
        return -math.inf if x == 0 else math.nan
    terms = range(1, int(x) + 40)
    logarithm = (math.log(x / 2) + _EULER) * 2 / math.pi
    if order == 0:
        total = sum((-1) ** k * _first_kind(2 * k, x) / k for k in terms)
        return logarithm * _first_kind(0, x) - 4 / math.pi * total
    slopes = sum((-1) ** k * (_first_kind(2 * k - 1, x) - _first_kind(2 * k + 1, x)) / (2 * k) for k in terms)
    return logarithm * _first_kind(1, x) - 2 / math.pi * _first_kind(0, x) / x + 4 / math.pi * slopes


def _modified_second_kind(order: int, x: float, *, scaled: bool) -> float:
    """∫ exp(−x·cosh t)·cosh(n·t) dt over [0, ∞) (DLMF 10.32.9), times eˣ where `scaled`."""
    if not 0 < x < math.inf:
        return math.inf if x == 0 else 0.0 if x > 0 else math.nan
    step = 1 / 64
    t = np.arange(int((math.log(1600 / min(x, 1.0)) + 1) / step)) * step
    values = np.exp(-x * (np.cosh(t) - 1)) * np.cosh(order * t)
    total = float(np.sum(values) - values[0] / 2) * step
    return total if scaled else total * math.exp(-x)


def _airy_ai(x: float) -> float:
    """The Maclaurin series (DLMF 9.4.1) in 120 digits; from 15 on the expansions in 1/ζ (DLMF 9.7.5, 9.7.9)."""
    if not math.isfinite(x):
        return math.nan
    if abs(x) > 15:
        zeta = abs(x) ** 1.5 * 2 / 3
        terms = [1.0]
        for k in range(1, 20):
            terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1) * zeta))
        scale = 1 / (math.sqrt(math.pi) * abs(x) ** 0.25)
        if x > 0:
            return scale / 2 * math.exp(-zeta) * sum((-1) ** k * term for k, term in enumerate(terms))
        even, odd = (sum((-1) ** k * term for k, term in enumerate(terms[first::2])) for first in (0, 1))
        return scale * (math.cos(zeta - math.pi / 4) * even + math.sin(zeta - math.pi / 4) * odd)
    with localcontext(prec=120):
        at = Decimal(x)
        cube = at**3
        first = term = Decimal(1)
        second = other = at
        for k in range(1, 400):
            term *= cube / ((3 * k - 1) * (3 * k))
            other *= cube / ((3 * k) * (3 * k + 1))
            first, second = first + term, second + other
        at_zero = Decimal("0.35502805388781723926006318600418317639797917419918")
        slope = Decimal("-0.25881940379280679840518356018920396347909113835494")
        return float(at_zero * first + slope * second)


def _spherical(x: float) -> float:
    return 1.0 if x == 0 else 0.0 if math.isinf(x) else math.sin(x) / x


def _samples(target: str) -> tuple[Sample, ...]:
    """PyTorch's values of f64 have the digits of f32 where its expansions for large arguments hold."""
    return (*unary_samples(target, values="unit", dtypes=(F32,)), *unary_samples(None, dtypes=(F32, F64)))


class BesselFunction(SpecialFunction, ABC):
    """result = f(x), of which `FUNCTION_OF_NUMBERS` is f on Python's floats."""

    COST = 120
    FUNCTION_OF_NUMBERS: ClassVar[Callable[[float], float]]

    def numpy_function(self, x: Array) -> Array:
        return np.vectorize(type(self).FUNCTION_OF_NUMBERS, otypes=[np.float64])(x)


class BesselJ0(BesselFunction, op="bessel_j0"):
    """result = J₀(x); NaN at ±inf, as PyTorch has it."""

    FORMULA = staticmethod(bessel_scalars.j0)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_first_kind, 0))
    SAMPLES = _samples("aten.special_bessel_j0.default")


class BesselJ1(BesselFunction, op="bessel_j1"):
    """result = J₁(x); NaN at ±inf, as PyTorch has it."""

    FORMULA = staticmethod(bessel_scalars.j1)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_first_kind, 1))
    SAMPLES = _samples("aten.special_bessel_j1.default")


class BesselY0(BesselFunction, op="bessel_y0"):
    """result = Y₀(x); −inf at 0, NaN below and at inf."""

    FORMULA = staticmethod(bessel_scalars.y0)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_second_kind, 0))
    SAMPLES = _samples("aten.special_bessel_y0.default")


class BesselY1(BesselFunction, op="bessel_y1"):
    """result = Y₁(x); −inf at 0, NaN below and at inf."""

    FORMULA = staticmethod(bessel_scalars.y1)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_second_kind, 1))
    SAMPLES = _samples("aten.special_bessel_y1.default")


class BesselK0(BesselFunction, op="bessel_k0"):
    """result = K₀(x); +inf at 0, NaN below."""

    FORMULA = staticmethod(bessel_scalars.k0)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_modified_second_kind, 0, scaled=False))
    SAMPLES = _samples("aten.special_modified_bessel_k0.default")


class BesselK1(BesselFunction, op="bessel_k1"):
    """result = K₁(x); +inf at 0, NaN below."""

    FORMULA = staticmethod(bessel_scalars.k1)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_modified_second_kind, 1, scaled=False))
    SAMPLES = _samples("aten.special_modified_bessel_k1.default")


class BesselK0e(BesselFunction, op="bessel_k0e"):
    """result = eˣ·K₀(x); +inf at 0, NaN below."""

    FORMULA = staticmethod(bessel_scalars.k0e)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_modified_second_kind, 0, scaled=True))
    SAMPLES = _samples("aten.special_scaled_modified_bessel_k0.default")


class BesselK1e(BesselFunction, op="bessel_k1e"):
    """result = eˣ·K₁(x); +inf at 0, NaN below."""

    FORMULA = staticmethod(bessel_scalars.k1e)
    FUNCTION_OF_NUMBERS = staticmethod(partial(_modified_second_kind, 1, scaled=True))
    SAMPLES = _samples("aten.special_scaled_modified_bessel_k1.default")


class SphericalBesselJ0(BesselFunction, op="spherical_bessel_j0"):
    """result = sin x / x; 1 at 0, 0 at ±inf."""

    FORMULA = staticmethod(bessel_scalars.spherical_j0)
    FUNCTION_OF_NUMBERS = staticmethod(_spherical)
    SAMPLES = _samples("aten.special_spherical_bessel_j0.default")


class AiryAi(BesselFunction, op="airy_ai"):
    """result = Ai(x); NaN at ±inf, as PyTorch has it."""

    FORMULA = staticmethod(bessel_scalars.airy_ai)
    FUNCTION_OF_NUMBERS = staticmethod(_airy_ai)
    SAMPLES = _samples("aten.special_airy_ai.default")


__all__ = [
    "AiryAi", "BesselFunction", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1",
    "SphericalBesselJ0",
]  # fmt: skip
