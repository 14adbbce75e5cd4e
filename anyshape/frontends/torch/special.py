"""ATen elementwise ops that combine several `dhlo` ops: rounding to decimals, angles, powers of two, distances."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    And,
    Compare,
    Divide,
    IsFinite,
    IsNan,
    Multiply,
    Not,
    Or,
    Power,
    RoundNearestEven,
    Select,
    ShiftRightArithmetic,
    Subtract,
)
from anyshape.dialects.dhlo.bits import BitcastConvert
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.special import Digamma, Polygamma, Trigamma
from anyshape.dialects.dtypes import F32, F64, I32, I64
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.elementwise import binary
from anyshape.frontends.torch.reductions import norm
from anyshape.frontends.torch.unsupported import Unsupported


@lowers("aten.round.decimals")
def lower_round_decimals(builder: GraphBuilder, x: SSAValue, *, decimals: int = 0) -> SSAValue:
    """round(x·10^d)/10^d, and round(x/10^−d)·10^−d of negative d; narrow floats in f32, as ATen's"""
    dtype = dtype_of(x.type)
    if not dtype.is_float:
        return x
    wide = builder.convert(x, accumulation_dtype(dtype))
    scale = builder.constant(10.0 ** abs(decimals), dtype_of(wide.type), sizes_of(x.type))
    first, second = (Multiply, Divide) if decimals >= 0 else (Divide, Multiply)
    whole = builder.emit(RoundNearestEven, builder.emit(first, wide, scale))
    return builder.convert(builder.emit(second, whole, scale), dtype)


@lowers("aten.angle.default")
def lower_angle(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """The angle of a real number: π below 0, else 0; NaN of NaN"""
    source, dtype, sizes = dtype_of(x.type), builder.result_dtype, builder.result_sizes
    below = builder.emit(Compare, x, builder.constant(0, source, sizes), direction="lt")
    angle = builder.emit(Select, below, builder.constant(math.pi, dtype, sizes), builder.constant(0.0, dtype, sizes))
    return builder.emit(Select, builder.emit(IsNan, x), x, angle) if source.is_float else angle


@lowers("aten.polygamma.default")
def lower_polygamma(builder: GraphBuilder, order: int, x: SSAValue) -> SSAValue:
    """The derivatives of digamma"""
    if not 0 <= order <= _HIGHEST_ORDER:
        raise Unsupported(f"the polygamma function of order {order}")
    x = builder.convert(x, builder.result_dtype)
    return builder.emit(Polygamma, x, order=order) if order > 1 else builder.emit(Trigamma if order else Digamma, x)


_HIGHEST_ORDER = 64
"""Derivatives are written out term by term."""


@lowers("aten.ldexp.Tensor")
def lower_ldexp(builder: GraphBuilder, x: Value, exponent: Value) -> SSAValue:
    """x·2^exponent, the power in the result's dtype, as ATen has it"""
    return binary(builder, Multiply, x, binary(builder, Power, 2.0, exponent))


@lowers("aten.frexp.Tensor")
def lower_frexp(builder: GraphBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """(m, e) with x = m·2^e and ½ ≤ |m| < 1, by the bits of f32 or f64; x and 0 where x is 0, infinite or NaN"""
    dtype, sizes = dtype_of(x.type), sizes_of(x.type)
    wide, integer, stored, bias = (F64, I64, 52, 1023) if dtype == F64 else (F32, I32, 23, 127)

    def number(value: float) -> SSAValue:
        return builder.constant(value, wide, sizes)

    def word(value: int) -> SSAValue:
        return builder.constant(value, integer, sizes)

    x = builder.convert(x, wide)
    magnitude = builder.emit(Abs, x)
    is_denormal = builder.emit(Compare, magnitude, number(2.0 ** (1 - bias)), direction="lt")
    normal = builder.emit(Select, is_denormal, builder.emit(Multiply, x, number(2.0 ** (stored + 1))), x)
    bits = builder.emit(BitcastConvert, normal, dtype=integer)
    field = (2 * bias + 1) << stored
    exponent = builder.emit(ShiftRightArithmetic, builder.emit(And, bits, word(field)), word(stored))
    offset = builder.emit(Select, is_denormal, word(bias + stored), word(bias - 1))
    exponent = builder.emit(Subtract, exponent, offset)
    mantissa = builder.emit(Or, builder.emit(And, bits, word(~field)), word((bias - 1) << stored))
    zero = builder.emit(Compare, x, number(0.0), direction="eq")
    plain = builder.emit(And, builder.emit(IsFinite, x), builder.emit(Not, zero))
    fraction = builder.emit(Select, plain, builder.emit(BitcastConvert, mantissa, dtype=wide), x)
    exponent = builder.convert(builder.emit(Select, plain, exponent, word(0)), I32)
    return builder.convert(fraction, dtype), exponent


@lowers("aten.dist.default")
def lower_dist(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue, p: float = 2.0) -> SSAValue:
    """The norm of order p of lhs − rhs over all elements"""
    sizes = builder.common_sizes(sizes_of(lhs.type), sizes_of(rhs.type))
    dtype = builder.result_dtype
    sides = (builder.broadcast(builder.convert(side, dtype), sizes) for side in (lhs, rhs))
    return norm(builder, builder.emit(Subtract, *sides), p, tuple(range(len(sizes))))
