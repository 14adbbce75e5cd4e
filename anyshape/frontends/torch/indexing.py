"""ATen ops that read elements at indices held in tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, And, Compare, Concatenate, Gather, Iota, Reshape, Select, Slice
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


def gathered(builder: GraphBuilder, x: SSAValue, axes: Sequence[int], indices: Sequence[SSAValue], at: int) -> SSAValue:
    """x read on `axes` at `indices`, which all have the same sizes J; the other axes are kept whole.

    The result has the kept axes in order, with J before the kept axis number `at`.
    """
    sizes = sizes_of(x.type)
    depth = rank_of(indices[0].type)
    kept = [axis for axis in range(len(sizes)) if axis not in axes]
    offsets = tuple(place if place < at else place + depth for place in range(len(kept)))
    return builder.emit(
        Gather,
        x,
        _index_vectors(builder, indices),
        offset_dims=offsets,
        collapsed_slice_dims=tuple(axes),
        start_index_map=tuple(axes),
        index_vector_dim=depth,
        slice_sizes=tuple(Size.const(1) if axis in axes else size for axis, size in enumerate(sizes)),
    )


def _index_vectors(builder: GraphBuilder, indices: Sequence[SSAValue]) -> SSAValue:
    """[J] each -> [J, number of indices]; a single one has no axis of its own."""
    if len(indices) == 1:
        return indices[0]
    columns = [builder.reshape(index, (*sizes_of(index.type), 1)) for index in indices]
    return builder.emit(Concatenate, *columns, axis=rank_of(columns[0].type) - 1)


def from_start(builder: GraphBuilder, index: SSAValue, size: Size) -> SSAValue:
    """An index that counts from the end where it is negative, counted from the start; one outside stays as it is, for the error."""
    sizes = sizes_of(index.type)
    index = builder.convert(index, I64)
    negative = builder.emit(Compare, index, builder.constant(0, I64, sizes), direction="lt")
    length = builder.broadcast(builder.operand(size.constant_or(size), I64, sizes), sizes)
    counted = builder.emit(Add, index, length)
    reaches = builder.emit(Compare, counted, builder.constant(0, I64, sizes), direction="ge")
    return builder.emit(Select, builder.emit(And, negative, reaches), counted, index)


@lowers("aten.embedding.default")
def lower_embedding(builder: GraphBuilder, weight: SSAValue, indices: SSAValue, *_: Value, **__: Value) -> SSAValue:
    """weight[indices[i…], :]; `padding_idx` matters to gradients only"""
    return gathered(builder, weight, (0,), [indices], 0)


@lowers("aten.index_select.default")
def lower_index_select(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue) -> SSAValue:
    axis = axis_of(dim, rank_of(x.type))
    if rank_of(index.type) > 1:
        raise Unsupported("an index that is no vector: index_select takes none")
    if not rank_of(x.type):
        return builder.reshape(gathered(builder, builder.reshape(x, (1,)), (0,), [_vector(builder, index)], 0), ())
    return gathered(builder, x, (axis,), [_vector(builder, index)], axis)


def _vector(builder: GraphBuilder, index: SSAValue) -> SSAValue:
    return index if rank_of(index.type) else builder.reshape(index, (1,))


@lowers("aten.take.default")
def lower_take(builder: GraphBuilder, x: SSAValue, index: SSAValue) -> SSAValue:
    """x, taken as one row, at indices that may count from the end"""
    count = numel(sizes_of(x.type))
    return gathered(builder, builder.reshape(x, (count,)), (0,), [from_start(builder, index, count)], 0)


@lowers("aten.gather.default")
def lower_gather(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, **_: Value) -> SSAValue:
    """result[i…] = x[i… with index[i…] on axis `dim`]; on the other axes the result may be shorter than x"""
    rank = rank_of(x.type)
    if not rank:
        return builder.broadcast(x, builder.result_sizes)
    axis = axis_of(dim, rank)
    sizes = sizes_of(index.type)
    others = tuple(other for other in range(rank) if other != axis)
    for other in others:
        builder.require(sizes[other].le(sizes_of(x.type)[other]), "gather")
        x = sliced(builder, x, other, 0, sizes[other])
    return builder.emit(
        Gather,
        x,
        builder.convert(index, I64),
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        index_vector_dim=rank,
        slice_sizes=(Size.const(1),) * rank,
    )


def _counted_axes(indices: Sequence[SSAValue], common: Sequence[Size]) -> list[int] | None:
    """For each index the axis of `common`, another for each, along which it counts 0, 1, 2, … while its other axes have size 1."""
    counted: list[int] = []
    single: list[int] = []
    for position, index in enumerate(indices):
        sizes = sizes_of(index.type)
        long = [axis for axis, size in enumerate(sizes, len(common) - len(sizes)) if size != Size.const(1)]
        origin = index.owner
        while isinstance(origin, Reshape):
            origin = origin.operands[0].owner
        if not isinstance(origin, Iota) or len(origin.result_sizes) != 1 or len(long) > 1:
            return None
        counted.append(long[0] if long else -1)
        if not long:
            single.append(position)
    free = [axis for axis, size in enumerate(common) if size == Size.const(1) and axis not in counted]
    for position, axis in zip(single, free, strict=False):  # the only count is 0: any axis of size 1 will do
        counted[position] = axis
    return counted if len(set(counted)) == len(counted) and -1 not in counted else None


def _leading_part(
    builder: GraphBuilder, x: SSAValue, axes: Sequence[int], counted: Sequence[int], common: Sequence[Size]
) -> SSAValue:
    """x[arange(n)[:, None], arange(m)] -> x[:n, :m]: each axis of x is cut and becomes one axis of J, in J's order."""
    for axis, place in zip(axes, counted, strict=True):
        builder.require(common[place].le(sizes_of(x.type)[axis]), "index")
        x = sliced(builder, x, axis, 0, common[place])
    by_place = [axis for _, axis in sorted(zip(counted, axes, strict=True))]
    permutation = [*range(axes[0]), *by_place, *range(axes[-1] + 1, rank_of(x.type))]
    return builder.reshape(transposed(builder, x, permutation), builder.result_sizes)


def indexed(builder: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None]) -> SSAValue:
    """x[i, :, j] for integers: indices broadcast together to J; the result has J where the first of adjacent ones stands, else in front."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    common = builder.common_sizes(*(sizes_of(index.type) for index in given))
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    counted = _counted_axes(given, common)
    if adjacent and counted is not None:
        return _leading_part(builder, x, axes, counted, common)
    wrapped = [
        builder.broadcast(from_start(builder, index, sizes_of(x.type)[axis]), common)
        for axis, index in zip(axes, given, strict=True)
    ]
    return gathered(builder, x, tuple(axes), wrapped, axes[0] if adjacent else 0)


@lowers("aten.flip.default")
def lower_flip(builder: GraphBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """x[…, n − 1 − i, …] on every listed axis"""
    sizes = sizes_of(x.type)
    flipped = {axis_of(axis, len(sizes)) for axis in dims}
    starts = tuple(size - 1 if axis in flipped else Size.const(0) for axis, size in enumerate(sizes))
    steps = tuple(-1 if axis in flipped else 1 for axis in range(len(sizes)))
    return builder.emit(Slice, x, starts=starts, sizes=sizes, strides=steps)
