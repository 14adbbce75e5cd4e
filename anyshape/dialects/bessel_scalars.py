"""Bessel functions of orders 0 and 1 and the Airy function in scalars of f64: Chebyshev series, amplitudes of waves for large arguments.

The Chebyshev coefficients are those of 80 nodes in 50-digit arithmetic, cut where they are below 10⁻¹⁷ of the largest. Errors are a few
10⁻¹⁶ of the amplitude where the functions are waves, relative elsewhere. Formulas: DLMF 10.17 (J and Y), 10.31 (K), 9.7 (Ai).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anyshape.dialects.formulas import (
    Real,
    chebyshev,
    fma,
    formula,
    function,
    maximum,
    minimum,
    onto_unit,
    polynomial,
    where,
)

_J0_SMALL = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977, 0.15806710233209725,
    -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
    -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09, 7.848696314479465e-11,
    -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16, 1.2218515873961411e-17,
)  # fmt: skip
"""J₀(x) in x² on [0, 64]"""
_J1_SMALL = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
    -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
    -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10, 3.160154580348003e-12,
    -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)  # fmt: skip
"""J₁(x)/x in x² on [0, 64]"""
_Y0_SMALL = (
    0.03645469809116044, -0.2783237094075825, 0.2960499990207148, 0.09825508408187864, -0.10755155280627783,
    0.031799074084414514, -0.005161397105810715, 0.0005498525320039012, -4.1996983149420134e-05,
    2.4290361107923793e-06, -1.1049969793472957e-07, 4.06651736597911e-09, -1.2374148898289854e-10,
    3.1685725528945945e-12, -6.926956032431002e-14, 1.3086308625876684e-15, -2.1586201986914482e-17,
)  # fmt: skip
"""Y₀(x) − (2/π)·ln(x/2)·J₀(x) in x² on [0, 64]"""
_Y1_SMALL = (
    0.038300769852423776, -0.08182561412732826, -0.0248677076121964, 0.047967452752746984, -0.01852588451089802,
    0.003680607687823511, -0.0004627254060293369, 4.06940026958087e-05, -2.6617695125295625e-06,
    1.350602691325434e-07, -5.483524110336276e-09, 1.8245086841229007e-10, -5.070666636591129e-12,
    1.1956162517587948e-13, -2.423162442712473e-15, 4.268126513072962e-17,
)  # fmt: skip
"""(Y₁(x) − (2/π)·(ln(x/2)·J₁(x) − 1/x))/x in x² on [0, 64]"""
_K0_SMALL = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
    1.3744654358807508e-16,
)  # fmt: skip
"""K₀(x) + ln(x/2)·I₀(x) in x² on [0, 4]"""
_K1_SMALL = (
    -0.06409034516866254, -0.10916919599320105, -0.006636878452817714, -0.00016822792382067343,
    -2.389559180803608e-06, -2.1853569024549695e-08, -1.3982271326113327e-10, -6.618562752976041e-13,
    -2.4134516242987822e-15, -6.990873731242567e-18,
)  # fmt: skip
"""(x·K₁(x) − 1 − x·ln(x/2)·I₁(x))/x² in x² on [0, 4]"""
_K0_LARGE = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
    -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
)  # fmt: skip
"""√x·eˣ·K₀(x) in 1/x on (0, ½]"""
_K1_LARGE = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162, -1.936197974166083e-05,
    2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
    2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11,
    5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15, -6.057047270643018e-16,
    1.8380935752430455e-16, -5.689462849193648e-17, 1.7940510478863572e-17,
)  # fmt: skip
"""√x·eˣ·K₁(x) in 1/x on (0, ½]"""
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17,
)  # fmt: skip
"""P of J₀ and Y₀ in 1/x² on (0, 1/64]"""
_Q0 = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18,
)  # fmt: skip
"""x·Q of J₀ and Y₀ in 1/x² on (0, 1/64]"""
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
    -1.7312313216116335e-17,
)  # fmt: skip
"""P of J₁ and Y₁ in 1/x² on (0, 1/64]"""
_Q1 = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18,
)  # fmt: skip
"""x·Q of J₁ and Y₁ in 1/x² on (0, 1/64]"""
_AIRY_NEAR = (
    0.10373261456502882, 0.06064472474615535, -0.0006617919680207608, -0.15428130198851614, -0.08516168170219114,
    0.06346992469849864, 0.07272028262793064, 0.0998785486844049, -0.20148817364068577, 0.02047398774752141,
    0.12204374035980144, -0.0725566736309673, -0.014433634298985138, 0.030621435814921313, -0.008671707544479426,
    -0.004205596407239919, 0.0035017022940531054, -0.00042964664011946134, -0.0004782140567037823,
    0.00022907334394449148, -1.885537034700713e-06, -3.103592083948891e-05, 9.549870324863047e-06,
    9.20303031558348e-07, -1.323626525088144e-06, 2.6758905896210777e-07, 5.8470181392722096e-08,
    -4.006326840538237e-08, 5.073543843478201e-09, 2.068467955201876e-09, -9.036777454784145e-10,
    5.954205364916864e-11, 5.0904109860842495e-11, -1.5699872743354276e-11, 1.8061639125981664e-13,
    9.456160748106545e-13, -2.1479987514789343e-13, -9.191219243075308e-15, 1.3861221703608767e-14,
    -2.344690700395001e-15, -2.434864401715487e-16, 1.6501178823919658e-16, -2.0471199040231088e-17,
    -3.739608420447067e-18,
)  # fmt: skip
"""Ai(x) on [−8, 2]"""
_AIRY_LARGE = (
    0.2776263853370894, -0.004235449026020536, 0.0002126051598359523, -1.7991891954626608e-05,
    2.0300724397385407e-06, -2.7728078601649115e-07, 4.354659406765117e-08, -7.620264805898562e-09,
    1.4550687409909582e-09, -2.9872519563229087e-10, 6.522100753301479e-11, -1.5017538274444505e-11,
    3.6228532676929073e-12, -9.108544165365986e-13, 2.376374642804789e-13, -6.410420478470568e-14,
    1.7825735930897194e-14, -5.0965425222993135e-15, 1.4948748147485288e-15, -4.489474830927818e-16,
    1.3782015532816708e-16, -4.318254041165715e-17, 1.3791345232022046e-17, -4.4842993170234846e-18,
)  # fmt: skip
"""x^¼·e^ζ·Ai(x) in 1/ζ on (0, 0.54], ζ = ⅔·x^(3/2)"""
_AIRY_P = (
    0.9999182619343817, -8.160074606788528e-05, 1.3658885358452526e-07, -7.228789300992669e-10,
    7.68111321816656e-12, -1.3326482569405269e-13, 3.35021035219972e-15, -1.1290727561097698e-16,
)  # fmt: skip
"""P of Ai in 1/ζ² on (0, 1/226]"""
_AIRY_Q = (
    0.06936121883338316, -8.295265012636559e-05, 2.7081500473398816e-07, -2.1157906350797285e-09,
    2.949167714674333e-11, -6.285107945526335e-13, 1.8612673360870184e-14, -7.178711576040045e-16,
    3.4420131539983834e-17, -1.9815070920900816e-18,
)  # fmt: skip
"""ζ·Q of Ai in 1/ζ² on (0, 1/226]"""

_FAR = 8.0
"""Where the waves of J and Y begin."""
_I0 = tuple(1 / (4.0**k * math.factorial(k) ** 2) for k in range(14))
"""I₀(x) in x², |x| ≤ 2."""
_I1 = tuple(0.5 / (4.0**k * math.factorial(k) * math.factorial(k + 1)) for k in range(14))
"""I₁(x)/x in x², |x| ≤ 2."""


def _near(x: Real, coefficients: Sequence[float]) -> Real:
    """A series in x² on [0, 8], of x ≥ 0."""
    bounded = minimum(x, _FAR)
    return chebyshev(onto_unit(bounded * bounded, 0, _FAR * _FAR), coefficients)


def _waves(x: Real, order: int) -> tuple[Real, Real]:
    """(J, Y) of x ≥ 8: √(2/πx)·(P·cos χ − Q·sin χ, P·sin χ + Q·cos χ), χ = x − (order/2 + ¼)·π."""
    far = maximum(x, _FAR)
    square = onto_unit((1 / far) * (1 / far), 0, 1 / (_FAR * _FAR))
    p = chebyshev(square, (_P0, _P1)[order])
    q = chebyshev(square, (_Q0, _Q1)[order]) / far
    # √2·cos χ and √2·sin χ by those of x, whose digits x − π/4 would lose.
    sine, cosine = function("sin", far), function("cos", far)
    of_cosine, of_sine = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -(sine + cosine))
    scale = 1 / function("sqrt", far * math.pi)
    return scale * (p * of_cosine - q * of_sine), scale * (p * of_sine + q * of_cosine)


@formula
def j0(x: Real) -> Real:
    """J₀(x)"""
    size = abs(x)
    return where(size > _FAR, _waves(size, 0)[0], _near(size, _J0_SMALL))


@formula
def j1(x: Real) -> Real:
    """J₁(x)"""
    size = abs(x)
    value = where(size > _FAR, _waves(size, 1)[0], _near(size, _J1_SMALL) * size)
    return where(x < 0, -value, where(x.equals(0), x, value))


def _second_kind(x: Real, near: Real, far: Real) -> Real:
    """Y of its two forms: −inf at 0, NaN below."""
    value = where(x > _FAR, far, near)
    return where(x > 0, value, where(x.equals(0), -math.inf, x.of(math.nan)))


@formula
def y0(x: Real) -> Real:
    """Y₀(x)"""
    logarithm = function("log", x * 0.5) * (2 / math.pi)
    return _second_kind(x, fma(logarithm, _near(x, _J0_SMALL), _near(x, _Y0_SMALL)), _waves(x, 0)[1])


@formula
def y1(x: Real) -> Real:
    """Y₁(x)"""
    logarithm = function("log", x * 0.5) * (2 / math.pi)
    near = fma(logarithm, _near(x, _J1_SMALL), _near(x, _Y1_SMALL)) * x - (2 / math.pi) / x
    return _second_kind(x, near, _waves(x, 1)[1])


def _modified(x: Real, near: Real, large: Sequence[float], *, scaled: bool) -> Real:
    """K, or eˣ·K where `scaled`, of its form up to 2: +inf at 0, NaN below."""
    far = maximum(x, 2.0)
    value = chebyshev(onto_unit(1 / far, 0, 0.5), large) / function("sqrt", far)
    if scaled:
        near = near * function("exp", minimum(x, 2.0))
    else:
        half = function("exp", far * -0.5)  # as two factors, so that it is 0 only where the result is
        value = value * half * half
    value = where(x > 2, value, near)
    return where(x > 0, value, where(x.equals(0), math.inf, x.of(math.nan)))


def _k0(x: Real, *, scaled: bool) -> Real:
    bounded = minimum(x, 2.0)
    square = bounded * bounded
    series = chebyshev(onto_unit(square, 0, 4), _K0_SMALL)
    near = series - function("log", bounded * 0.5) * polynomial(square, _I0)
    return _modified(x, near, _K0_LARGE, scaled=scaled)


def _k1(x: Real, *, scaled: bool) -> Real:
    bounded = minimum(x, 2.0)
    square = bounded * bounded
    series = fma(function("log", bounded * 0.5), polynomial(square, _I1), chebyshev(onto_unit(square, 0, 4), _K1_SMALL))
    return _modified(x, fma(series, bounded, 1 / bounded), _K1_LARGE, scaled=scaled)


@formula
def k0(x: Real) -> Real:
    """K₀(x)"""
    return _k0(x, scaled=False)


@formula
def k1(x: Real) -> Real:
    """K₁(x)"""
    return _k1(x, scaled=False)


@formula
def k0e(x: Real) -> Real:
    """eˣ·K₀(x)"""
    return _k0(x, scaled=True)


@formula
def k1e(x: Real) -> Real:
    """eˣ·K₁(x)"""
    return _k1(x, scaled=True)


@formula
def spherical_j0(x: Real) -> Real:
    """sin x / x; 1 at 0, 0 at ±inf"""
    value = where(x.equals(0), 1.0, function("sin", x) / x)
    return where(abs(x).equals(math.inf), 0.0, value)


@formula
def airy_ai(x: Real) -> Real:
    """Ai(x); NaN at ±inf, as PyTorch has it"""
    middle = chebyshev(onto_unit(x, -8, 2), _AIRY_NEAR)
    size = maximum(abs(x), 2.0)
    root = function("sqrt", size)
    zeta = size * root * (2 / 3)
    quarter = function("sqrt", root)
    half = function("exp", zeta * -0.5)
    above = chebyshev(onto_unit(1 / zeta, 0, 0.54), _AIRY_LARGE) * half * half / quarter
    square = onto_unit(1 / (zeta * zeta), 0, 1 / 226)
    p, q = chebyshev(square, _AIRY_P), chebyshev(square, _AIRY_Q) / zeta
    sine, cosine = function("sin", zeta), function("cos", zeta)
    wave = p * (cosine + sine) + q * (sine - cosine)
    below = wave / (quarter * math.sqrt(2 * math.pi))
    value = where(x > 2, above, where(x < -8, below, middle))
    return where(abs(x).equals(math.inf), math.nan, value)


__all__ = ["airy_ai", "j0", "j1", "k0", "k0e", "k1", "k1e", "spherical_j0", "y0", "y1"]
