"""ATen ops that write or add elements at indices held in tensors, all of them `scatter` with the scattered axes in front of the window."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    And,
    BroadcastInDim,
    Compare,
    Concatenate,
    Divide,
    DynamicUpdateSlice,
    FloorDivide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Reduce,
    Scan,
    Select,
    Subtract,
)
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, I64, DType
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.indexing import from_start, gathered
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.reductions import norm
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

ONE = Size.const(1)
ZERO = Size.const(0)
REDUCTIONS = {
    "sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod", "mean": "mean", "amax": "max", "amin": "min",
}  # fmt: skip
"""The kind of scatter that PyTorch's names for reductions stand for; `mean` is a sum, divided afterwards."""


def scattered(
    builder: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue], updates: SSAValue, kind: str, batch: int = 0
) -> SSAValue:
    """x[b…, j…, w…] updated at indices [b…, m] each, one for every axis j, by updates [b…, m, w…]; 16-bit floats add up in f32."""
    dtype = dtype_of(x.type)
    wide = F32 if dtype in (F16, BF16) and kind in ("sum", "prod") else dtype
    vectors = indices[0]
    if len(indices) > 1:
        columns = [builder.reshape(index, (*sizes_of(index.type), 1)) for index in indices]
        vectors = builder.emit(Concatenate, *columns, axis=batch + 1)
    x, updates = builder.convert(x, wide), builder.convert(updates, wide)
    return builder.convert(builder.emit(Scatter, x, vectors, updates, kind=kind, batch=batch), dtype)


def scattered_at(
    builder: GraphBuilder, x: SSAValue, axes: Sequence[int], indices: Sequence[SSAValue], updates: SSAValue, kind: str
) -> SSAValue:
    """x updated on `axes` at `indices`, all of sizes J, by updates [J…, other axes of x…]."""
    rank = rank_of(x.type)
    kept = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *kept]
    moved = transposed(builder, x, order)
    count = numel(sizes_of(indices[0].type))
    flat = [builder.reshape(index, (count,)) for index in indices]
    updates = builder.reshape(updates, (count, *(sizes_of(x.type)[axis] for axis in kept)))
    result = scattered(builder, moved, flat, updates, kind)
    return transposed(builder, result, [order.index(axis) for axis in range(rank)])


def identity_of(kind: str, dtype: DType) -> float | int | bool:
    """The element that the scatter of this kind leaves an update as it is with."""
    if kind in ("sum", "mean"):
        return 0
    if kind == "prod":
        return 1
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    if dtype.is_bool:
        return kind == "min"
    low = 0 if dtype.is_unsigned else -(1 << (8 * dtype.bytes - 1))
    return low if kind == "max" else low + (1 << (8 * dtype.bytes)) - 1


def reduced_into(
    builder: GraphBuilder, x: SSAValue, updates: SSAValue, kind: str, include_self: bool, scatter: Scattering
) -> SSAValue:
    """x with updates folded in by `scatter`; without `include_self`, elements that an update meets count as the identity."""
    dtype = dtype_of(x.type)
    sizes = sizes_of(updates.type)
    if not include_self:
        x = scatter(x, builder.constant(identity_of(kind, dtype), dtype, sizes), "set")
    if kind != "mean":
        return scatter(x, updates, kind)
    ones = builder.constant(1, dtype, sizes)
    start = builder.constant(1 if include_self else 0, dtype, sizes_of(x.type))
    count = scatter(start, ones, "sum")
    count = builder.emit(Maximum, count, builder.constant(1, dtype, sizes_of(x.type)))
    return builder.emit(Divide if dtype.is_float else FloorDivide, scatter(x, updates, "sum"), count)


class Scattering:
    """Updates of tensors at the positions of `scatter(x, dim, index, …)`: x[i… with index[i…] on axis `dim`].

    Axes along which the index only repeats are a window; on the others the index may be shorter than x.
    """

    def __init__(self, builder: GraphBuilder, dim: int, index: SSAValue) -> None:
        self.builder = builder
        self.sizes = sizes_of(index.type) or (ONE,)
        self.axis = axis_of(dim, len(self.sizes))
        self.window = [axis for axis in _repeated_axes(index) if axis != self.axis]
        others = [axis for axis in range(len(self.sizes)) if axis != self.axis and axis not in self.window]
        self.order = [*others, self.axis, *self.window]
        self.batch = len(others)
        index = builder.convert(_without_axes(builder, index, self.window), I64)
        rest = [axis for axis in range(len(self.sizes)) if axis not in self.window]
        self.index = transposed(builder, index, [rest.index(axis) for axis in self.order[: self.batch + 1]])

    def __call__(self, x: SSAValue, updates: SSAValue, kind: str) -> SSAValue:
        builder, sizes = self.builder, sizes_of(x.type)
        if not sizes:
            whole = self(builder.reshape(x, (1,)), builder.reshape(updates, (1,)), kind)
            return builder.reshape(whole, ())
        part = x
        for axis, size in enumerate(self.sizes):
            if axis != self.axis:
                builder.require(size.le(sizes[axis]), "scatter")
                part = sliced(builder, part, axis, 0, size)
            builder.require(size.le(sizes_of(updates.type)[axis]), "scatter")
            updates = sliced(builder, updates, axis, 0, size)
        moved, changes = (transposed(builder, each, self.order) for each in (part, updates))
        result = scattered(builder, moved, [self.index], changes, kind, self.batch)
        result = transposed(builder, result, [self.order.index(axis) for axis in range(len(self.order))])
        if sizes_of(result.type) == sizes:
            return result
        return builder.emit(DynamicUpdateSlice, x, result, starts=(ZERO,) * len(sizes))


def _repeated_axes(index: SSAValue) -> list[int]:
    """The axes along which a tensor is the same element again and again, as far as the op says that made it."""
    op = index.owner
    if not isinstance(op, BroadcastInDim):
        return []
    dimensions, source, sizes = op.integers("dimensions"), sizes_of(op.operands[0].type), op.result_sizes
    return [
        axis
        for axis, size in enumerate(sizes)
        if size != ONE and (axis not in dimensions or source[dimensions.index(axis)] == ONE)
    ]


def _without_axes(builder: GraphBuilder, index: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The index without axes along which it only repeats."""
    if not axes:
        return builder.reshape(index, sizes_of(index.type) or (ONE,))
    op = index.owner
    assert isinstance(op, BroadcastInDim)
    rest = [axis for axis in range(len(op.result_sizes)) if axis not in axes]
    source, dimensions = op.operands[0], op.integers("dimensions")
    kept = [place for place, axis in enumerate(dimensions) if axis not in axes]
    source = builder.reshape(source, [sizes_of(source.type)[place] for place in kept])
    target = tuple(op.result_sizes[axis] for axis in rest)
    if sizes_of(source.type) == target:
        return source
    return builder.emit(
        BroadcastInDim, source, dimensions=tuple(rest.index(dimensions[place]) for place in kept), sizes=target
    )


# -- scatter(x, dim, index, …) ---------------------------------------------------------------------------------------


@lowers("aten.scatter.src", "aten.scatter.value")
def lower_scatter(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: Value) -> SSAValue:
    """result[i… with index[i…] on axis `dim`] = source[i…], or a number; of equal places the last wins"""
    source = _updates(builder, source, x, index)
    return Scattering(builder, dim, index)(x, source, "set")


@lowers("aten.scatter.reduce", "aten.scatter.value_reduce")
def lower_scatter_reduce(
    builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: Value, *, reduce: str
) -> SSAValue:
    source = _updates(builder, source, x, index)
    return Scattering(builder, dim, index)(x, source, REDUCTIONS[reduce])


@lowers("aten.scatter_add.default")
def lower_scatter_add(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue) -> SSAValue:
    return Scattering(builder, dim, index)(x, source, "sum")


@lowers("aten.scatter_reduce.two")
def lower_scatter_reduce_two(
    builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, reduce: str, *,
    include_self: bool = True,
) -> SSAValue:  # fmt: skip
    scattering = Scattering(builder, dim, index)
    for axis, size in enumerate(scattering.sizes if sizes_of(source.type) else ()):
        source = sliced(builder, source, axis, 0, size)
    return reduced_into(builder, x, source, REDUCTIONS[reduce], include_self, scattering)


def _updates(builder: GraphBuilder, source: Value, x: SSAValue, index: SSAValue) -> SSAValue:
    dtype = dtype_of(x.type)
    if isinstance(source, SSAValue):
        return builder.convert(source, dtype)
    return builder.broadcast(builder.operand(source, dtype), sizes_of(index.type))


# -- index_…(x, dim, index, …) ---------------------------------------------------------------------------------------


class _Rows(Scattering):
    """Updates at the positions of `index_add(x, dim, index, …)`: x[…, index[i], …] by updates[…, i, …]."""

    def __init__(self, builder: GraphBuilder, dim: int, index: SSAValue, x: SSAValue) -> None:
        rank = max(1, rank_of(x.type))
        self.builder = builder
        self.axis = axis_of(dim, rank)
        self.index = builder.reshape(index, (numel(sizes_of(index.type)),))
        self.window = [axis for axis in range(rank) if axis != self.axis]
        self.order = [self.axis, *self.window]
        self.batch = 0

    def __call__(self, x: SSAValue, updates: SSAValue, kind: str) -> SSAValue:
        builder, sizes = self.builder, sizes_of(x.type)
        part = list(sizes or (ONE,))
        part[self.axis] = sizes_of(self.index.type)[0]
        if rank_of(updates.type) not in (0, len(part)):
            raise Unsupported(f"rows of {rank_of(updates.type)} axes for {len(part)}, which PyTorch refuses too")
        if rank_of(updates.type):
            for size, own in zip(sizes_of(updates.type), part, strict=True):
                builder.require(size.eq(own), "rows at indices")
        moved = transposed(builder, builder.reshape(x, sizes or (1,)), self.order)
        changes = transposed(builder, builder.reshape(builder.convert(updates, dtype_of(x.type)), part), self.order)
        result = scattered(builder, moved, [self.index], changes, kind)
        result = transposed(builder, result, [self.order.index(axis) for axis in range(len(self.order))])
        return builder.reshape(result, sizes)


def replaced_rows(builder: GraphBuilder, x: SSAValue, axis: int, index: SSAValue, part: SSAValue) -> SSAValue:
    """x with x[…, index[i], …] = part[…, i, …]; of equal indices the last wins."""
    return _Rows(builder, axis, index, x)(x, part, "set")


@lowers("aten.index_add.default")
def lower_index_add(
    builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, *, alpha: Value = 1
) -> SSAValue:
    """x with alpha·source[…, i, …] added to x[…, index[i], …]"""
    dtype = dtype_of(x.type)
    source = builder.convert(source, dtype)
    if alpha != 1 and not dtype.is_bool:
        factor = builder.broadcast(builder.operand(alpha, dtype), sizes_of(source.type))
        source = builder.emit(Multiply, source, factor)
    return _Rows(builder, dim, index, x)(x, source, "sum")


@lowers("aten.index_reduce.default")
def lower_index_reduce(
    builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, reduce: str, *,
    include_self: bool = True,
) -> SSAValue:  # fmt: skip
    return reduced_into(builder, x, source, REDUCTIONS[reduce], include_self, _Rows(builder, dim, index, x))


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def lower_index_fill(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, value: Value) -> SSAValue:
    """x with x[…, index[i], …] = value; indices may count from the end"""
    dtype, sizes = dtype_of(x.type), list(sizes_of(x.type) or (ONE,))
    axis = axis_of(dim, len(sizes))
    rows = _Rows(builder, dim, from_start(builder, index, sizes[axis]), x)
    sizes[axis] = sizes_of(rows.index.type)[0]
    filled = builder.broadcast(builder.reshape(builder.operand(value, dtype), ()), sizes)
    return rows(x, filled, "set")


@lowers("aten.put.default")
def lower_put(
    builder: GraphBuilder, x: SSAValue, index: SSAValue, source: SSAValue, accumulate: bool = False
) -> SSAValue:
    """x, taken as one row, with source[i] written or added at index[i]"""
    sizes = sizes_of(x.type)
    row = builder.reshape(x, (numel(sizes),))
    at = builder.reshape(from_start(builder, index, numel(sizes)), (numel(sizes_of(index.type)),))
    builder.require(numel(sizes_of(source.type)).eq(numel(sizes_of(index.type))), "put")
    changes = builder.reshape(builder.convert(source, dtype_of(x.type)), sizes_of(at.type))
    return builder.reshape(scattered(builder, row, [at], changes, "sum" if accumulate else "set"), sizes)


@lowers("aten.embedding_renorm.default")
def lower_embedding_renorm(
    builder: GraphBuilder, weight: SSAValue, indices: SSAValue, max_norm: float, norm_type: float
) -> SSAValue:
    """weight with its rows at the indices scaled to the norm max_norm where theirs is larger: by max_norm / (norm + 10⁻⁷)"""
    sizes, dtype = sizes_of(weight.type), dtype_of(weight.type)
    count, rows = numel(sizes_of(indices.type)), sizes[:1]
    at = builder.reshape(builder.convert(indices, I64), (count,))
    used = builder.constant(True, BOOL, (count,))
    is_used = scattered(builder, builder.constant(False, BOOL, rows), [at], used, "set")
    lengths = norm(builder, weight, norm_type, (1,))
    is_long = builder.emit(Compare, lengths, builder.constant(max_norm, dtype, rows), direction="gt")
    shifted = builder.emit(Add, lengths, builder.constant(1e-7, dtype, rows))
    scale = builder.emit(Divide, builder.constant(max_norm, dtype, rows), shifted)
    scale = builder.emit(Select, builder.emit(And, is_used, is_long), scale, builder.constant(1, dtype, rows))
    return builder.emit(Multiply, weight, builder.emit(BroadcastInDim, scale, dimensions=(0,), sizes=sizes))


# -- gradients and counts --------------------------------------------------------------------------------------------


@lowers("aten.embedding_dense_backward.default")
def lower_embedding_dense_backward(
    builder: GraphBuilder, gradient: SSAValue, indices: SSAValue, _rows: Value, padding_idx: int, by_frequency: bool
) -> SSAValue:
    """result[j, :] = Σ of gradient[i…, :] over indices[i…] = j ≠ padding_idx, divided by how many there are where `by_frequency`"""
    sizes, dtype = builder.result_sizes, builder.result_dtype
    count = numel(sizes_of(indices.type))
    at = builder.reshape(builder.convert(indices, I64), (count,))
    gradient = builder.reshape(gradient, (count, sizes[1]))
    if padding_idx >= 0:
        padding = builder.emit(Compare, at, builder.constant(padding_idx, I64, (count,)), direction="eq")
        padding = builder.emit(BroadcastInDim, padding, dimensions=(0,), sizes=sizes_of(gradient.type))
        gradient = builder.emit(Select, padding, builder.constant(0, dtype, sizes_of(gradient.type)), gradient)
    if by_frequency:
        ones = builder.constant(1, F32, (count,))
        numbers = scattered(builder, builder.constant(0, F32, (sizes[0],)), [at], ones, "sum")
        own = builder.convert(gathered(builder, numbers, (0,), [at], 0), dtype)
        own = builder.emit(BroadcastInDim, own, dimensions=(0,), sizes=sizes_of(gradient.type))
        gradient = builder.emit(Divide, gradient, own)
    return scattered(builder, builder.constant(0, dtype, sizes), [at], gradient, "sum")


def accumulated(builder: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x + y; of bools a disjunction."""
    return builder.emit(Or if dtype_of(x.type).is_bool else Add, x, y)


def rows_of_mask(builder: GraphBuilder, rows: SSAValue, axis: int, mask: SSAValue) -> SSAValue:
    """At every place of the mask [n] where it holds, the next of the rows along `axis`, in order; 0 elsewhere."""
    (count,) = sizes_of(mask.type)
    # Row 0 is one of our own, so that something can be read where nothing is chosen.
    place = builder.emit(Scan, builder.convert(mask, I64), axis=0, kind="sum")
    place = builder.emit(Select, mask, place, builder.constant(0, I64, (count,)))
    sizes = list(sizes_of(rows.type))
    sizes[axis] = ONE
    rows = builder.emit(Concatenate, builder.constant(0, dtype_of(rows.type), sizes), rows, axis=axis)
    return gathered(builder, rows, (axis,), [place], axis)


@lowers("aten.masked_scatter.default")
def lower_masked_scatter(builder: GraphBuilder, x: SSAValue, mask: SSAValue, source: SSAValue) -> SSAValue:
    """x with its elements where the mask holds replaced by those of source, in order; running out of them is an index error"""
    sizes = builder.result_sizes
    x, mask = builder.broadcast(x, sizes), builder.broadcast(mask, sizes)
    count = numel(sizes)
    given = builder.reshape(builder.convert(source, dtype_of(x.type)), (numel(sizes_of(source.type)),))
    taken = rows_of_mask(builder, given, 0, builder.reshape(mask, (count,)))
    return builder.emit(Select, mask, builder.reshape(taken, sizes), x)


@lowers("aten.histc.default")
def lower_histc(builder: GraphBuilder, x: SSAValue, bins: int = 100, min: float = 0, max: float = 0) -> SSAValue:
    """How many elements fall into each of `bins` equal parts of [min, max], or of the range of x where both are equal"""
    dtype, count = dtype_of(x.type), numel(sizes_of(x.type))
    row = builder.reshape(x, (count,))
    if not dtype.is_float:
        raise Unsupported("a histogram of integers")
    wide = F32 if dtype in (F16, BF16) else dtype
    row = builder.convert(row, wide)

    def everywhere(value: SSAValue) -> SSAValue:
        return builder.broadcast(builder.reshape(value, (1,)), (count,))

    low, high = (builder.constant(bound, wide) for bound in (min, max))
    if min == max:
        builder.require(ONE.le(count), "histc")
        low, high = (builder.emit(Reduce, row, axes=(0,), kind=kind) for kind in ("min", "max"))
        is_point = builder.emit(Compare, low, high, direction="eq")
        low = builder.emit(Select, is_point, builder.emit(Subtract, low, builder.constant(1, wide)), low)
        high = builder.emit(Select, is_point, builder.emit(Add, high, builder.constant(1, wide)), high)
    low, high = everywhere(low), everywhere(high)
    inside = builder.emit(
        And, builder.emit(Compare, row, low, direction="ge"), builder.emit(Compare, row, high, direction="le")
    )
    scaled = builder.emit(Multiply, builder.emit(Subtract, row, low), builder.constant(bins, wide, (count,)))
    part = builder.emit(Divide, scaled, builder.emit(Subtract, high, low))
    part = builder.emit(Select, inside, part, builder.constant(0, wide, (count,)))
    place = builder.emit(Minimum, builder.convert(part, I64), builder.constant(bins - 1, I64, (count,)))
    place = builder.emit(
        Select, inside, place, builder.constant(bins, I64, (count,))
    )  # those outside have a part of their own
    ones = builder.constant(1, wide, (count,))
    numbers = scattered(builder, builder.constant(0, wide, (bins + 1,)), [place], ones, "sum")
    return builder.convert(sliced(builder, numbers, 0, 0, bins), dtype)
