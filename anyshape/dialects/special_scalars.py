"""Special functions in scalars of f64: Chebyshev series and asymptotic expansions. Narrower floats are computed in f64 and rounded.

The gamma function's relatives are in `gamma_scalars.py`, written as `formulas.py` has it.

The Chebyshev coefficients are those of 80 nodes in 40-digit arithmetic, cut where they are below 10⁻¹⁷ of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.scalars import Scalars

_ERFCX = (
    1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225, -0.02875393558027666,
    0.01059566336347286, -0.003136927294554264, 0.0007456494372536184, -0.0001369696503010054,
    1.7183861600300937e-05, -7.158364623450346e-07, -2.4261399442449534e-07, 5.5765709395703566e-08,
    -2.1057869513809494e-09, -1.1717889351884957e-09, 1.9098355172456688e-10, 1.408871764208813e-11,
    -6.901108320480815e-12, 9.167958364111294e-14, 2.1454508286554553e-13, -1.4716575027010623e-14,
    -6.668675118770408e-15, 7.504598509880083e-16, 2.22009300666632e-16, -3.1704898956330886e-17,
    -8.193570309884333e-18,
)  # fmt: skip
"""(1 + 2x)·e^(x²)·erfc x in t = (x − 4)/(x + 4), x ≥ 0"""
_I0_SMALL = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
    -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
    -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
    -4.4153416464793395e-18,
)  # fmt: skip
"""e⁻ˣ·I₀(x) on [0, 8]"""
_I0_LARGE = (
    0.4022452055329686, 0.003369116453380274, 6.889758249401792e-05, 2.8913704630166388e-06, 2.0489185392867147e-07,
    2.2666689273344832e-08, 3.3962319136968844e-09, 4.940602154822363e-10, 1.1889143541639511e-11,
    -3.149916474227068e-11, -1.3215811167134482e-11, -1.7941783054428149e-12, 7.18012445891272e-13,
    3.8527780866100767e-13, 1.540085344442296e-14, -4.150569144766028e-14, -9.554844966377404e-15,
    3.811680678310564e-15, 1.7725598609586516e-15, -3.4254859718587206e-16, -2.827623560081044e-16,
    3.461223769025636e-17, 4.465620723432377e-17, -4.830506265606463e-18, -7.233179208170016e-18,
)  # fmt: skip
"""√x·e⁻ˣ·I₀(x) in 1/x on (0, ⅛]"""
_I1_SMALL = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
"""e⁻ˣ·I₁(x)/x on [0, 8]"""
_I1_LARGE = (
    0.38928811743273467, -0.009761097416639455, -0.0001105889371652798, -3.882564729980139e-06,
    -2.512236175421729e-07, -2.631468772717482e-08, -3.835380259195339e-09, -5.589743201928629e-10,
    -1.89749540621353e-11, 3.252603532505654e-11, 1.4125806729902127e-11, 2.0356282999294753e-12,
    -7.198551816483758e-13, -4.083550804482674e-13, -2.1015408973475216e-14, 4.272439819352235e-14,
    1.0420275164593385e-14, -3.814403105455754e-15, -1.8803544945042824e-15, 3.3082027114133985e-16,
    2.9626285683273035e-16, -3.2095269082134675e-17, -4.6503046615225605e-17, 4.414350250180861e-18,
    7.517295014813452e-18,
)  # fmt: skip
"""√x·e⁻ˣ·I₁(x) in 1/x on (0, ⅛]"""
_INV_1 = (
    1.4912989404744903, 0.6017563034108299, -0.00917055950008093, -0.00496263532676642, 0.0009153796700079635,
    -3.889562757083063e-06, -2.4202599404944048e-05, 3.26657159258423e-06, 2.775888980373654e-07,
    -1.3023363013643e-07, 8.10464342479187e-09, 2.862438517693066e-09, -5.975090007034125e-10,
    -1.222297879869548e-11, 1.9595963971356905e-11, -2.0510407207370812e-12, -3.446860461222782e-13,
    1.0546751676969202e-13, -2.4493755490805372e-15, -2.94868568327895e-15, 4.407386071103573e-16,
    3.679429175170973e-17, -1.82469845833838e-17,
)  # fmt: skip
"""erf⁻¹(x)/x in w = −ln(1 − x²) on [0, 5]"""
_INV_2 = (
    2.9551687407211653, 0.8814662615079756, 0.0042195219690823425, -0.001386059029307602, 0.0003952078043256751,
    -9.427626776109668e-05, 1.5345297850894837e-05, -5.652798438812065e-07, -5.210789835042124e-07,
    1.6026032386514231e-07, -1.6856179754873016e-08, -2.755408697200947e-09, 1.2963174956662649e-09,
    -1.7309252309784064e-10, -1.2521273126987647e-11, 9.010642246250984e-12, -1.420309623807246e-12,
    -2.400022817711797e-14, 5.482643504189515e-14, -1.0797577930968915e-14, 4.056766267976422e-16,
    2.9318673411298654e-16, -7.960790246192595e-17,
)  # fmt: skip
"""erf⁻¹(x)/x in √w on [√5, 4]"""
_INV_3 = (
    0.9801614239127145, -0.019385281819608614, -0.0011685542336890013, 0.0003756158852399522,
    -4.2892401013484316e-05, 6.860253338363427e-06, -1.5344535000691356e-06, 3.940066833252952e-07,
    -1.073010681215767e-07, 3.2677727981554775e-08, -9.740096416168351e-09, 3.3474660303420484e-09,
    -1.0598395035392945e-09, 3.792495115483958e-10, -1.3354816930227332e-10, 4.596920192834756e-11,
    -1.7819632630798536e-11, 6.332810591515192e-12, -2.3428231497602922e-12, 9.4060020551888e-13,
    -3.3959092901454823e-13, 1.311969072565017e-13, -5.417512371720395e-14, 1.9876035307946982e-14,
    -7.810140498256138e-15, 3.3331267964145487e-15, -1.246351878595325e-15, 4.848703942593431e-16,
    -2.1455231554249302e-16, 8.313076850558606e-17, -3.117105847845316e-17, 1.4094843198761094e-17,
    -5.854589508200904e-18,
)  # fmt: skip
"""erf⁻¹(x)/(x·√w) in 1/√w on [1/28, ¼]"""


def _constant(scalars: Scalars, like: SSAValue, value: float) -> SSAValue:
    return scalars.constant(value, like.type)


def polynomial(scalars: Scalars, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """c₀ + c₁·x + c₂·x² + … by Horner's rule."""
    result = _constant(scalars, x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = scalars.fma(result, x, _constant(scalars, x, coefficient))
    return result


def chebyshev(scalars: Scalars, t: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """Σ c_k·T_k(t), |t| ≤ 1, by Clenshaw's recurrence."""
    twice = scalars.add(t, t)
    after, last = _constant(scalars, t, 0.0), _constant(scalars, t, coefficients[-1])
    for coefficient in reversed(coefficients[1:-1]):
        after, last = last, scalars.sub(scalars.fma(twice, last, _constant(scalars, t, coefficient)), after)
    return scalars.sub(scalars.fma(t, last, _constant(scalars, t, coefficients[0])), after)


def _onto_unit(scalars: Scalars, x: SSAValue, low: float, high: float) -> SSAValue:
    """[low, high] mapped onto [−1, 1]; x outside is clamped, so that what is not selected stays finite."""
    inside = scalars.minimum(scalars.maximum(x, _constant(scalars, x, low)), _constant(scalars, x, high))
    slope = 2.0 / (high - low)
    return scalars.fma(inside, _constant(scalars, x, slope), _constant(scalars, x, -1.0 - slope * low))


# -- the error function's relatives ----------------------------------------------------------------------------------


def _scaled_tail(scalars: Scalars, x: SSAValue) -> SSAValue:
    """e^(x²)·erfc x for x ≥ 0 (M. Shepherd and J. Laframboise, Math. Comp. 36, 1981)."""
    four, one = _constant(scalars, x, 4.0), _constant(scalars, x, 1.0)
    bounded = scalars.minimum(x, _constant(scalars, x, 1e300))
    t = scalars.div(scalars.sub(bounded, four), scalars.add(bounded, four))
    return scalars.div(chebyshev(scalars, t, _ERFCX), scalars.add(scalars.add(x, x), one))


def _gaussian(scalars: Scalars, x: SSAValue, sign: float) -> SSAValue:
    """e^(±x²), what rounding x² loses put back."""
    signed = scalars.mul(x, _constant(scalars, x, sign))
    square = scalars.mul(x, signed)
    lost = scalars.fma(x, signed, scalars.neg(square))
    power = scalars.function("exp", square)
    overflow = scalars.compare("eq", scalars.function("abs", square), _constant(scalars, x, math.inf))
    return scalars.select(overflow, power, scalars.fma(power, lost, power))


def erfc(scalars: Scalars, x: SSAValue) -> SSAValue:
    """1 − erf x below ½, else e^(−x²)·erfcx x."""
    half, one = _constant(scalars, x, 0.5), _constant(scalars, x, 1.0)
    near = scalars.sub(one, scalars.function("erf", x))
    large = scalars.maximum(x, half)
    far = scalars.mul(_gaussian(scalars, large, -1.0), _scaled_tail(scalars, large))
    return scalars.select(scalars.compare("lt", x, half), near, far)


def erfcx(scalars: Scalars, x: SSAValue) -> SSAValue:
    """e^(x²)·erfc x; below 0 it is 2·e^(x²) − erfcx(−x)."""
    tail = _scaled_tail(scalars, scalars.function("abs", x))
    power = _gaussian(scalars, x, 1.0)
    mirrored = scalars.sub(scalars.add(power, power), tail)
    return scalars.select(scalars.compare("lt", x, _constant(scalars, x, 0.0)), mirrored, tail)


def inverse_erf_ratio(scalars: Scalars, w: SSAValue) -> SSAValue:
    """erf⁻¹(x)/x as a function of w = −ln(1 − x²), 0 ≤ w ≤ 784 (M. Giles, GPU Computing Gems 2, 2010, has the reduction)."""
    root = scalars.function("sqrt", scalars.maximum(w, _constant(scalars, w, 1.0)))
    near = chebyshev(scalars, _onto_unit(scalars, w, 0.0, 5.0), _INV_1)
    middle = chebyshev(scalars, _onto_unit(scalars, root, math.sqrt(5.0), 4.0), _INV_2)
    inverse = scalars.div(_constant(scalars, w, 1.0), root)
    far = scalars.mul(root, chebyshev(scalars, _onto_unit(scalars, inverse, 1 / 28, 0.25), _INV_3))
    ratio = scalars.select(scalars.compare("lt", w, _constant(scalars, w, 16.0)), middle, far)
    return scalars.select(scalars.compare("lt", w, _constant(scalars, w, 5.0)), near, ratio)


def erfinv(scalars: Scalars, x: SSAValue) -> SSAValue:
    """x·F(−ln((1 − x)(1 + x))); ±inf at ±1, NaN beyond."""
    one = _constant(scalars, x, 1.0)
    complement = scalars.mul(scalars.sub(one, x), scalars.add(one, x))
    small = scalars.compare("lt", scalars.function("abs", x), _constant(scalars, x, 0.25))
    precise = scalars.function("log1p", scalars.neg(scalars.mul(x, x)))
    w = scalars.neg(scalars.select(small, precise, scalars.function("log", complement)))
    bounded = scalars.minimum(w, _constant(scalars, x, 700.0))
    value = scalars.mul(x, inverse_erf_ratio(scalars, bounded))
    at_one = scalars.compare("eq", scalars.function("abs", x), one)
    return scalars.select(at_one, scalars.mul(x, _constant(scalars, x, math.inf)), value)


def ndtri(scalars: Scalars, p: SSAValue) -> SSAValue:
    """√2·erf⁻¹(2p − 1), with 1 − (2p − 1)² = 4p·(1 − p); −inf at 0, +inf at 1, NaN beyond."""
    one, half = _constant(scalars, p, 1.0), _constant(scalars, p, 0.5)
    x = scalars.mul(scalars.sub(p, half), _constant(scalars, p, 2.0))
    middle = scalars.compare("lt", scalars.function("abs", x), _constant(scalars, p, 0.25))
    complement = scalars.mul(scalars.mul(p, scalars.sub(one, p)), _constant(scalars, p, 4.0))
    precise = scalars.function("log1p", scalars.neg(scalars.mul(x, x)))
    w = scalars.neg(scalars.select(middle, precise, scalars.function("log", complement)))
    bounded = scalars.minimum(w, _constant(scalars, p, 780.0))
    value = scalars.mul(scalars.mul(x, inverse_erf_ratio(scalars, bounded)), _constant(scalars, p, math.sqrt(2.0)))
    at_end = scalars.compare("eq", scalars.function("abs", x), one)
    return scalars.select(at_end, scalars.mul(x, _constant(scalars, p, math.inf)), value)


# -- modified Bessel functions ---------------------------------------------------------------------------------------


def _scaled_bessel(
    scalars: Scalars, magnitude: SSAValue, small: Sequence[float], large: Sequence[float], *, odd: bool
) -> SSAValue:
    """e^(−x)·I(x) for x ≥ 0; `small` is divided by x where the function is odd."""
    eight = _constant(scalars, magnitude, 8.0)
    near = chebyshev(scalars, _onto_unit(scalars, magnitude, 0.0, 8.0), small)
    near = scalars.mul(near, magnitude) if odd else near
    bounded = scalars.maximum(magnitude, eight)
    inverse = scalars.div(_constant(scalars, magnitude, 1.0), bounded)
    far = chebyshev(scalars, _onto_unit(scalars, inverse, 1e-9, 0.125), large)
    far = scalars.div(far, scalars.function("sqrt", bounded))
    return scalars.select(scalars.compare("gt", magnitude, eight), far, near)


def i0e(scalars: Scalars, x: SSAValue) -> SSAValue:
    """e^(−|x|)·I₀(x)"""
    return _scaled_bessel(scalars, scalars.function("abs", x), _I0_SMALL, _I0_LARGE, odd=False)


def i1e(scalars: Scalars, x: SSAValue) -> SSAValue:
    """e^(−|x|)·I₁(x)"""
    return scalars.copysign(_scaled_bessel(scalars, scalars.function("abs", x), _I1_SMALL, _I1_LARGE, odd=True), x)


def _unscaled(scalars: Scalars, x: SSAValue, scaled: SSAValue) -> SSAValue:
    """e^|x|·scaled, as two factors, so that it overflows only where the result does; +-inf of an infinite x."""
    magnitude = scalars.function("abs", x)
    half = scalars.function("exp", scalars.mul(magnitude, _constant(scalars, x, 0.5)))
    value = scalars.mul(scalars.mul(scaled, half), half)
    infinite = scalars.compare("eq", magnitude, _constant(scalars, x, math.inf))
    return scalars.select(infinite, scalars.copysign(magnitude, scaled), value)


def i0(scalars: Scalars, x: SSAValue) -> SSAValue:
    """I₀(x)"""
    return _unscaled(scalars, x, i0e(scalars, x))


def i1(scalars: Scalars, x: SSAValue) -> SSAValue:
    """I₁(x)"""
    return _unscaled(scalars, x, i1e(scalars, x))


__all__ = [
    "chebyshev", "erfc", "erfcx", "erfinv", "i0", "i0e", "i1", "i1e", "ndtri", "polynomial",
]  # fmt: skip
