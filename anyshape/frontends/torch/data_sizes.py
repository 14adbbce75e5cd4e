"""ATen ops whose results' sizes depend on the data: the size is a symbol that `read_size` gives its value while the program runs."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    Compare,
    Concatenate,
    FloorDivide,
    Iota,
    Maximum,
    Minimum,
    Reduce,
    Remainder,
    Scan,
    Select,
    Subtract,
)
from anyshape.dialects.dhlo.compaction import Compress, ReadSize
from anyshape.dialects.dhlo.sort import ArgSort, RowOrder, SearchSorted
from anyshape.dialects.dtypes import F32, F64, I64
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.elementwise import as_bool
from anyshape.frontends.torch.indexing import gathered, indexed
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.openings import alike
from anyshape.frontends.torch.scattering import scattered
from anyshape.frontends.torch.sorting import starts_of_runs, taken
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


def read(builder: GraphBuilder, value: SSAValue, size: Size) -> SSAValue:
    """The i64 scalar `value`, which `size`, a symbol of PyTorch's for data, is from here on; once for each symbol."""
    if size not in builder.read_sizes:
        if size.as_symbol() not in builder.names.of_data:
            raise Unsupported(f"a number that data say has to be the size {size}")
        builder.read_sizes[size] = builder.emit(ReadSize, value, size=(size,))
    return builder.read_sizes[size]


def places(builder: GraphBuilder, mask: SSAValue, size: Size) -> SSAValue:
    """Where a mask [n] holds, in order: i64 [size]."""
    count = builder.emit(Reduce, builder.convert(mask, I64), axes=(0,), kind="sum")
    return builder.emit(Compress, mask, read(builder, count, size), size=(size,))


def _flat(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return builder.reshape(x, (numel(sizes_of(x.type)),))


def _everywhere(builder: GraphBuilder, value: Value, sizes: Sequence[Size]) -> SSAValue:
    """An i64 number at every point."""
    return builder.broadcast(builder.operand(value, I64, ()), sizes)


@lowers("aten.nonzero.default")
def lower_nonzero(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """The indices of elements that are not 0, one row each"""
    count = builder.result_sizes[0]
    place = places(builder, as_bool(builder, _flat(builder, x)), count)
    if not rank_of(x.type):
        return builder.constant(0, I64, builder.result_sizes)
    return _as_rows(builder, _columns(builder, place, sizes_of(x.type)))


def _columns(builder: GraphBuilder, place: SSAValue, sizes: Sequence[Size]) -> list[SSAValue]:
    """The index on each axis of places in row-major order."""
    columns: list[SSAValue] = []
    for number, size in enumerate(reversed(sizes)):
        extent = _everywhere(builder, size, sizes_of(place.type))
        is_first = number == len(sizes) - 1
        columns.insert(0, place if is_first else builder.emit(Remainder, place, extent))
        place = place if is_first else builder.emit(FloorDivide, place, extent)
    return columns


def _as_rows(builder: GraphBuilder, columns: Sequence[SSAValue]) -> SSAValue:
    apart = [builder.reshape(column, (*sizes_of(column.type), 1)) for column in columns]
    return apart[0] if len(apart) == 1 else builder.emit(Concatenate, *apart, axis=1)


@lowers("aten.nonzero_static.default")
def lower_nonzero_static(builder: GraphBuilder, x: SSAValue, *, size: Value, fill_value: int = -1) -> SSAValue:
    """The first `size` of the indices of elements that are not 0; rows of `fill_value` where there are fewer"""
    if not rank_of(x.type):
        return builder.constant(fill_value, I64, (Size.of(size), 0))
    room = (Size.of(size),)
    chosen = as_bool(builder, _flat(builder, x))
    sizes = sizes_of(chosen.type)
    number = builder.emit(Scan, builder.convert(chosen, I64), axis=0, kind="sum")
    number = builder.emit(Subtract, number, _everywhere(builder, 1, sizes))
    past = _everywhere(builder, size, sizes)  # those that are not wanted share a row behind the others
    number = builder.emit(Select, chosen, builder.emit(Minimum, number, past), past)
    own = builder.emit(Iota, axis=0, dtype=I64, sizes=sizes)
    place = scattered(builder, builder.constant(-1, I64, (Size.of(size) + 1,)), [number], own, "set")
    place = sliced(builder, place, 0, 0, room[0])
    found = builder.emit(Compare, place, builder.constant(0, I64, room), direction="ge")
    place = builder.emit(Maximum, place, builder.constant(0, I64, room))
    fill = builder.constant(fill_value, I64, room)
    columns = _columns(builder, place, sizes_of(x.type))
    return _as_rows(builder, [builder.emit(Select, found, column, fill) for column in columns])


@lowers("aten.masked_select.default")
def lower_masked_select(builder: GraphBuilder, x: SSAValue, mask: SSAValue) -> SSAValue:
    """The elements where the mask holds"""
    own, of_mask = sizes_of(x.type), sizes_of(mask.type)
    for pair in zip(reversed(own), reversed(of_mask), strict=False):
        if all(size.constant_or(None) != 1 for size in pair) and not builder.openings & {pair, pair[::-1]}:
            builder.require(alike(*sorted(pair, key=str)), "masked_select")
    sizes = builder.common_sizes(own, of_mask)
    row, chosen = (_flat(builder, builder.broadcast(each, sizes)) for each in (x, mask))
    return gathered(builder, row, (0,), [places(builder, chosen, builder.result_sizes[0])], 0)


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def lower_index(builder: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None]) -> SSAValue:
    """x[i, :, j], or x[:, mask]"""
    masks = [(axis, index) for axis, index in enumerate(indices) if index is not None and dtype_of(index.type).is_bool]
    if not masks:
        return indexed(builder, x, indices)
    axis, mask = masks[0]
    if len(masks) > 1 or not rank_of(mask.type):
        raise Unsupported("several masks, or one without axes, as indices")
    if sum(index is not None for index in indices) == 1:
        return _chosen(builder, x, axis, mask, builder.result_sizes[axis])
    return _beside_others(builder, x, indices, axis, mask)


def _beside_others(
    builder: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None], axis: int, mask: SSAValue
) -> SSAValue:
    """x[mask, i, …]: the places where the mask holds are indices among others."""
    counts = [size for size in builder.result_sizes if size.as_symbol() in builder.names.of_data]
    if len(counts) != 1:
        raise Unsupported("a mask beside other indices that decide how many elements there are")
    columns = _columns(builder, places(builder, _flat(builder, mask), counts[0]), sizes_of(mask.type))
    return indexed(builder, x, [*indices[:axis], *columns, *indices[axis + 1 :]])


def _chosen(builder: GraphBuilder, x: SSAValue, axis: int, mask: SSAValue, size: Size) -> SSAValue:
    """x[:, …, mask]: the axes of x that the mask has become one, of those elements where it holds."""
    sizes, depth = sizes_of(x.type), rank_of(mask.type)
    merged = numel(sizes[axis : axis + depth])
    for own, of_mask in zip(sizes[axis:], sizes_of(mask.type), strict=False):
        builder.require(own.eq(of_mask), "index")
    x = builder.reshape(x, (*sizes[:axis], merged, *sizes[axis + depth :]))
    return gathered(builder, x, (axis,), [places(builder, _flat(builder, mask), size)], axis)


@lowers("aten.repeat_interleave.Tensor")
def lower_repeat_interleave(builder: GraphBuilder, repeats: SSAValue, *, output_size: Value = None) -> SSAValue:
    """i repeats[i] times, for one i after another"""
    size = builder.result_sizes[0]
    repeats = builder.convert(repeats, I64)
    if output_size is None:
        read(builder, builder.emit(Reduce, repeats, axes=(0,), kind="sum"), size)
    ends = builder.emit(Scan, repeats, axis=0, kind="sum")
    numbers = builder.emit(Iota, axis=0, dtype=I64, sizes=(size,))
    return builder.convert(builder.emit(SearchSorted, ends, numbers, right=True), builder.result_dtype)


@lowers("aten.bincount.default")
def lower_bincount(builder: GraphBuilder, x: SSAValue, weights: SSAValue | None = None, minlength: int = 0) -> SSAValue:
    """How often each number occurs, or the sum of its weights"""
    size = builder.result_sizes[0]
    dtype = I64 if weights is None else F32 if dtype_of(weights.type) == F32 else F64  # PyTorch 2.12 says i64 of all
    x = builder.convert(x, I64)
    largest = builder.emit(Reduce, x, axes=(0,), kind="max")
    past = builder.emit(Add, largest, builder.constant(1, I64))
    read(builder, builder.emit(Maximum, past, builder.constant(minlength, I64)), size)
    added = builder.constant(1, dtype, sizes_of(x.type))
    if weights is not None:
        builder.require(sizes_of(weights.type)[0].eq(sizes_of(x.type)[0]), "bincount")
        added = builder.reshape(builder.convert(weights, dtype), sizes_of(x.type))
    return scattered(builder, builder.constant(0, dtype, (size,)), [x], added, "sum")


@lowers("aten._local_scalar_dense.default")
def lower_item(builder: GraphBuilder, x: SSAValue) -> Value:
    """The only element: as a size where it is one, else as a tensor without axes"""
    value: Any = builder.node.meta["val"]
    element = builder.reshape(x, ())
    if not isinstance(value, torch.SymInt):
        return element if isinstance(value, torch.SymFloat | torch.SymBool) else value
    size = builder.names.size(value)
    if size.is_constant:
        return size.value
    if size not in builder.read_sizes and value.node.shape_env.var_to_range[value.node.expr].lower < 0:
        return element
    read(builder, builder.convert(element, I64), size)
    return size


# -- unique ----------------------------------------------------------------------------------------------------------


def _size_of_values(builder: GraphBuilder, axis: int) -> Size:
    value: Any = builder.node.meta["val"]
    return builder.names.size(value[0].shape[axis])


def _runs(builder: GraphBuilder, x: SSAValue, size: Size) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(the first of each run of equal slices x[i], the number of the run of each, the lengths of runs)."""
    begins = starts_of_runs(builder, x, 0)
    if rank_of(x.type) > 1:
        begins = builder.emit(Reduce, begins, axes=tuple(range(1, rank_of(x.type))), kind="or")
    count = sizes_of(x.type)[0]
    starts = places(builder, begins, size)
    number = builder.emit(Scan, builder.convert(begins, I64), axis=0, kind="sum")
    number = builder.emit(Subtract, number, _everywhere(builder, 1, (count,)))
    ends = builder.emit(Concatenate, starts, builder.reshape(builder.operand(count, I64, ()), (1,)), axis=0)
    lengths = builder.emit(Subtract, sliced(builder, ends, 0, 1, size), starts)
    return gathered(builder, x, (0,), [starts], 0), number, lengths


def _inverse(builder: GraphBuilder, order: SSAValue, number: SSAValue) -> SSAValue:
    """result[order[i]] = number[i]"""
    return scattered(builder, builder.constant(0, I64, sizes_of(order.type)), [order], number, "set")


@lowers("aten._unique2.default")
def lower_unique(
    builder: GraphBuilder, x: SSAValue, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The different elements in order, where each element is among them, and how often each occurs; NaN differs from NaN"""
    row = _flat(builder, x)
    order = builder.emit(ArgSort, row)
    values, number, lengths = _runs(builder, taken(builder, row, order), _size_of_values(builder, 0))
    return values, builder.reshape(_inverse(builder, order, number), sizes_of(x.type)), lengths


@lowers("aten.unique_dim.default")
def lower_unique_dim(
    builder: GraphBuilder,
    x: SSAValue,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The different slices along an axis, in order of their elements"""
    axis, slices = _slices(builder, x, dim)
    sizes = sizes_of(slices.type)
    order = builder.emit(RowOrder, builder.reshape(slices, (sizes[0], numel(sizes[1:]))))
    in_order = gathered(builder, slices, (0,), [order], 0)
    values, number, lengths = _runs(builder, in_order, _size_of_values(builder, axis))
    return _put_back(builder, values, axis), _inverse(builder, order, number), lengths


@lowers("aten.unique_consecutive.default")
def lower_unique_consecutive(
    builder: GraphBuilder, x: SSAValue, return_inverse: bool = False, return_counts: bool = False, dim: Value = None
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The first of each run of equal elements, or slices, the number of the run of each, and the lengths of runs"""
    if dim is not None:
        axis, slices = _slices(builder, x, dim)
        values, number, lengths = _runs(builder, slices, _size_of_values(builder, axis))
        return _put_back(builder, values, axis), number, lengths
    values, number, lengths = _runs(builder, _flat(builder, x), _size_of_values(builder, 0))
    return values, builder.reshape(number, sizes_of(x.type)), lengths


def _slices(builder: GraphBuilder, x: SSAValue, dim: int) -> tuple[int, SSAValue]:
    """The axis, and x with it in front of the others, which stay in their order: slices are compared in it."""
    rank = rank_of(x.type)
    axis = axis_of(dim, rank)
    return axis, transposed(builder, x, [axis, *(other for other in range(rank) if other != axis)])


def _put_back(builder: GraphBuilder, slices: SSAValue, axis: int) -> SSAValue:
    """The first axis at the place from which `_slices` took it."""
    return transposed(builder, slices, [*range(1, axis + 1), 0, *range(axis + 1, rank_of(slices.type))])


__all__ = ["places", "read"]
