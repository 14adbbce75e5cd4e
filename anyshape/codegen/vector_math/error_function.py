"""erf."""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.exponential import exp_normal
from anyshape.codegen.vector_math.floats import F32, format_of, polynomial
from anyshape.codegen.vector_math.lookup import has_lookup, lookup

_SMALL = {
    "f32": (0.12837917, -0.37612632, 0.11283677, -0.026858592, 0.005199314, -0.0008125135, 8.3012026e-05),
    "f64": (
        0.1283791670955126,
        -0.37612638903183876,
        0.11283791670958783,
        -0.026866170645631897,
        0.00522397762924565,
        -0.0008548327199358301,
        0.00012055338161402357,
        -1.4925748180263297e-05,
        1.6463247308282152e-06,
        -1.637237190617396e-07,
        1.479835734512629e-08,
        -1.1876556064934913e-09,
        6.762802504727886e-11,
    ),
}
"""erf(x)/x − 1 in powers of x²; f32 on |x| ≤ 0.93 (error 2^-30), f64 on |x| ≤ 1 (error 2^-56)."""

_SMALL_BELOW = {"f32": 0.921875, "f64": 1.0}

_LOG_ERFC32 = (
    -1.28717512e-1,
    -6.34846687e-1,
    -1.06777877e-1,
    2.42546219e-2,
    -3.88396438e-3,
    3.83197126e-4,
    -1.72853470e-5,
)
"""log(1 − erf(a))/a + 1 for 0.92 ≤ a ≤ 4. Source: N. Juffa, "my_erff" (public domain, 2016)."""

_ERFC64_P = (
    5.57535335369399327526e2,
    1.02755188689515710272e3,
    9.34528527171957607540e2,
    5.26445194995477358631e2,
    1.96520832956077098242e2,
    4.86371970985681366614e1,
    7.46321056442269912687e0,
    5.64189564831068821977e-1,
    2.46196981473530512524e-10,
)
_ERFC64_Q = (
    5.57535340817727675546e2,
    1.65666309194161350182e3,
    2.24633760818710981792e3,
    1.82390916687909736289e3,
    9.75708501743205489753e2,
    3.54937778887819891062e2,
    8.67072140885989742329e1,
    1.32281951154744992508e1,
    1.0,
)
"""(1 − erf(a))·exp(a²) = P(a)/Q(a) for 1 ≤ a ≤ 8. Source: Cephes, ndtr.c (S. L. Moshier)."""

# From here on erf rounds to 1.
_UPPER = {"f32": 4.0, "f64": 6.0}


_INTERVALS = 3.92
"""Intervals of a unit of |x|, the first one around 0."""
_TABLE_UPPER = 3.95
"""From here on erf rounds to 1; the last interval ends just behind."""
_CENTRE = (
    0.0, 0.25372586, 0.51365596, 0.7632856, 1.0264493, 1.2746234, 1.5305593, 1.7863827,
    2.043538, 2.2880676, 2.5569923, 2.8178396, 3.064384, 3.3096507, 3.5605512, 3.832475,
)  # fmt: skip
_AT_CENTRE = (
    0.0, 0.28027216, 0.5324182, 0.7196123, 0.8533923, 0.9285473, 0.9695769, 0.9884738,
    0.9961476, 0.99878705, 0.99970096, 0.9999325, 0.99998534, 0.99999714, 0.9999995, 0.99999994,
)  # fmt: skip
_SLOPES = (
    (0.12837917, 1.0580267, 0.866702, 0.6301341, 0.3934442, 0.22226553, 0.10841058, 0.046403475,
     0.017330874, 0.0060091475, 0.0016328573, 0.00040185297, 9.424079e-05, 1.9736817e-05, 3.52069e-06, 4.7170155e-07),
    (0.0, -0.26844397, -0.4451811, -0.48096937, -0.40385133, -0.28330734, -0.16593094, -0.08289524,
     -0.035416253, -0.013749046, -0.0041749217, -0.0011322055, -0.0002887437, -6.530143e-05, -1.254914e-05, -1.8103411e-06),
    (-0.37612316, -0.30729356, -0.13649102, 0.034697793, 0.14520866, 0.16664791, 0.133174, 0.08325488,
     0.042473283, 0.018972686, 0.0065710885, 0.0019913497, 0.0005582366, 0.00013766966, 2.8715638e-05, 4.4337094e-06),
    (0.0, 0.12753259, 0.18233994, 0.14650962, 0.06025121, -0.011278294, -0.04618951, -0.046559006,
     -0.031602092, -0.017184215, -0.0070678075, -0.002459147, -0.00077153073, -0.00021026647, -4.6906298e-05, -7.974944e-06),
    (0.11222398, 0.08008184, 0.0055114278, -0.054890275, -0.06815323, -0.043845285, -0.011585467, 0.008210673,
     0.01300898, 0.009798644, 0.005327159, 0.002268705, 0.0007877731, 0.00022583696, 5.0147995e-05, 1.2749644e-05),
)  # fmt: skip
"""erf(a) = erf(c) + t·(s₁ + s₂t + … + s₅t⁴) with t = a − c, error below 2^-25 of the result; around 0, erf(a) − a instead of erf(a).

Centres lie where erf and its slope are within 2^-7 of a last place of f32 numbers, so that neither loses what the sum could keep.
"""


def erf(b: Builder, x: Value) -> Value:
    """erf x, f32 within 1.5 ULP, f64 within 1.5 ULP.

    Of f32 by a polynomial for each of 16 intervals where lanes can look up coefficients, else and of f64 as x + x·E(x²) for small
    x and 1 − erfc for others: the bits of f32 are those of the target's form.
    """
    return _by_intervals(b, x) if format_of(x) is F32 and has_lookup(b) else _by_complement(b, x)


def _by_intervals(b: Builder, x: Value) -> Value:
    magnitude = b.absolute(x)
    a = b.select(b.cmp("ogt", magnitude, _TABLE_UPPER), _TABLE_UPPER, magnitude)
    # The number of the nearest interval is in the low bits.
    shifted = b.fma(a, _INTERVALS, F32.round_magic)
    index = b.bitcast(shifted, b.i32)
    centre, at_centre, *slopes = lookup(b, (_CENTRE, _AT_CENTRE, *_SLOPES), index)
    t = b.sub(a, centre)
    slope = slopes[-1]
    for coefficient in reversed(slopes[:-1]):
        slope = b.fma(slope, t, coefficient)
    start = b.select(b.cmp("oeq", shifted, F32.round_magic), a, at_centre)
    return b.copysign(b.fma(slope, t, start), x)


def _by_complement(b: Builder, x: Value) -> Value:
    form = format_of(x)
    small = b.fma(x, polynomial(b, b.mul(x, x), _SMALL[form.name]), x)
    magnitude = b.absolute(x)
    upper = _UPPER[form.name]
    a = b.select(b.cmp("ogt", magnitude, upper), upper, magnitude)
    if form is F32:
        complement = exp_normal(b, b.fma(a, polynomial(b, a, _LOG_ERFC32), b.neg(a)))
    else:
        ratio = b.div(polynomial(b, a, _ERFC64_P), polynomial(b, a, _ERFC64_Q))
        complement = b.mul(exp_normal(b, b.neg(b.mul(a, a))), ratio)
    large = b.copysign(b.sub(1.0, complement), x)
    return b.select(b.cmp("olt", magnitude, _SMALL_BELOW[form.name]), small, large)
