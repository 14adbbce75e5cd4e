"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.floats import FloatFormat, format_of, polynomial

_ATAN = {
    "f32": (-0.333333135, 0.199983865, -0.142421588, 0.105848126, -0.0605757348),
    "f64": (
        -0.33333333333333326,
        0.19999999999997242,
        -0.14285714285345055,
        0.11111111085932318,
        -0.09090908074579289,
        0.07692281365291567,
        -0.06666208358982041,
        0.058768588436345096,
        -0.05217446917758357,
        0.044999691881086816,
        -0.03339733103226493,
        0.015122293159848272,
    ),
}
"""(atan(r)/r − 1)/r² in powers of r² on |r| ≤ tan π/8; relative error in atan 2^-30 (f32), 2^-63 (f64)."""

_ASIN = {
    "f32": (0.166666597, 0.0750051439, 0.0445156358, 0.0318155289, 0.0144169517, 0.0375392847),
    "f64": (
        0.1666666666666666,
        0.07500000000002352,
        0.04464285713988063,
        0.030381944634177052,
        0.022372151942676506,
        0.017352938138249775,
        0.01396197575851439,
        0.011584962317052448,
        0.00948902978808535,
        0.0099851244202639,
        0.0007638240767471158,
        0.024649675924611453,
        -0.0259245073028388,
        0.033515999426874735,
    ),
}
"""(asin(s)/s − 1)/s² in powers of s² on |s| ≤ ½; relative error in asin 2^-31 (f32), 2^-63 (f64)."""

_HALF_PI = {"f32": (1.57079637, -4.37113883e-08), "f64": (1.5707963267948966, 6.123233995736766e-17)}
"""π/2 rounded, and the rest."""

_TAN_EIGHTH_PI = math.sqrt(2.0) - 1.0


def _arcsine_tail(b: Builder, s: Value, square: Value, form: FloatFormat) -> Value:
    """asin(s) − s for |s| ≤ ½"""
    return b.mul(b.mul(s, square), polynomial(b, square, _ASIN[form.name]))


def _halved(b: Builder, magnitude: Value) -> tuple[Value, Value]:
    """(s, s²) with asin |x| = π/2 − 2·asin s: s² = (1 − |x|)/2, exact for |x| ≥ ½."""
    square = b.mul(b.sub(1.0, magnitude), 0.5)
    return b.sqrt(square), square


def asin(b: Builder, x: Value) -> Value:
    """The angle in [−π/2, π/2] whose sine is x; within 3 ULP. NaN outside [−1, 1], −0 gives −0."""
    form = format_of(x)
    high, low = _HALF_PI[form.name]
    magnitude = b.absolute(x)
    is_small = b.cmp("olt", magnitude, 0.5)
    root, half_square = _halved(b, magnitude)
    s = b.select(is_small, magnitude, root)
    square = b.select(is_small, b.mul(magnitude, magnitude), half_square)
    tail = _arcsine_tail(b, s, square, form)
    angle = b.add(s, tail)
    large = b.sub(high, b.sub(b.add(angle, angle), low))
    return b.copysign(b.select(is_small, angle, large), x)


def acos(b: Builder, x: Value) -> Value:
    """The angle in [0, π] whose cosine is x; within 1.5 ULP. NaN outside [−1, 1]."""
    form = format_of(x)
    high, low = _HALF_PI[form.name]
    magnitude = b.absolute(x)
    is_small = b.cmp("olt", magnitude, 0.5)
    root, half_square = _halved(b, magnitude)
    s = b.select(is_small, x, root)
    square = b.select(is_small, b.mul(x, x), half_square)
    tail = _arcsine_tail(b, s, square, form)
    near_zero = b.sub(high, b.sub(s, b.sub(low, tail)))
    twice = b.mul(b.add(s, tail), 2.0)
    below = b.sub(2.0 * high, b.sub(twice, 2.0 * low))
    return b.select(is_small, near_zero, b.select(b.cmp("olt", x, 0.0), below, twice))


def _arctangent(b: Builder, numerator: Value, denominator: Value, form: FloatFormat) -> Value:
    """atan(numerator / denominator) for 0 ≤ numerator ≤ denominator, and 0 where both are 0.

    Above tan π/8 it is π/4 + atan((n − d)/(n + d)), so that one division serves both; n + d must not overflow.
    """
    high, low = _HALF_PI[form.name]
    is_steep = b.cmp("ogt", numerator, b.mul(denominator, _TAN_EIGHTH_PI))
    top = b.select(is_steep, b.sub(numerator, denominator), numerator)
    bottom = b.select(is_steep, b.add(numerator, denominator), denominator)
    r = b.select(b.cmp("oeq", top, 0.0), 0.0, b.div(top, bottom))
    square = b.mul(r, r)
    tail = b.fma(
        b.mul(r, square), polynomial(b, square, _ATAN[form.name]), b.select(is_steep, b.const(r.type, low * 0.5), 0.0)
    )
    return b.select(is_steep, b.add(high * 0.5, b.add(r, tail)), b.add(r, tail))


def atan(b: Builder, x: Value) -> Value:
    """The angle in [−π/2, π/2] whose tangent is x; within 2.5 ULP. −0 gives −0, ±∞ give ±π/2."""
    form = format_of(x)
    high, low = _HALF_PI[form.name]
    magnitude = b.absolute(x)
    is_large = b.cmp("ogt", magnitude, 1.0)
    one = b.const(x.type, 1.0)
    # 1/|x| of an infinity is 0/1.
    infinite = b.cmp("oeq", magnitude, math.inf)
    numerator = b.select(infinite, 0.0, b.select(is_large, one, magnitude))
    denominator = b.select(infinite, one, b.select(is_large, magnitude, one))
    huge = b.cmp("ogt", denominator, 2.0 ** (form.bias - 1))
    factor = b.select(huge, b.const(x.type, 0.25), 1.0)
    angle = _arctangent(b, b.mul(numerator, factor), b.mul(denominator, factor), form)
    angle = b.select(is_large, b.sub(high, b.sub(angle, low)), angle)
    return b.copysign(b.select(b.is_nan(x), x, angle), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle in [−π, π] of the point (x, y); within 2.5 ULP. C's Annex F: zeros and infinities keep their quadrant."""
    form = format_of(x)
    high, low = _HALF_PI[form.name]
    rise, run = b.absolute(y), b.absolute(x)
    is_steep = b.cmp("ogt", rise, run)
    numerator, denominator = b.select(is_steep, run, rise), b.select(is_steep, rise, run)
    # The quotient of two infinities is 1, of a number by an infinity 0.
    infinite = b.cmp("oeq", denominator, math.inf)
    numerator = b.select(infinite, b.select(b.cmp("oeq", numerator, math.inf), b.const(x.type, 1.0), 0.0), numerator)
    denominator = b.select(infinite, 1.0, denominator)
    # Neither the sum may overflow nor a small quotient of small numbers lose bits.
    huge = b.cmp("ogt", denominator, 2.0 ** (form.bias - 1))
    tiny = b.cmp("olt", denominator, 2.0 ** (form.mantissa_bits + 3 - form.bias))
    factor = b.select(
        huge, b.const(x.type, 0.25), b.select(tiny, b.const(x.type, 2.0 ** (form.mantissa_bits + 3)), 1.0)
    )
    angle = _arctangent(b, b.mul(numerator, factor), b.mul(denominator, factor), form)
    angle = b.select(is_steep, b.sub(high, b.sub(angle, low)), angle)
    is_left = b.cmp("slt", b.bitcast(x, form.integer(b)), 0)
    angle = b.select(is_left, b.sub(2.0 * high, b.sub(angle, 2.0 * low)), angle)
    return b.select(b.cmp("uno", x, y), math.nan, b.copysign(angle, y))
