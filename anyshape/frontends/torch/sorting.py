"""ATen ops that order elements: sorts, the first ones, medians, places in sorted rows."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    ArgMax,
    Compare,
    Gather,
    Iota,
    IsNan,
    Maximum,
    Or,
    Pad,
    Reduce,
    Scan,
    Select,
    ShiftRightArithmetic,
    Subtract,
)
from anyshape.dialects.dhlo.sort import ArgSort, SearchSorted, TopK
from anyshape.dialects.dtypes import I32, I64
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

ONE = Size.const(1)


def _swapped(builder: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    """x with an axis and the last one exchanged."""
    order = list(range(rank_of(x.type)))
    order[axis], order[-1] = order[-1], order[axis]
    return transposed(builder, x, order)


def taken(builder: GraphBuilder, x: SSAValue, positions: SSAValue) -> SSAValue:
    """result[…, i] = x[…, positions[…, i]]"""
    rank = rank_of(x.type)
    outer = tuple(range(rank - 1))
    return builder.emit(
        Gather, x, positions, offset_dims=(), collapsed_slice_dims=(rank - 1,), start_index_map=(rank - 1,),
        operand_batching_dims=outer, start_indices_batching_dims=outer, index_vector_dim=rank, slice_sizes=(ONE,) * rank,
    )  # fmt: skip


def _as_rows(builder: GraphBuilder, x: SSAValue, dim: int) -> tuple[SSAValue, int]:
    """x with the axis `dim` last, and which one that was; a scalar is a row of one element."""
    if not rank_of(x.type):
        return builder.reshape(x, (1,)), 0
    axis = axis_of(dim, rank_of(x.type))
    return _swapped(builder, x, axis), axis


def _result_sizes(builder: GraphBuilder) -> tuple[Size, ...]:
    """Sizes of the first of the node's results."""
    value: Any = builder.node.meta["val"]
    return builder.names.sizes((value[0] if isinstance(value, Sequence) else value).shape)


def _back(builder: GraphBuilder, row: SSAValue, axis: int) -> SSAValue:
    """One element of each row as the node's result: the axis is where it was, or gone."""
    return builder.reshape(_swapped(builder, row, axis), _result_sizes(builder))


def _ordered(
    builder: GraphBuilder, x: SSAValue, dim: int, descending: bool, stable: Value = None
) -> tuple[SSAValue, SSAValue]:
    """(values, indices) in order along an axis; always stable."""
    rows, axis = _as_rows(builder, x, dim)
    order = builder.emit(ArgSort, rows, descending=bool(descending))
    sizes = sizes_of(x.type)
    values, indices = (_swapped(builder, each, axis) for each in (taken(builder, rows, order), order))
    return builder.reshape(values, sizes), builder.reshape(indices, sizes)


@lowers("aten.sort.default")
def lower_sort(
    builder: GraphBuilder, x: SSAValue, dim: int = -1, descending: bool = False
) -> tuple[SSAValue, SSAValue]:
    return _ordered(builder, x, dim, descending)


@lowers("aten.sort.stable")
def lower_sort_stable(
    builder: GraphBuilder, x: SSAValue, *, stable: Value = None, dim: int = -1, descending: bool = False
) -> tuple[SSAValue, SSAValue]:
    return _ordered(builder, x, dim, descending)


@lowers("aten.topk.default")
def lower_topk(
    builder: GraphBuilder, x: SSAValue, k: Value, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[SSAValue, SSAValue]:
    """The k largest or smallest in order, of equal ones those that come first; PyTorch leaves both free in part."""
    rows, axis = _as_rows(builder, x, dim)
    builder.require(Size.of(k).le(sizes_of(rows.type)[-1]), "topk")
    first = builder.emit(TopK, rows, k=(Size.of(k),), largest=bool(largest))
    sizes = _result_sizes(builder)
    values, indices = (_swapped(builder, each, axis) for each in (taken(builder, rows, first), first))
    return builder.reshape(values, sizes), builder.reshape(indices, sizes)


@lowers("aten.kthvalue.default")
def lower_kthvalue(
    builder: GraphBuilder, x: SSAValue, k: Value, dim: int = -1, keepdim: bool = False
) -> tuple[SSAValue, SSAValue]:
    """The k-th smallest, k counted from 1"""
    rows, axis = _as_rows(builder, x, dim)
    k = Size.of(k)
    builder.require(ONE.le(k), "kthvalue")
    builder.require(k.le(sizes_of(rows.type)[-1]), "kthvalue")
    first = builder.emit(TopK, rows, k=(k,), largest=False)
    last = sliced(builder, first, rank_of(first.type) - 1, k - 1, ONE)
    return _back(builder, taken(builder, rows, last), axis), _back(builder, last, axis)


# -- medians and modes -----------------------------------------------------------------------------------------------


def _median(builder: GraphBuilder, x: SSAValue, dim: int, ignore_nan: bool) -> tuple[SSAValue, SSAValue]:
    """The lower median of rows and where it stands; with NaN in a row the first NaN, or, where they are ignored, that of the others."""
    rows, _ = _as_rows(builder, x, dim)
    sizes = sizes_of(rows.type)
    extent, outer = sizes[-1], sizes[:-1]
    builder.require(ONE.le(extent), "median")
    order = builder.emit(ArgSort, rows)
    middle = builder.broadcast(builder.operand((extent - 1) // 2, I64), outer)
    if dtype_of(x.type).is_float:
        is_nan = builder.convert(builder.emit(IsNan, rows), I64)
        missing = builder.emit(Reduce, is_nan, axes=(len(sizes) - 1,), kind="sum")
        numbers = builder.emit(Subtract, builder.broadcast(builder.operand(extent, I64), outer), missing)
        if ignore_nan:
            half = builder.emit(Subtract, numbers, builder.constant(1, I64, outer))
            half = builder.emit(ShiftRightArithmetic, half, builder.constant(1, I64, outer))
            middle = builder.emit(Maximum, half, builder.constant(0, I64, outer))
        else:
            any_nan = builder.emit(Compare, missing, builder.constant(0, I64, outer), direction="gt")
            middle = builder.emit(Select, any_nan, numbers, middle)
    place = taken(builder, order, builder.reshape(middle, (*outer, 1)))
    return taken(builder, rows, place), place


def _median_of_rows(builder: GraphBuilder, x: SSAValue, dim: int, ignore_nan: bool) -> tuple[SSAValue, SSAValue]:
    value, place = _median(builder, x, dim, ignore_nan)
    axis = axis_of(dim, rank_of(x.type))
    return _back(builder, value, axis), _back(builder, place, axis)


def _flat(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return builder.reshape(x, (numel(sizes_of(x.type)),))


@lowers("aten.median.dim")
def lower_median_dim(builder: GraphBuilder, x: SSAValue, dim: int, keepdim: bool = False) -> tuple[SSAValue, SSAValue]:
    return _median_of_rows(builder, x, dim, ignore_nan=False)


@lowers("aten.nanmedian.dim")
def lower_nanmedian_dim(
    builder: GraphBuilder, x: SSAValue, dim: int, keepdim: bool = False
) -> tuple[SSAValue, SSAValue]:
    return _median_of_rows(builder, x, dim, ignore_nan=True)


@lowers("aten.median.default")
def lower_median(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return builder.reshape(_median(builder, _flat(builder, x), 0, ignore_nan=False)[0], ())


@lowers("aten.nanmedian.default")
def lower_nanmedian(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return builder.reshape(_median(builder, _flat(builder, x), 0, ignore_nan=True)[0], ())


def starts_of_runs(builder: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    """Whether an element differs from the one before it along an axis; the first one does."""
    sizes = sizes_of(x.type)
    zero = builder.constant(0, dtype_of(x.type))
    low, high = (tuple(Size.const(step * (each == axis)) for each in range(len(sizes))) for step in (1, -1))
    before = builder.emit(Pad, x, zero, low=low, high=high)
    differs = builder.emit(Compare, x, before, direction="ne")
    places = builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes)
    is_first = builder.emit(Compare, places, builder.constant(0, I64, sizes), direction="eq")
    return builder.emit(Or, is_first, differs)


@lowers("aten.mode.default")
def lower_mode(builder: GraphBuilder, x: SSAValue, dim: int = -1, keepdim: bool = False) -> tuple[SSAValue, SSAValue]:
    """The most frequent element, of equally frequent ones the smallest, and the last place where it stands"""
    rows, reduced = _as_rows(builder, x, dim)
    sizes = sizes_of(rows.type)
    axis = len(sizes) - 1
    builder.require(ONE.le(sizes[-1]), "mode")
    order = builder.emit(ArgSort, rows)
    in_order = taken(builder, rows, order)
    places = builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes)
    begins = builder.emit(Select, starts_of_runs(builder, in_order, axis), places, builder.constant(0, I64, sizes))
    length = builder.emit(Subtract, places, builder.emit(Scan, begins, axis=axis, kind="max"))
    end = builder.reshape(builder.emit(ArgMax, length, axis=axis), (*sizes[:-1], 1))
    return _back(builder, taken(builder, in_order, end), reduced), _back(builder, taken(builder, order, end), reduced)


# -- places in sorted rows -------------------------------------------------------------------------------------------


def _searched(
    builder: GraphBuilder, rows: SSAValue, values: Value, out_int32: bool, right: bool, sorter: SSAValue | None
) -> SSAValue:
    if sorter is not None:
        rows = taken(builder, rows, builder.convert(sorter, I64))
    if not isinstance(values, SSAValue):
        values = builder.operand(values, dtype_of(rows.type))
    if dtype_of(values.type) != dtype_of(rows.type):
        raise Unsupported("a search for values of another dtype than that of what is searched")
    if not rank_of(rows.type):
        rows = builder.reshape(rows, (1,))
    shape = sizes_of(values.type)
    if rank_of(rows.type) == 1:
        values = _flat(builder, values)
    found = builder.emit(SearchSorted, rows, values, right=right)
    return builder.reshape(builder.convert(found, I32 if out_int32 else I64), shape)


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def lower_searchsorted(
    builder: GraphBuilder, rows: SSAValue, values: Value, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: SSAValue | None = None,
) -> SSAValue:  # fmt: skip
    """The place of each value among rows that are sorted, in front of equal elements, or behind them"""
    return _searched(builder, rows, values, out_int32, right or side == "right", sorter)


@lowers("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def lower_bucketize(
    builder: GraphBuilder, values: Value, boundaries: SSAValue, *, out_int32: bool = False, right: bool = False
) -> SSAValue:
    return _searched(builder, boundaries, values, out_int32, right, None)


__all__ = ["starts_of_runs", "taken"]
