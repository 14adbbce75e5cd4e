"""log, log2, log10, log1p.

x = 2ᵉ·(1 + f) with √½ ≤ 1 + f < √2, log x = e·ln2 + log(1 + f).
"""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.floats import (
    F32,
    LOG2_E,
    FloatFormat,
    format_of,
    polynomial,
    power_of_two,
    split_exponent,
)

_P32 = (
    0.3333331,
    -0.25,
    0.20002227,
    -0.16668527,
    0.14218122,
    -0.12396421,
    0.11888593,
    -0.11725829,
    0.06804919,
)
"""(log(1+f) − f + f²/2)/f³ for f32; relative error in log(1+f) 2^-30."""

_R64 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
"""(log((1+s)/(1−s)) − 2s)/s³ in powers of s² for f64; error 2^-58.45. Source: fdlibm, e_log.c (Sun Microsystems,
1993)."""


def _log_of_parts(b: Builder, e: Value, f: Value, form: FloatFormat) -> Value:
    """e·ln2 + log(1 + f), small terms added first."""
    half_square = b.mul(b.mul(f, f), 0.5)
    if form is F32:
        cube = b.mul(b.mul(f, f), f)
        rest = b.fma(e, form.ln2_low, b.mul(cube, polynomial(b, f, _P32)))
        return b.fma(e, form.ln2_high, b.add(f, b.sub(rest, half_square)))
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    tail = b.fma(s, b.fma(z, polynomial(b, z, _R64), half_square), b.mul(e, form.ln2_low))
    return b.fma(e, form.ln2_high, b.sub(f, b.sub(half_square, tail)))


def parts(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value]:
    """(e as a float, f) of a positive finite x, denormals included."""
    shift = form.mantissa_bits + 1
    denormal = b.cmp("olt", x, form.smallest_normal)
    e, m = split_exponent(b, b.select(denormal, b.mul(x, 2.0**shift), x), form)
    e_float = b.convert(e, b.element_type(x))
    return b.sub(e_float, b.select(denormal, b.const(x.type, shift), 0.0)), b.sub(m, 1.0)


def _with_special_values(b: Builder, x: Value, zero_at: float, result: Value) -> Value:
    """The result, but −∞ where x is `zero_at`, NaN below it or for NaN, and ∞ for ∞."""
    result = b.select(b.cmp("oeq", x, math.inf), x, result)
    result = b.select(b.cmp("oeq", x, zero_at), -math.inf, result)
    return b.select(b.cmp("ult", x, zero_at), math.nan, result)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm; f32 within 1 ULP, f64 within 1 ULP."""
    form = format_of(x)
    e, f = parts(b, x, form)
    return _with_special_values(b, x, 0.0, _log_of_parts(b, e, f, form))


def log2(b: Builder, x: Value) -> Value:
    """The base-2 logarithm; within 2.5 ULP, exact at powers of two."""
    form = format_of(x)
    e, f = parts(b, x, form)
    mantissa = _log_of_parts(b, b.const(x.type, 0.0), f, form)
    return _with_special_values(b, x, 0.0, b.fma(mantissa, LOG2_E, e))


def log10(b: Builder, x: Value) -> Value:
    """The base-10 logarithm as log x · log₁₀e; within 2.5 ULP."""
    return b.mul(log(b, x), math.log10(math.e))


def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x); f32 within 1.5 ULP, f64 within 1.5 ULP; −0 and denormals come back unchanged.

    The exponent e is that of the rounded 1 + x, but f = x·2⁻ᵉ + (2⁻ᵉ − 1) is taken from x itself, with one rounding.
    """
    form = format_of(x)
    e, m = split_exponent(b, b.add(x, 1.0), form)
    scale = power_of_two(b, b.sub(0, e), form)
    # For large x the 1 does not matter (and 2⁻ᵉ might not be a normal number).
    large = b.cmp("ogt", x, 2.0 ** (form.mantissa_bits + 30))
    f = b.select(large, b.sub(m, 1.0), b.fma(x, scale, b.sub(scale, 1.0)))
    result = _log_of_parts(b, b.convert(e, b.element_type(x)), f, form)
    result = b.select(b.cmp("oeq", x, 0.0), x, result)
    return _with_special_values(b, x, -1.0, result)
