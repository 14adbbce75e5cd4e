"""sin, cos and tan.

x = n·π/2 + r with |r| ≤ π/4; the quadrant n mod 4 chooses between ±sin r and ±cos r.
"""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.floats import F32, F64, FloatFormat, format_of, polynomial

_SIN = {
    "f32": (-0.16666654, 0.00833211, -0.00019508562),
    "f64": (
        -0.16666666666666627,
        0.008333333333321136,
        -0.0001984126982877408,
        2.755731332799228e-06,
        -2.5050700243724358e-08,
        1.5893389759682095e-10,
    ),
}
"""(sin(r)/r − 1)/r² in powers of r²; relative error in sin 2^-27.8 (f32), 2^-57.8 (f64)."""

_COS = {
    "f32": (0.041666646, -0.0013887302, 2.4430881e-05),
    "f64": (
        0.04166666666666659,
        -0.0013888888888872158,
        2.4801587288254125e-05,
        -2.7557313995896176e-07,
        2.087567448842649e-09,
        -1.1357101814847768e-11,
    ),
}
"""(cos(r) − 1 + r²/2)/r⁴ in powers of r²; error in cos 2^-33 (f32), 2^-64 (f64)."""

_TWO_OVER_PI = 2.0 / math.pi
_HALF_PI_32 = (1.57079601, 3.13916473e-7, 5.39030253e-15)
"""π/2 in three parts; the products with n < 2^17 lose nothing that matters in f32. Source: N. Juffa, "trig_red_f"."""
_FAST_BELOW_32 = 1.0e5

_HALF_PI_64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_DEFINED_BELOW_64 = 2.0**50

_TWO_OVER_PI_BITS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041
"""2/π · 2^192"""
_PARTS = tuple(float(_TWO_OVER_PI_BITS >> (192 - 24 * (k + 1)) & 0xFFFFFF) * 2.0 ** (-24 * (k + 1)) for k in range(8))
"""2/π in parts of 24 bits: an f32 times a part is exact in f64."""


def _reduce_fast_32(b: Builder, x: Value) -> tuple[Value, Value]:
    shifted = b.fma(x, _TWO_OVER_PI, F32.round_magic)
    n = b.sub(shifted, F32.round_magic)
    r = x
    for part in _HALF_PI_32:
        r = b.fma(n, -part, r)
    return b.bitcast(shifted, b.i32), r


def _reduce_any_32(b: Builder, x: Value) -> tuple[Value, Value]:
    """For every finite f32: x·2/π mod 4 as a sum of exact products, each taken modulo 4 (Payne and Hanek, without a
    table)."""
    wide = b.convert(x, b.f64)
    high = low = b.const(wide.type, 0.0)
    for part in _PARTS:
        product = b.mul(wide, part)
        rest = b.sub(product, b.mul(b.floor(b.mul(product, 0.25)), 4.0))
        total = b.add(high, rest)
        # The part of `rest` and `high` that the sum lost (Knuth's two-sum).
        shown = b.sub(total, high)
        low = b.add(low, b.add(b.sub(high, b.sub(total, shown)), b.sub(rest, shown)))
        high = total
    n = b.round_even(high)
    r = b.mul(b.add(b.sub(high, n), low), math.pi / 2)
    return b.convert(n, b.i32), b.convert(r, b.f32)


def _reduce_32(b: Builder, x: Value) -> tuple[Value, Value]:
    quadrant, r = _reduce_fast_32(b, x)
    magnitude = b.absolute(x)
    is_large = b.and_(b.cmp("oge", magnitude, _FAST_BELOW_32), b.cmp("olt", magnitude, math.inf))
    any_large = is_large if b.width(x) is None else b.reduce("or", is_large)
    branch = b.if_(any_large, [quadrant.type, r.type])
    with branch.then():
        slow_quadrant, slow_r = _reduce_any_32(b, b.select(is_large, x, 0.0))
        branch.yield_(b.select(is_large, slow_quadrant, quadrant), b.select(is_large, slow_r, r))
    with branch.otherwise():
        branch.yield_(quadrant, r)
    quadrant, r = branch.results
    return quadrant, r


def _reduce_64(b: Builder, x: Value) -> tuple[Value, Value]:
    """r = x − n·π/2, with π/2 in 160 bits and every product exact as a sum of two."""
    shifted = b.fma(x, _TWO_OVER_PI, F64.round_magic)
    n = b.sub(shifted, F64.round_magic)
    first, second, third = _HALF_PI_64
    product = b.mul(n, first)
    error = b.fma(n, first, b.neg(product))
    r = b.sub(x, product)
    # r − error − n·second, keeping what each subtraction rounds away.
    step = b.sub(r, error)
    shown = b.sub(step, r)
    lost = b.sub(b.sub(r, b.sub(step, shown)), b.add(error, shown))
    product = b.mul(n, second)
    low = b.fma(n, second, b.neg(product))
    r = b.sub(step, product)
    shown = b.sub(r, step)
    lost = b.add(lost, b.sub(b.sub(step, b.sub(r, shown)), b.add(product, shown)))
    r = b.add(r, b.sub(lost, b.fma(n, third, low)))
    return b.bitcast(shifted, b.i64), b.select(b.cmp("olt", b.absolute(x), _DEFINED_BELOW_64), r, math.nan)


def _sine_and_cosine(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value, Value]:
    """The quadrant n of x, sin r and cos r."""
    quadrant, r = _reduce_32(b, x) if form is F32 else _reduce_64(b, x)
    square = b.mul(r, r)
    sine = b.fma(b.mul(r, square), polynomial(b, square, _SIN[form.name]), r)
    cosine = b.fma(b.mul(square, square), polynomial(b, square, _COS[form.name]), b.fma(square, -0.5, 1.0))
    return quadrant, sine, cosine


def _sin_of(b: Builder, x: Value, quarter_turns: int) -> Value:
    """sin(x + quarter_turns·π/2)"""
    form = format_of(x)
    quadrant, sine, cosine = _sine_and_cosine(b, x, form)
    if quarter_turns:
        quadrant = b.add(quadrant, quarter_turns)
    value = b.select(b.cmp("ne", b.and_(quadrant, 1), 0), cosine, sine)
    sign = b.shl(b.and_(quadrant, 2), form.mantissa_bits + (7 if form is F32 else 10))
    return b.bitcast(b.xor(b.bitcast(value, form.integer(b)), sign), b.element_type(x))


def sin(b: Builder, x: Value) -> Value:
    """sin x, x in radians; f32 within 2 ULP for every finite x (from |x| ≥ 1e5 on by a slower branch), f64 within 2
    ULP for
    |x| < 2^50 and NaN beyond. ±∞ and NaN give NaN, −0 gives −0."""
    return b.select(b.cmp("oeq", x, 0.0), x, _sin_of(b, x, 0))


def cos(b: Builder, x: Value) -> Value:
    """cos x, x in radians; error and range as for `sin`."""
    return _sin_of(b, x, 1)


def tan(b: Builder, x: Value) -> Value:
    """tan x = sin r / cos r, or −cos r / sin r in odd quadrants; within 4 ULP, range as for `sin`. −0 gives −0."""
    quadrant, sine, cosine = _sine_and_cosine(b, x, format_of(x))
    is_odd = b.cmp("ne", b.and_(quadrant, 1), 0)
    ratio = b.div(b.select(is_odd, b.neg(cosine), sine), b.select(is_odd, sine, cosine))
    return b.select(b.cmp("oeq", x, 0.0), x, ratio)
