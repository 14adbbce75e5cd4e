"""exp, exp2, expm1, tanh and sigmoid.

x = n·ln2 + r with |r| ≤ ln2/2, eʳ = 1 + r + r²·q(r), and eˣ = 2ⁿ·eʳ.
"""

from __future__ import annotations

import math

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.floats import (
    LN_2,
    LOG2_E,
    FloatFormat,
    format_of,
    has_scale,
    polynomial,
    power_of_two,
    scale,
    scale_by_power_of_two,
)

_Q = {
    "f32": (0.5, 0.16666539, 0.041666474, 0.008367056, 0.0013934133),
    "f64": (
        0.5000000000000006,
        0.16666666666666677,
        0.04166666666657213,
        0.008333333333321313,
        0.001388888893312267,
        0.00019841269887135372,
        2.4801503349250605e-05,
        2.755724302107991e-06,
        2.762682252473025e-07,
        2.51095031860426e-08,
    ),
}
"""(eʳ − 1 − r)/r² on |r| ≤ 0.3483; relative error in eʳ − 1: 2^-26 (f32), 2^-55.5 (f64)."""

_TANH = {
    "f32": (-0.3333328, 0.13331419, -0.053738285, 0.020635376, -0.005701541),
    "f64": (
        -0.33333333333333315,
        0.1333333333332998,
        -0.05396825396616403,
        0.021869488471136494,
        -0.008863234345823921,
        0.003592114291893507,
        -0.0014557276486970284,
        0.0005894584431553804,
        -0.00023702895236766514,
        9.158682288163253e-05,
        -3.0214223319273575e-05,
        6.053723375859204e-06,
    ),
}
"""(tanh(x)/x − 1)/x² in powers of x² on |x| ≤ 0.625; relative error in tanh 2^-27.7 (f32), 2^-61 (f64)."""

# Above the first bound eˣ overflows; below the second it rounds to zero (the logarithm of half the smallest denormal).
_EXP_RANGE = {"f32": (89.0, -103.97209), "f64": (710.0, -745.1332191019412)}
_HALF_EXP_UPPER = {"f32": 89.75, "f64": 711.0}
EXP2_RANGE = {"f32": (128.0, -150.0), "f64": (1024.0, -1075.0)}
# Below this expm1 rounds to −1.
_EXPM1_LOWER = {"f32": -18.0, "f64": -38.0}
# From here on tanh rounds to 1.
_TANH_UPPER = {"f32": 10.0, "f64": 20.0}


def _nearest_multiple(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value]:
    """The integer nearest to x/ln2, as an integer and as a float."""
    shifted = b.fma(x, LOG2_E, form.round_magic)
    n = b.sub(b.bitcast(shifted, form.integer(b)), form.round_magic_bits)
    return n, b.sub(shifted, form.round_magic)


def _reduce(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value, Value]:
    """(n, n, r): the integer nearest to x/ln2, as an integer and as a float, and x − n·ln2."""
    n, n_float = _nearest_multiple(b, x, form)
    return n, n_float, b.fma(n_float, -form.ln2_low, b.fma(n_float, -form.ln2_high, x))


def _clamp(b: Builder, x: Value, lower: float, upper: float) -> Value:
    """x between the bounds; NaN stays NaN."""
    below = b.select(b.cmp("ogt", x, upper), upper, x)
    return b.select(b.cmp("olt", below, lower), lower, below)


def exp_reduced(b: Builder, r: Value, form: FloatFormat) -> Value:
    """eʳ = 1 + r·(1 + r·q(r)) for |r| ≤ ln2/2"""
    return b.fma(r, b.fma(r, polynomial(b, r, _Q[form.name]), 1.0), 1.0)


def exp_normal(b: Builder, x: Value) -> Value:
    """eˣ where the result is a normal number (f32: |x| ≤ 87, f64: |x| ≤ 708); NaN gives NaN, other x are undefined."""
    form = format_of(x)
    n, n_float, r = _reduce(b, x, form)
    power = exp_reduced(b, r, form)
    return scale(b, power, n_float) if has_scale(b, x) else b.mul(power, power_of_two(b, n, form))


def exp(b: Builder, x: Value) -> Value:
    """eˣ; f32 within 1 ULP, f64 within 1 ULP. Overflows to ∞, denormal results are rounded once, no branches."""
    form = format_of(x)
    upper, lower = _EXP_RANGE[form.name]
    if has_scale(b, x):
        _, n_float, r = _reduce(b, _clamp(b, x, math.floor(lower), upper), form)
        return scale(b, exp_reduced(b, r, form), n_float)
    # Lanes that underflow compute e⁰ instead: no denormal intermediates, which would be many times slower.
    underflow = b.cmp("olt", x, lower)
    inside = b.select(underflow, 0.0, b.select(b.cmp("ogt", x, upper), upper, x))
    n, _, r = _reduce(b, inside, form)
    return b.select(underflow, 0.0, scale_by_power_of_two(b, exp_reduced(b, r, form), n, form))


def half_exp(b: Builder, x: Value) -> Value:
    """eˣ/2 for x ≥ 0, within 1 ULP: it overflows only where the result does, ln 2 later than eˣ. NaN gives NaN."""
    form = format_of(x)
    upper = _HALF_EXP_UPPER[form.name]
    n, n_float, r = _reduce(b, b.select(b.cmp("ogt", x, upper), upper, x), form)
    power = exp_reduced(b, r, form)
    if has_scale(b, x):
        return scale(b, power, b.sub(n_float, 1.0))
    return scale_by_power_of_two(b, power, b.sub(n, 1), form)


def exp2(b: Builder, x: Value) -> Value:
    """2ˣ; f32 within 1 ULP, f64 within 1 ULP; exact at integers."""
    form = format_of(x)
    upper, lower = EXP2_RANGE[form.name]
    if has_scale(b, x):
        inside = _clamp(b, x, lower - 1, upper)
        n_float = b.round_even(inside)
        return scale(b, exp_reduced(b, b.mul(b.sub(inside, n_float), LN_2), form), n_float)
    underflow = b.cmp("olt", x, lower)
    inside = b.select(underflow, 0.0, b.select(b.cmp("ogt", x, upper), upper, x))
    shifted = b.add(inside, form.round_magic)
    n = b.sub(b.bitcast(shifted, form.integer(b)), form.round_magic_bits)
    r = b.mul(b.sub(inside, b.sub(shifted, form.round_magic)), LN_2)
    return b.select(underflow, 0.0, scale_by_power_of_two(b, exp_reduced(b, r, form), n, form))


def expm1(b: Builder, x: Value) -> Value:
    """eˣ − 1; within 2 ULP; tiny x, denormals and −0 come back unchanged."""
    form = format_of(x)
    upper, lower = _EXP_RANGE[form.name][0], _EXPM1_LOWER[form.name]
    inside = _clamp(b, x, lower, upper)
    n, n_float = _nearest_multiple(b, inside, form)
    # r = head + tail: head is exact, and the rounding of their sum matters only inside q.
    head = b.fma(n_float, -form.ln2_high, inside)
    tail = b.mul(n_float, -form.ln2_low)
    r = b.add(head, tail)
    reduced = b.add(head, b.fma(b.mul(r, r), polynomial(b, r, _Q[form.name]), tail))
    # 2ⁿ itself may overflow where 2ⁿ·eʳ − 1 does not, so half of everything is computed.
    half_scale = power_of_two(b, b.sub(n, 1), form)
    half = b.fma(reduced, half_scale, b.sub(half_scale, 0.5))
    tiny = b.cmp("olt", b.absolute(x), 2.0 ** -(form.mantissa_bits + 2))
    return b.select(tiny, x, b.add(half, half))


def tanh(b: Builder, x: Value) -> Value:
    """tanh x = x + x³·T(x²) below 0.625, else 1 − 2/(e²ˣ + 1); f32 within 1.5 ULP, f64 within 1.5 ULP."""
    form = format_of(x)
    magnitude = b.absolute(x)
    square = b.mul(x, x)
    small = b.fma(b.mul(magnitude, square), polynomial(b, square, _TANH[form.name]), magnitude)
    upper = _TANH_UPPER[form.name]
    clamped = b.select(b.cmp("ogt", magnitude, upper), upper, magnitude)
    large = b.sub(1.0, b.div(2.0, b.add(exp_normal(b, b.add(clamped, clamped)), 1.0)))
    return b.copysign(b.select(b.cmp("olt", magnitude, 0.625), small, large), x)


def sigmoid(b: Builder, x: Value) -> Value:
    """1/(1 + e⁻ˣ), computed with e^−|x| so that nothing overflows and small results keep their accuracy; within 2.5
    ULP."""
    e = exp(b, b.neg(b.absolute(x)))
    return b.div(b.select(b.cmp("olt", x, 0.0), e, 1.0), b.add(e, 1.0))
