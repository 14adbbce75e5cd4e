"""ATen's Fourier transforms of any length, as products with the matrix of the transform.

X_k = Σ_n x_n·e^(∓2πi·nk/N) on one axis after another. The matrix's angles are 2π·(nk mod N)/N, the product nk exact in integers and the
functions in f64, so that an error does not grow with the length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    Compare,
    Cosine,
    Divide,
    Iota,
    Multiply,
    Negate,
    Or,
    Remainder,
    Rsqrt,
    Select,
    Sine,
    SizeOf,
    Subtract,
)
from anyshape.dialects.dtypes import F64, I64, DType
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, axis_of
from anyshape.frontends.torch.contraction import product
from anyshape.frontends.torch.movement import transposed
from anyshape.frontends.torch.planes import Planes, complex_op
from anyshape.symbolic import Size

_NONE, _BY_ROOT = 0, 1


def _matrix(builder: GraphBuilder, rows: Size, columns: Size, length: Size, dtype: DType) -> tuple[SSAValue, SSAValue]:
    """cos and sin of 2π·(r·c mod length)/length, [rows, columns]"""
    sizes = (rows, columns)
    row, column = (builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes) for axis in (0, 1))
    count = builder.emit(SizeOf, size=length)
    steps = builder.emit(Remainder, builder.emit(Multiply, row, column), builder.broadcast(count, sizes))
    unit = builder.emit(Divide, builder.constant(2.0 * math.pi, F64), builder.convert(count, F64))
    angle = builder.emit(Multiply, builder.convert(steps, F64), builder.broadcast(unit, sizes))
    cosine, sine = (builder.convert(builder.emit(kind, angle), dtype) for kind in (Cosine, Sine))
    return cosine, sine


def _last(x: SSAValue, axis: int) -> list[int]:
    """The permutation that exchanges an axis and the last one: its own inverse."""
    order = list(range(rank_of(x.type)))
    order[axis], order[-1] = order[-1], order[axis]
    return order


def _times(builder: GraphBuilder, x: SSAValue, axis: int, matrix: SSAValue) -> SSAValue:
    """Σ_n x[…, n, …]·matrix[n, k]"""
    order = _last(x, axis)
    result = product(builder, transposed(builder, x, order), matrix, (rank_of(x.type) - 1, 0))
    return transposed(builder, result, order)


def _transformed(builder: GraphBuilder, x: Planes, axis: int, *, forward: bool) -> Planes:
    """The transform along one axis, not scaled."""
    length = sizes_of(x.real.type)[axis]
    cosine, sine = _matrix(builder, length, length, length, dtype_of(x.real.type))
    sine = builder.emit(Negate, sine) if forward else sine

    def by(part: SSAValue, matrix: SSAValue) -> SSAValue:
        return _times(builder, part, axis, matrix)

    return Planes(
        builder.emit(Subtract, by(x.real, cosine), by(x.imaginary, sine)),
        builder.emit(Add, by(x.real, sine), by(x.imaginary, cosine)),
    )


def _scaled(
    builder: GraphBuilder, x: Sequence[SSAValue], lengths: Sequence[Size], normalization: int
) -> list[SSAValue]:
    """Divided by the number of points or by its root, or as it is."""
    if normalization == _NONE:
        return list(x)
    dtype, sizes = dtype_of(x[0].type), sizes_of(x[0].type)
    count = builder.convert(builder.emit(SizeOf, size=numel(lengths)), F64)
    one = builder.constant(1.0, F64)
    factor = builder.emit(Rsqrt, count) if normalization == _BY_ROOT else builder.emit(Divide, one, count)
    spread = builder.broadcast(builder.convert(factor, dtype), sizes)
    return [builder.emit(Multiply, part, spread) for part in x]


@complex_op("aten._fft_c2c.default")
def lower_c2c(builder: GraphBuilder, x: Planes, dim: Sequence[int], normalization: int, forward: bool) -> Planes:
    axes = [axis_of(axis, rank_of(x.real.type)) for axis in dim]
    lengths = [sizes_of(x.real.type)[axis] for axis in axes]
    for axis in axes:
        x = _transformed(builder, x, axis, forward=forward)
    return Planes(*_scaled(builder, (x.real, x.imaginary), lengths, normalization))


@complex_op("aten._fft_r2c.default")
def lower_r2c(builder: GraphBuilder, x: SSAValue, dim: Sequence[int], normalization: int, onesided: bool) -> Planes:
    """The last of `dim` first, of which half is kept where `onesided`: the others are complex from then on."""
    axes = [axis_of(axis, rank_of(x.type)) for axis in dim]
    lengths = [sizes_of(x.type)[axis] for axis in axes]
    length, last = lengths[-1], axes[-1]
    kept = length // 2 + 1 if onesided else length
    cosine, sine = _matrix(builder, length, kept, length, dtype_of(x.type))
    result = Planes(_times(builder, x, last, cosine), builder.emit(Negate, _times(builder, x, last, sine)))
    for axis in axes[:-1]:
        result = _transformed(builder, result, axis, forward=True)
    return Planes(*_scaled(builder, (result.real, result.imaginary), lengths, normalization))


@complex_op("aten._fft_c2r.default")
def lower_c2r(
    builder: GraphBuilder, x: Planes, dim: Sequence[int], normalization: int, last_dim_size: Size | int
) -> SSAValue:
    """The last of `dim` last: Σ_k w_k·(Re X_k·cos − Im X_k·sin), w = 1 where k is its own mirror image, 0 or N/2, else 2."""
    axes = [axis_of(axis, rank_of(x.real.type)) for axis in dim]
    length, last = Size.of(last_dim_size), axes[-1]
    lengths = [*(sizes_of(x.real.type)[axis] for axis in axes[:-1]), length]
    for axis in axes[:-1]:
        x = _transformed(builder, x, axis, forward=False)
    dtype, kept = dtype_of(x.real.type), sizes_of(x.real.type)[last]
    cosine, sine = _matrix(builder, kept, length, length, dtype)
    weights = _mirror_weights(builder, kept, length, dtype)
    cosine, sine = (
        builder.emit(Multiply, matrix, builder.broadcast(builder.reshape(weights, (kept, 1)), (kept, length)))
        for matrix in (cosine, sine)
    )
    real = builder.emit(Subtract, _times(builder, x.real, last, cosine), _times(builder, x.imaginary, last, sine))
    return _scaled(builder, (real,), lengths, normalization)[0]


def _mirror_weights(builder: GraphBuilder, kept: Size, length: Size, dtype: DType) -> SSAValue:
    """1 where k = 0 or 2k = length, else 2, [kept]"""
    place = builder.emit(Iota, axis=0, dtype=I64, sizes=(kept,))
    twice = builder.emit(Add, place, place)
    zero = builder.constant(0, I64, (kept,))
    whole = builder.broadcast(builder.emit(SizeOf, size=length), (kept,))
    is_own = builder.emit(
        Or, builder.emit(Compare, place, zero, direction="eq"), builder.emit(Compare, twice, whole, direction="eq")
    )
    return builder.emit(Select, is_own, builder.constant(1.0, dtype, (kept,)), builder.constant(2.0, dtype, (kept,)))
