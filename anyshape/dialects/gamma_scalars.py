"""The gamma function's relatives in scalars of f64: Chebyshev series on [1, 2], recurrences up to 8, asymptotic expansions above.

The Chebyshev coefficients are those of 80 nodes in 50-digit arithmetic, cut where they are below 10⁻¹⁷ of the largest. Formulas: DLMF,
chapter 5. Below 0 arguments are reckoned from the nearest integer, exactly, so that reflections lose nothing beside poles.
"""

from __future__ import annotations

import math

from anyshape.dialects.formulas import Real, chebyshev, fma, formula, function, onto_unit, polynomial, power, where

_LOG_GAMMA = (
    0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608, 0.00014900748003692963,
    -2.1512399888556784e-05, 3.1979329860862186e-06, -4.851693012139927e-07, 7.47148782116316e-08,
    -1.1638296700170518e-08, 1.829400437118668e-09, -2.8969180607129607e-10, 4.61570140620909e-11,
    -7.392810230497983e-12, 1.1894280008333085e-12, -1.9212068676522805e-13, 3.113975526387164e-14,
    -5.0628432984486114e-15, 8.254150281631144e-16, -1.3490578987574844e-16, 2.209876116782623e-17,
)  # fmt: skip
"""ln Γ(1 + w)/(w·(w − 1)) on [0, 1]"""
_DIGAMMA_UNIT = (
    0.983570260441567, -0.2270640863346444, 0.03336889902393011, -0.005320077271596548, 0.0008788656937820505,
    -0.00014773492650606044, 2.5060543468359146e-05, -4.2721034029993324e-06, 7.302769272465923e-07,
    -1.2502886813559594e-07, 2.1425009322359472e-08, -3.673295918565179e-09, 6.299717236108931e-10,
    -1.080593028883266e-10, 1.853735192053638e-11, -3.18023536582553e-12, 5.456147570322795e-13,
    -9.360993131036438e-14, 1.606064636295075e-14, -2.7555431377438815e-15, 4.727736178601912e-16,
    -8.11148420346509e-17, 1.391707769474154e-17,
)  # fmt: skip
"""ψ(1 + w)/(w − w₀) on [0, 1]"""
_DIGAMMA_ROOT = (0.46163214496836236, -1.5522348162858677e-17)
"""w₀, where ψ(1 + w₀) = 0, in two parts."""

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
"""B₂ₖ/(2k·(2k − 1)) from k = 1 on, B the Bernoulli numbers."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""B₂ₖ/(2k) from k = 1 on."""
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
"""B₂ₖ from k = 1 on."""
_ZETA = (*_TRIGAMMA, -174611 / 330, 854513 / 138, -236364091 / 2730)
"""B₂ₖ from k = 1 on."""
_ZETA_TERMS = 10
_SHIFT = 8
"""Arguments are moved above this, where eight or nine terms of the expansions leave less than 10⁻¹⁶."""


def _offset(x: Real) -> Real:
    """x less the nearest integer, in [−½, ½], exactly; NaN of an infinite x."""
    return x - function("roundeven", x)


def _units(x: Real) -> tuple[Real, Real]:
    """(w, k) with 1 + w + k the argument of the reflected function, 1 − x, where x ≤ 0, else x: w in [0, 1), k ≥ −1; both exact."""
    mirrors = x <= 0
    magnitude = where(mirrors, -x, x)
    whole = function("floor", magnitude)
    return magnitude - whole, where(mirrors, whole, whole - 1)


def _sine_of_pi(offset: Real) -> Real:
    """|sin πx| of an offset."""
    return function("sin", abs(offset) * math.pi)


def _log_gamma_expansion(z: Real) -> Real:
    """Stirling's series, z ≥ 8."""
    inverse = 1 / z
    series = inverse * polynomial(inverse * inverse, _STIRLING)
    return (z - 0.5) * (function("log", z) - 1) + (series + (0.5 * math.log(2 * math.pi) - 0.5))


@formula
def lgamma(x: Real) -> Real:
    """ln |Γ(x)|: w·(w − 1)·C(w) of 1 + w in [1, 2), Γ(z + k) = z·…·(z + k − 1)·Γ(z) up to 8, Stirling's series above; where x < 0
    by Γ(x)·Γ(1 − x) = π/sin πx.

    A few ulp, but for an absolute error of 10⁻¹⁵ around the zeros below −2. +inf at 0, −1, −2, … and ±inf.
    """
    w, k = _units(x)
    below, is_fraction, is_small = x <= 0, (x > 0) & (x < 1), k < _SHIFT - 1
    product = x.of(1.0)
    for step in range(_SHIFT - 1):
        product = product * where(k > step, w + (1.0 + step), 1.0)
    base = where(is_small, w * (w - 1) * chebyshev(onto_unit(w, 0, 1), _LOG_GAMMA), 0.0)
    large = where(below, 1 - x, x)
    base = base + where(is_small, 0.0, _log_gamma_expansion(where(is_small, _SHIFT, large)))
    product = where(is_small, product, 1.0)
    factor = where(is_fraction, x, where(below, product * (_sine_of_pi(_offset(x)) / math.pi), product))
    logarithm = where((k.equals(1)) & (x > 0), function("log1p", w), function("log", factor))
    value = where(below, -(base + logarithm), base + where(is_fraction, -logarithm, logarithm))
    return where(abs(x).equals(math.inf) | (below & x.equals(function("floor", x))), math.inf, value)


@formula
def digamma(x: Real) -> Real:
    """ψ(x) = Γ′(x)/Γ(x): (w − w₀)·C(w) of 1 + w in [1, 2), ψ(z + 1) = ψ(z) + 1/z up to 8, the expansion above; where x < 0
    ψ(1 − x) − π/tan πx.

    A few ulp, but for an absolute error of a few ulp of the two terms around the zeros below 0. ∓inf at ±0; NaN at −1, −2, … and −inf.
    """
    w, k = _units(x)
    below, is_fraction, is_small = x <= 0, (x > 0) & (x < 1), k < _SHIFT - 1
    near = ((w - _DIGAMMA_ROOT[0]) - _DIGAMMA_ROOT[1]) * chebyshev(onto_unit(w, 0, 1), _DIGAMMA_UNIT)
    total = where(is_fraction, -1 / x, 0.0)
    for step in range(_SHIFT - 1):
        total = total + where(k > step, 1 / (w + (1.0 + step)), 0.0)
    large = where(is_small, _SHIFT, where(below, 1 - x, x))
    inverse = 1 / large
    square = inverse * inverse
    far = function("log", large) - fma(inverse, 0.5, square * polynomial(square, _DIGAMMA))
    value = where(is_small, near + total, far)
    offset = _offset(x)
    # Reckoned from halfway between poles, where the cotangent is 0.
    beside_half = abs(offset) > 0.25
    angle = where(beside_half, 0.5 - abs(offset), abs(offset)) * math.pi
    sine, cosine = function("sin", angle), function("cos", angle)
    cotangent = (where(beside_half, sine, cosine) / where(beside_half, cosine, sine)).with_sign_of(offset)
    reflected = where(offset.equals(0), math.nan, value - cotangent * math.pi)
    return where(x.equals(0), x.of(math.inf).with_sign_of(-x), where(below, reflected, value))


@formula
def trigamma(x: Real) -> Real:
    """ψ′ by 1/z + 1/2z² + Σ B₂ₖ/z²ᵏ⁺¹ above 8, ψ′(z) = ψ′(z + 1) + 1/z² below it, and π²/sin² πx − ψ′(1 − x) where x < ½."""
    reflects = x < 0.5
    z = where(reflects, 1 - x, x)
    is_small = z < _SHIFT
    total, moved = x.of(0.0), where(is_small, z, 1.0)
    for _ in range(_SHIFT):
        total, moved = total + 1 / (moved * moved), moved + 1
    inverse = 1 / where(is_small, moved, z)
    square = inverse * inverse
    series = fma(square * inverse, polynomial(square, _TRIGAMMA), inverse)
    value = fma(square, 0.5, series) + where(is_small, total, 0.0)
    ratio = math.pi / _sine_of_pi(_offset(x))
    return where(reflects, ratio * ratio - value, value)


def _integer_power(base: Real, exponent: int) -> Real:
    """baseᵖ, p ≥ 1, by squaring."""
    result: Real | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        base, exponent = base * base, exponent >> 1
    assert result is not None
    return result


def _hurwitz_zeta(q: Real, power: int) -> Real:
    """ζ(p, q) = Σ 1/(q + k)ᵖ, p ≥ 3 and q ≥ 0: terms up to 11 + p, the rest by the Euler–Maclaurin formula. inf at 0."""
    order = power - 1
    total, moved = q.of(0.0), q
    for _ in range(12 + order):
        total, moved = total + _integer_power(1 / moved, power), moved + 1
    inverse = 1 / moved
    factors, rising = list[float](), float(power)
    for k, bernoulli in enumerate(_TRIGAMMA, 1):
        factors.append(bernoulli * rising / math.factorial(2 * k))
        rising *= (power + 2 * k - 1) * (power + 2 * k)
    tail = fma(polynomial(inverse * inverse, factors), inverse, 0.5)
    total = fma(_integer_power(inverse, power), tail, total)
    return total + _integer_power(inverse, order) / float(order)


def polygamma(order: int, x: Real) -> Real:
    """ψₙ(x) = (−1)ⁿ⁺¹·n!·ζ(p, x), p = n + 1 ≥ 3; where x < ½ the sum over all integers less that over those below x:
    ζ(p, f) + (−1)ᵖ·(ζ(p, 1 − f) − ζ(p, 1 − x)), f = x − ⌊x⌋. (−1)ⁿ⁺¹·inf at 0, −1, −2, …, −inf.

    Where p is odd the first two cancel exactly halfway between poles, which derivatives of cot πx would not.
    """
    power, reflects = order + 1, x < 0.5
    # From the nearer integer: 1 − f of a small negative x would keep few of its digits.
    offset = where(x.equals(function("floor", x)), 0.0, _offset(x))
    is_below = offset < 0
    after, before = where(is_below, offset + 1, offset), where(is_below, -offset, 1 - offset)
    value = _hurwitz_zeta(where(reflects, after, x), power)
    mirrored = _hurwitz_zeta(where(reflects, before, 1.0), power)
    others = _hurwitz_zeta(where(reflects, 1 - x, 1.0), power)
    sign = (-1.0) ** power
    reflected = (value + sign * mirrored) - sign * others
    return where(reflects, reflected, value) * (sign * math.factorial(order))


def _zeta_from(s: Real, q: Real) -> Real:
    """ζ(s, q) of s > 1, q ≥ 0: ten terms, the rest by the Euler–Maclaurin formula, unless it is below the digits of the terms."""
    total, moved = q.of(0.0), q
    for _ in range(_ZETA_TERMS):
        total, moved = total + power(moved, -s), moved + 1
    last = power(moved, -s)
    rest = fma(last, moved / (s - 1), last * 0.5)
    factor = last * s / moved
    for k, bernoulli in enumerate(_ZETA, 1):
        rest = fma(factor, bernoulli / math.factorial(2 * k), rest)
        factor = factor * ((s + (2 * k - 1)) / moved) * ((s + 2 * k) / moved)
    return where(last < total * 2.0**-53, total, total + rest)


@formula
def zeta(s: Real, q: Real) -> Real:
    """ζ(s, q) = Σ 1/(q + k)ˢ; of q < 0 and an integer s as `polygamma`. inf where s = 1, NaN of s < 1; inf at q = 0, −1, …, and
    NaN of other q < 0 where s is no integer.
    """
    reflects = q < 0
    offset = _offset(q)
    is_below = offset < 0
    after, before = where(is_below, offset + 1, offset), where(is_below, -offset, 1 - offset)
    value = _zeta_from(s, where(reflects, after, q))
    mirrored = _zeta_from(s, where(reflects, before, 1.0))
    others = _zeta_from(s, where(reflects, 1 - q, 1.0))
    others = where(others.is_nan(), 0.0, others)  # of an s so large that its factors overflow
    half = s * 0.5
    is_even = half.equals(function("floor", half))
    reflected = value + where(is_even, mirrored - others, others - mirrored)
    result = where(reflects, reflected, value)
    result = where(reflects & ~s.equals(function("floor", s)), math.nan, result)
    result = where((q <= 0) & q.equals(function("floor", q)), math.inf, result)
    return where(s.equals(1.0), math.inf, where(s < 1, math.nan, result))


__all__ = ["digamma", "lgamma", "polygamma", "trigamma", "zeta"]
