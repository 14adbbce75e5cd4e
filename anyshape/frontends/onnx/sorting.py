"""ONNX ops that order elements, or find places whose number the data say: TopK, NonZero, Unique."""

from __future__ import annotations

from anyshape.dialects.dhlo import (
    And,
    Compare,
    Concatenate,
    FloorDivide,
    IsNan,
    Not,
    Or,
    Pad,
    Reduce,
    Remainder,
    Scan,
    Subtract,
)
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dhlo.sort import ArgSort, RowOrder, TopK
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import places, read_size
from anyshape.frontends.onnx.places import columns_beside, gathered, iota, size_as, swapped, taken
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size


@lowers("TopK")
def lower_top_k(
    b: GraphBuilder, x: Value, k: Value | int | None = None, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> list[Value]:
    """The k largest or smallest elements of an axis in order, and where they are; of equal ones those that come first"""
    if k is None:
        raise Malformed("TopK needs the number of elements")
    axis = b.axis(axis, x.rank)
    if isinstance(k, Tensor):
        count = read_size(b, b.convert(k, I64), "top")
    else:
        sizes = b.size_list(k, "the number of elements")
        if len(sizes) != 1:
            raise Malformed(f"the number of elements must be one number; here there are {len(sizes)}")
        (count,) = sizes
    b.require(count.le(x.sizes[axis]), "the number of elements")
    b.require(count.ge(0), "the number of elements")
    rows = swapped(b, b.tensor(x), axis)
    first = b.emit(TopK, rows, k=(count,), largest=bool(largest))
    return [swapped(b, taken(b, rows, first, rows.rank - 1), axis), swapped(b, first, axis)]


# -- places ----------------------------------------------------------------------------------------------------------


def as_bool(b: GraphBuilder, x: Value) -> Tensor:
    """Whether each element is not 0."""
    return b.tensor(x) if x.dtype.is_bool else b.compare("ne", x, 0)


def columns_of(b: GraphBuilder, place: Tensor, sizes: tuple[Size, ...]) -> list[Tensor]:
    """The index on each axis of places in row-major order."""
    columns: list[Tensor] = []
    for axis in reversed(range(1, len(sizes))):
        extent = size_as(b, sizes[axis])
        columns.insert(0, b.binary(Remainder, place, extent))
        place = b.binary(FloorDivide, place, extent)
    return [place, *columns]


@lowers("NonZero")
def lower_non_zero(b: GraphBuilder, x: Value) -> Value:
    """[rank, how many]: the indices of elements that are not 0, in row-major order"""
    flat = as_bool(b, b.reshape(x, (numel(x.sizes),)))
    place = places(b, flat, "nonzero")
    if not x.rank:
        return b.constant(0, I64, (ZERO, place.sizes[0]))
    return b.transpose(columns_beside(b, columns_of(b, place, x.sizes)), (1, 0))


# -- unique ----------------------------------------------------------------------------------------------------------


@lowers("Unique")
def lower_unique(b: GraphBuilder, x: Value, *, axis: int | None = None, sorted: int = 1) -> list[Value]:
    """The different elements, or slices along an axis, the first place of each, where each is among them, and how often it occurs

    In order, or as they come first; all NaN are one element.
    """
    if axis is None:
        slices, order = b.reshape(x, (numel(x.sizes),)), [0]
    else:
        axis = b.axis(axis, x.rank)
        order = [axis, *(other for other in range(x.rank) if other != axis)]
        slices = b.transpose(x, order)
    count = slices.sizes[0]
    if slices.rank == 1:
        places_in_order = b.emit(ArgSort, slices)
    else:
        places_in_order = b.emit(RowOrder, b.reshape(slices, (count, numel(slices.sizes[1:]))))
    begins = _begins(b, gathered(b, slices, (0,), [places_in_order], 0))
    starts = places(b, begins, "unique")
    number = b.binary(Subtract, b.emit(Scan, b.convert(begins, I64), axis=0, kind="sum"), 1)
    inverse = _put(b, count, places_in_order, number)
    ends = b.emit(Concatenate, starts, b.reshape(size_as(b, count), (1,)), axis=0)
    counts = b.emit(Subtract, b.slice(ends, 0, 1, starts.sizes[0]), starts)
    first = gathered(b, places_in_order, (0,), [starts], 0)
    if not sorted:
        by_place = b.emit(ArgSort, first)
        first, counts = (gathered(b, each, (0,), [by_place], 0) for each in (first, counts))
        rank_of_number = _put(b, starts.sizes[0], by_place, iota(b, starts.sizes))
        inverse = gathered(b, rank_of_number, (0,), [inverse], 0)
    values = gathered(b, slices, (0,), [first], 0)
    values = b.transpose(values, [order.index(each) for each in range(len(order))])
    return [values, first, inverse, counts]


def _begins(b: GraphBuilder, x: Tensor) -> Tensor:
    """Whether slice x[i] differs from the one before it; the first one does."""
    rest = [ZERO] * (x.rank - 1)
    before = b.emit(Pad, x, b.constant(0, x.dtype), low=(ONE, *rest), high=(-ONE, *rest))
    differs = b.emit(Compare, x, before, direction="ne")
    if x.dtype.is_float:
        both = b.emit(And, b.emit(IsNan, x), b.emit(IsNan, before))
        differs = b.emit(And, differs, b.emit(Not, both))
    if x.rank > 1:
        differs = b.emit(Reduce, differs, axes=tuple(range(1, x.rank)), kind="or")
    return b.emit(Or, differs, b.compare("eq", iota(b, x.sizes[:1]), 0))


def _put(b: GraphBuilder, size: Size, at: Tensor, values: Tensor) -> Tensor:
    """result[at[i]] = values[i]"""
    return b.emit(Scatter, b.constant(0, I64, (size,)), at, values, kind="set")


__all__ = ["as_bool", "columns_of"]
