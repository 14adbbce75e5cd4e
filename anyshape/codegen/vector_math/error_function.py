"""erf."""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.exponential import exp_normal
from anyshape.codegen.vector_math.floats import F32, format_of, polynomial

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


def erf(b: Builder, x: Value) -> Value:
    """erf x = x + x·E(x²) for small x, else 1 − erfc; f32 within 1.5 ULP, f64 within 1.5 ULP."""
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
