"""ATen's views with strides of their own: as_strided and diagonal.

Values have no strides here, so a view reads its elements from the value in row-major order.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, And, Compare, Iota, Pad, Select
from anyshape.dialects.dhlo.strided import AsStrided, Diagonal
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.movement import transposed
from anyshape.frontends.torch.scattering import scattered
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max, size_min

ZERO, ONE = Size.const(0), Size.const(1)


# -- as_strided ------------------------------------------------------------------------------------------------------


def _memory_order(builder: GraphBuilder) -> list[int]:
    """The axes of the node's first argument from the outermost in memory to the innermost.

    Unsupported where the tensor is not all of its memory, since the rest may be read too.
    """
    node = builder.node.args[0]
    assert isinstance(node, fx.Node)
    value: torch.Tensor = node.meta["val"]
    strides = [stride.node.hint if isinstance(stride, torch.SymInt) else stride for stride in value.stride()]
    order = sorted(range(value.dim()), key=lambda axis: -strides[axis])
    expected: int | torch.SymInt = 1
    dense = isinstance(value.storage_offset(), int) and value.storage_offset() == 0
    for axis in reversed(order):
        size = value.shape[axis]
        same = builder.names.size(value.stride(axis)) == builder.names.size(expected)
        dense = dense and (same or builder.names.size(size) == ONE)
        expected = expected * size
    stored = builder.names.size(value.untyped_storage().nbytes())
    if not dense or stored != builder.names.size(expected) * value.element_size():
        raise Unsupported("strides are taken over the memory of a view, which may hold more than the view shows")
    return order


def _flat(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """The elements of the node's first argument in the order of its memory."""
    moved = transposed(builder, x, _memory_order(builder))
    return builder.reshape(moved, (numel(sizes_of(x.type)),))


def _placed(
    builder: GraphBuilder, flat: SSAValue, size: Sequence[Value], stride: Sequence[Value], storage_offset: Value
) -> SSAValue:
    """The elements of a vector at offset + Σ stride·index; that all are in it becomes a fact."""
    offset = ZERO if storage_offset is None else Size.of(storage_offset)
    sizes, strides = tuple(map(Size.of, size)), tuple(map(Size.of, stride))
    last = offset
    for extent, step in zip(sizes, strides, strict=True):
        last = last + (extent - 1) * step
    builder.require(last.lt(sizes_of(flat.type)[0]), "as_strided")
    builder.require(ZERO.le(offset), "as_strided")
    return builder.emit(AsStrided, flat, sizes=sizes, strides=strides, offset=offset)


@lowers("aten.as_strided.default", "aten.as_strided_copy.default")
def lower_as_strided(
    builder: GraphBuilder, x: SSAValue, size: Sequence[Value], stride: Sequence[Value], storage_offset: Value = None
) -> SSAValue:
    """The element at offset + Σ stride·index of the tensor's memory"""
    return _placed(builder, _flat(builder, x), size, stride, storage_offset)


@lowers("aten.as_strided_scatter.default")
def lower_as_strided_scatter(
    builder: GraphBuilder,
    x: SSAValue,
    part: SSAValue,
    size: Sequence[Value],
    stride: Sequence[Value],
    storage_offset: Value = None,
) -> SSAValue:
    """x with those elements of its memory replaced"""
    order, flat = _memory_order(builder), _flat(builder, x)
    positions = builder.emit(Iota, axis=0, dtype=I64, sizes=sizes_of(flat.type))
    places = _placed(builder, positions, size, stride, storage_offset)
    count = (numel(sizes_of(places.type)),)
    replaced = scattered(builder, flat, [builder.reshape(places, count)], builder.reshape(part, count), "set")
    moved = builder.reshape(replaced, [sizes_of(x.type)[axis] for axis in order])
    return transposed(builder, moved, [order.index(axis) for axis in range(len(order))])


# -- diagonals -------------------------------------------------------------------------------------------------------


def _diagonal_axes(x: SSAValue, offset: int, dim1: int, dim2: int) -> tuple[int, int, int, int]:
    """The two axes, and the row and the column at which the diagonal begins."""
    rank = rank_of(x.type)
    return axis_of(dim1, rank), axis_of(dim2, rank), max(0, -offset), max(0, offset)


@lowers("aten.diagonal.default", "aten.diagonal_copy.default")
def lower_diagonal(builder: GraphBuilder, x: SSAValue, offset: int = 0, dim1: int = 0, dim2: int = 1) -> SSAValue:
    """x[…, i + row, …, i + column, …], the new axis last"""
    first, second, row, column = _diagonal_axes(x, offset, dim1, dim2)
    length, sizes = builder.result_sizes[-1], sizes_of(x.type)
    builder.require(ZERO.le(length), "diagonal")
    if length != ZERO:
        builder.require((length + row).le(sizes[first]), "diagonal")
        builder.require((length + column).le(sizes[second]), "diagonal")
    return builder.emit(Diagonal, x, first=first, second=second, row=row, column=column, length=length)


@lowers("aten.diagonal_scatter.default")
def lower_diagonal_scatter(
    builder: GraphBuilder, x: SSAValue, part: SSAValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> SSAValue:
    """x, but `part` on its diagonal, where it lies along axis `dim1`"""
    first, second, row, column = _diagonal_axes(x, offset, dim1, dim2)
    sizes, rank = sizes_of(x.type), rank_of(x.type)
    length = size_max(0, size_min(sizes[first] - row, sizes[second] - column))
    others = [size for axis, size in enumerate(sizes) if axis not in (first, second)]
    builder.require_sizes(part, (*others, length), "diagonal_scatter")
    length = sizes_of(part.type)[-1]
    rest = iter(range(rank - 2))
    order = [rank - 2 if axis == first else next(rest) for axis in range(rank) if axis != second]
    laid = [length if axis == first else ONE if axis == second else size for axis, size in enumerate(sizes)]
    column_of = builder.reshape(transposed(builder, part, order), laid)
    low, high = [ZERO] * rank, [ZERO] * rank
    low[first], high[first] = Size.const(row), sizes[first] - length - row
    padded = builder.emit(Pad, column_of, builder.constant(0, dtype_of(x.type)), low=tuple(low), high=tuple(high))
    along, across = (builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes) for axis in (first, second))
    shifted = builder.emit(Add, across, builder.constant(row - column, I64, sizes))
    on_it = builder.emit(Compare, along, shifted, direction="eq")
    begun = builder.emit(Compare, along, builder.constant(row, I64, sizes), direction="ge")
    return builder.emit(Select, builder.emit(And, on_it, begun), builder.broadcast(padded, sizes), x)
