"""sinh, cosh and their inverses, out of eˣ/2 and log(1 + x)."""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.exponential import half_exp
from anyshape.codegen.vector_math.floats import LN_2, format_of, polynomial
from anyshape.codegen.vector_math.logarithm import log1p

_SINH = {
    "f32": (0.166666672, 0.00833331514, 0.00019841663, 2.79002006e-06),
    "f64": (
        0.16666666666666666,
        0.00833333333333352,
        0.00019841269841131196,
        2.755731927482038e-06,
        2.5052098143327057e-08,
        1.606019921026771e-10,
        7.578627151048451e-13,
        4.486783233031553e-15,
    ),
}
"""(sinh(x)/x − 1)/x² in powers of x² on |x| ≤ 1; relative error in sinh 2^-31 (f32), 2^-62 (f64)."""


def sinh(b: Builder, x: Value) -> Value:
    """sinh x = x + x³·S(x²) below 1, else h − ¼/h with h = eˣ/2; within 2 ULP. −0 gives −0."""
    form = format_of(x)
    magnitude = b.absolute(x)
    square = b.mul(magnitude, magnitude)
    small = b.fma(b.mul(magnitude, square), polynomial(b, square, _SINH[form.name]), magnitude)
    half = half_exp(b, magnitude)
    large = b.sub(half, b.div(0.25, half))
    return b.copysign(b.select(b.cmp("olt", magnitude, 1.0), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    """cosh x = h + ¼/h with h = e^|x|/2; within 2 ULP."""
    half = half_exp(b, b.absolute(x))
    return b.add(half, b.div(0.25, half))


def asinh(b: Builder, x: Value) -> Value:
    """sign x · log(1 + |x| + x²/(1 + √(1 + x²))); within 2.5 ULP. −0 gives −0.

    Where the 1 does not count, and x² might overflow, it is log|x| + ln 2.
    """
    magnitude = b.absolute(x)
    is_large = b.cmp("ogt", magnitude, 2.0 ** format_of(x).mantissa_bits)
    bounded = b.select(is_large, 0.0, magnitude)
    square = b.mul(bounded, bounded)
    root = b.sqrt(b.add(square, 1.0))
    argument = b.add(magnitude, b.div(square, b.add(root, 1.0)))
    return b.copysign(b.add(log1p(b, argument), b.select(is_large, b.const(x.type, LN_2), 0.0)), x)


def acosh(b: Builder, x: Value) -> Value:
    """log(1 + t + √(2t + t²)) with t = x − 1; within 3 ULP. NaN below 1.

    Where the 1 does not count, and t² might overflow, it is log x + ln 2.
    """
    is_large = b.cmp("ogt", x, 2.0 ** format_of(x).mantissa_bits)
    t = b.sub(x, 1.0)
    bounded = b.select(is_large, 0.0, t)
    root = b.sqrt(b.mul(bounded, b.add(bounded, 2.0)))
    result = b.add(log1p(b, b.add(t, root)), b.select(is_large, b.const(x.type, LN_2), 0.0))
    return b.select(b.cmp("olt", x, 1.0), math.nan, result)


def atanh(b: Builder, x: Value) -> Value:
    """½·sign x · log(1 + 2|x|/(1 − |x|)); within 2.5 ULP. ±1 give ±∞, NaN beyond, −0 gives −0."""
    magnitude = b.absolute(x)
    quotient = b.div(b.add(magnitude, magnitude), b.sub(1.0, magnitude))
    return b.copysign(b.mul(log1p(b, quotient), 0.5), x)
