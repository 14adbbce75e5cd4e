"""ATen ops that make tensors from sizes and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Compare, Divide, Iota, Multiply, Select, Subtract
from anyshape.dialects.dtypes import F32, F64, I64, DType
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max


def filled(builder: GraphBuilder, value: Value) -> SSAValue:
    """`value`, a number or a size, at every point of the result."""
    sizes = builder.result_sizes
    return builder.broadcast(builder.operand(value, builder.result_dtype, sizes), sizes)


@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def lower_full(builder: GraphBuilder, _like: Value, value: Value, *more: Value, **_: Value) -> SSAValue:
    """Every overload passes the value last among its positional arguments."""
    return filled(builder, more[-1] if more else value)


@lowers("aten.tril_indices.default", "aten.triu_indices.default")
def lower_triangle_indices(builder: GraphBuilder, rows: Value, columns: Value, offset: int = 0, **_: Value) -> SSAValue:
    """[2, n]: rows and columns of the elements below, or above, a diagonal of a matrix of constant size."""
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Unsupported("how many elements a triangle of a dynamic size has is no size expression")
    triangle = np.tril_indices if "tril" in str(builder.node.target) else np.triu_indices
    dtype = builder.result_dtype
    return builder.weight(np.stack(triangle(rows, offset, columns)).astype(dtype.numpy), dtype)


@lowers("aten.scalar_tensor.default")
def lower_scalar_tensor(builder: GraphBuilder, value: Value, **_: Value) -> SSAValue:
    return filled(builder, value)


@lowers(
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
    "aten.new_zeros.default",
    "aten.zeros.default",
    "aten.zeros_like.default",
)
def lower_zeros(builder: GraphBuilder, *_: Value, **__: Value) -> SSAValue:
    """Zeros; memory that is not initialised in PyTorch is zero here."""
    return filled(builder, 0)


@lowers("aten.new_ones.default", "aten.ones.default", "aten.ones_like.default")
def lower_ones(builder: GraphBuilder, *_: Value, **__: Value) -> SSAValue:
    return filled(builder, 1)


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def lower_fill(builder: GraphBuilder, _like: SSAValue, value: Value) -> SSAValue:
    return filled(builder, value)


@lowers("aten.arange.default")
def lower_arange(builder: GraphBuilder, end: Value, **_: Value) -> SSAValue:
    return lower_arange_step(builder, 0, end)


@lowers("aten.arange.start")
def lower_arange_start(builder: GraphBuilder, start: Value, end: Value, **_: Value) -> SSAValue:
    return lower_arange_step(builder, start, end)


@lowers("aten.arange.start_step")
def lower_arange_step(builder: GraphBuilder, start: Value, end: Value, step: Value = 1, **_: Value) -> SSAValue:
    """start + step·i for i in [0, ceil((end − start) / step)); the number of elements is known from the export."""
    dtype = builder.result_dtype
    (size,) = sizes = builder.result_sizes
    if isinstance(start, Size | int) and isinstance(end, Size | int) and step == 1:
        builder.require(Size.of(start).le(end), "arange")
        size = Size.of(end) - start
        sizes = (size,)
    positions = builder.convert(builder.emit(Iota, axis=0, dtype=I64, sizes=sizes), dtype)
    if step != 1:
        positions = builder.emit(Multiply, positions, _spread(builder, step, dtype, sizes))
    if start != 0:
        positions = builder.emit(Add, positions, _spread(builder, start, dtype, sizes))
    return positions


def _spread(builder: GraphBuilder, value: Value, dtype: DType, sizes: Sequence[Size]) -> SSAValue:
    return builder.broadcast(builder.operand(value, dtype, sizes), sizes)


@lowers(
    "anyshape.linspace.default",
    "aten.linspace.default",
    "aten.linspace.Tensor_Tensor",
    "aten.linspace.Tensor_Scalar",
    "aten.linspace.Scalar_Tensor",
)
def lower_linspace(builder: GraphBuilder, start: Value, end: Value, steps: Value, **_: Value) -> SSAValue:
    """start + s·i in the first half, end − s·(steps − 1 − i) in the second, s = (end − start) / (steps − 1); `start` where steps is 1.

    Integers are computed in f64 from `start` and `end` without their fractions, and cut off at the end.
    """
    dtype, (size,) = builder.result_dtype, builder.result_sizes
    builder.require(Size.of(steps).ge(0), "linspace")
    wide = F64 if not dtype.is_float else dtype if dtype in (F32, F64) else F32
    ends = [_end(builder, value, dtype, wide) for value in (start, end)]
    gaps = builder.operand(size_max(size - 1, 1), wide)
    step = builder.emit(Divide, builder.emit(Subtract, ends[1], ends[0]), gaps)
    first, last, step = (builder.broadcast(each, (size,)) for each in (*ends, step))
    place = builder.emit(Iota, axis=0, dtype=I64, sizes=(size,))
    after = builder.emit(Subtract, _spread(builder, size - 1, I64, (size,)), place)
    before, after = (builder.emit(Multiply, step, builder.convert(each, wide)) for each in (place, after))
    half = _spread(builder, size_max(size // 2, 1), I64, (size,))
    is_first = builder.emit(Compare, place, half, direction="lt")
    value = builder.emit(Select, is_first, builder.emit(Add, first, before), builder.emit(Subtract, last, after))
    return builder.convert(value, dtype)


def _end(builder: GraphBuilder, value: Value, dtype: DType, wide: DType) -> SSAValue:
    """A number in the dtype of the result, as one of the wider dtype."""
    return builder.convert(builder.convert(builder.operand(value, F64), dtype), wide)


def triangle(builder: GraphBuilder, direction: str, diagonal: int, sizes: Sequence[Size]) -> SSAValue:
    """bool[…, i, j] = (j − i) ∘ diagonal"""
    row = builder.emit(Iota, axis=len(sizes) - 2, dtype=I64, sizes=tuple(sizes))
    column = builder.emit(Iota, axis=len(sizes) - 1, dtype=I64, sizes=tuple(sizes))
    if diagonal != 0:
        row = builder.emit(Add, row, builder.constant(diagonal, I64, sizes))
    return builder.emit(Compare, column, row, direction=direction)


def _masked_triangle(builder: GraphBuilder, x: SSAValue, direction: str, diagonal: Value) -> SSAValue:
    if not isinstance(diagonal, int):
        raise Unsupported("the diagonal of a triangle must be a constant")
    sizes = sizes_of(x.type)
    inside = triangle(builder, direction, diagonal, sizes)
    return builder.emit(Select, inside, x, builder.constant(0, dtype_of(x.type), sizes))


@lowers("aten.tril.default")
def lower_tril(builder: GraphBuilder, x: SSAValue, diagonal: Value = 0) -> SSAValue:
    """x where j − i ≤ diagonal, else 0"""
    return _masked_triangle(builder, x, "le", diagonal)


@lowers("aten.triu.default")
def lower_triu(builder: GraphBuilder, x: SSAValue, diagonal: Value = 0) -> SSAValue:
    """x where j − i ≥ diagonal, else 0"""
    return _masked_triangle(builder, x, "ge", diagonal)
