"""pow and the reciprocal square root."""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.exponential import EXP2_RANGE, exp2, exp_reduced
from anyshape.codegen.vector_math.floats import (
    F32,
    LN_2,
    LOG2_E,
    FloatFormat,
    format_of,
    polynomial,
    scale_by_power_of_two,
)
from anyshape.codegen.vector_math.logarithm import log2, parts

_LOG2_E_LOW = 2.0355273740931033e-17
_LN_2_LOW = 2.3190468138462996e-17
_THIRD_LOW = 1.850371707708594e-17
_ATANH = (
    0.20000000000001233,
    0.14285714285002832,
    0.11111111267946937,
    0.09090891507682966,
    0.07693409079426868,
    0.0662771240771434,
    0.06604551186015646,
)
"""(atanh(s)/s − 1 − s²/3)/s⁴ in powers of s² on |s| ≤ 0.172; relative error in atanh 2^-66."""


def _two_product(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x·y exactly, as a rounded product and its error."""
    product = b.mul(x, y)
    return product, b.fma(x, y, b.neg(product))


def _fast_two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y exactly, as a rounded sum and its error; |x| ≥ |y| or x = 0."""
    total = b.add(x, y)
    return total, b.sub(y, b.sub(total, x))


def _log2_double(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value]:
    """log₂ of positive finite x as an unevaluated sum, relative error about 2^-63.

    log(1+f) = 2s·(1 + s²/3 + s⁴·A(s²)) with s = f/(2+f), every step of the leading terms in double-double arithmetic.
    """
    e, f = parts(b, x, form)
    denominator, denominator_low = _fast_two_sum(b, b.const(x.type, 2.0), f)
    inverse = b.div(1.0, denominator)
    s = b.mul(f, inverse)
    s_low = b.mul(b.fma(b.neg(s), denominator_low, b.fma(b.neg(s), denominator, f)), inverse)
    z, z_low = _two_product(b, s, s)
    z_low = b.fma(b.add(s, s), s_low, z_low)
    tail = b.mul(z, polynomial(b, z, _ATANH))
    series, series_low = _fast_two_sum(b, b.const(x.type, 1.0 / 3.0), tail)
    series_low = b.add(series_low, _THIRD_LOW)
    c, c_low = _two_product(b, z, series)
    c_low = b.add(c_low, b.fma(z, series_low, b.mul(z_low, series)))
    factor, factor_low = _fast_two_sum(b, b.const(x.type, 1.0), c)
    factor_low = b.add(factor_low, c_low)
    double_s, double_s_low = b.add(s, s), b.add(s_low, s_low)
    logarithm, logarithm_low = _two_product(b, double_s, factor)
    logarithm_low = b.add(logarithm_low, b.fma(double_s, factor_low, b.mul(double_s_low, factor)))
    mantissa, mantissa_low = _two_product(b, logarithm, b.const(x.type, LOG2_E))
    mantissa_low = b.add(mantissa_low, b.fma(logarithm, _LOG2_E_LOW, b.mul(logarithm_low, LOG2_E)))
    high, low = _fast_two_sum(b, e, mantissa)
    return _fast_two_sum(b, high, b.add(low, mantissa_low))


def _positive_power_64(b: Builder, x: Value, y: Value, form: FloatFormat) -> Value:
    """x^y for x ≥ 0 as 2^(y·log₂x), the exponent in double-double arithmetic."""
    high, low = _log2_double(b, x, form)
    high = b.select(b.cmp("oeq", x, 0.0), -math.inf, b.select(b.cmp("oeq", x, math.inf), math.inf, high))
    product, product_low = _two_product(b, y, high)
    product_low = b.fma(y, low, product_low)
    upper, lower = EXP2_RANGE[form.name]
    underflow = b.cmp("olt", product, lower)
    overflow = b.cmp("oge", product, upper)
    outside = b.or_(underflow, overflow)
    product, product_low = b.select(outside, 0.0, product), b.select(outside, 0.0, product_low)
    shifted = b.add(product, form.round_magic)
    n = b.sub(b.bitcast(shifted, form.integer(b)), form.round_magic_bits)
    fraction = b.sub(product, b.sub(shifted, form.round_magic))
    r = b.fma(fraction, LN_2, b.fma(fraction, _LN_2_LOW, b.mul(product_low, LN_2)))
    result = scale_by_power_of_two(b, exp_reduced(b, r, form), n, form)
    return b.select(underflow, 0.0, b.select(overflow, math.inf, result))


def powf(b: Builder, x: Value, y: Value) -> Value:
    """x^y as C's `pow`; f32 within 1 ULP (computed in f64), f64 within 2 ULP (the logarithm in double-double
    arithmetic).

    pow(x, ±0) = pow(1, y) = 1 even for NaN; pow(−1, ±∞) = 1; negative x with a y that is no integer gives NaN; ±0 and
    ±∞ keep their sign for odd y.
    """
    form = format_of(x)
    magnitude = b.absolute(x)
    if form is F32:
        wide = b.mul(b.convert(y, b.f64), log2(b, b.convert(magnitude, b.f64)))
        power = b.convert(exp2(b, wide), b.f32)
    else:
        power = _positive_power_64(b, magnitude, y, form)
    half = b.mul(y, 0.5)
    is_integer = b.cmp("oeq", b.trunc(y), y)
    is_odd = b.and_(is_integer, b.cmp("one", b.trunc(half), half))
    negative = b.cmp("slt", b.bitcast(x, form.integer(b)), 0)
    power = b.select(b.and_(negative, is_odd), b.neg(power), power)
    no_root = b.and_(b.cmp("olt", x, 0.0), b.not_(is_integer))
    power = b.select(b.and_(no_root, b.cmp("one", magnitude, math.inf)), math.nan, power)
    power = b.select(b.cmp("uno", x, y), math.nan, power)
    infinite_exponent = b.cmp("oeq", b.absolute(y), math.inf)
    one = b.or_(b.cmp("oeq", x, 1.0), b.cmp("oeq", y, 0.0))
    one = b.or_(one, b.and_(b.cmp("oeq", magnitude, 1.0), infinite_exponent))
    return b.select(one, 1.0, power)


def rsqrt(b: Builder, x: Value) -> Value:
    """1/√x, both steps correctly rounded: within 1.5 ULP; ±0 give ±∞, negative x NaN."""
    return b.div(1.0, b.sqrt(x))
