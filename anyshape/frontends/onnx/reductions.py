"""ONNX's reductions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    ArgMax,
    ArgMin,
    Divide,
    Exponential,
    IsInf,
    Log,
    Mean,
    Multiply,
    Reduce,
    Select,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import F64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.registry import folds, lowers
from anyshape.frontends.onnx.values import Known, Value, as_objects, known_array, known_scalar
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max, size_min

Axes = Value | Sequence[int] | None


def reduced_axes(b: GraphBuilder, axes: Axes, rank: int, noop_with_empty_axes: int) -> list[int]:
    """The axes to reduce: those named; where none is, all, or none at all if `noop_with_empty_axes`."""
    listed = [] if axes is None else b.axes(axes, rank)
    if not listed and not noop_with_empty_axes:
        return list(range(rank))
    return sorted(listed)


def reduced(b: GraphBuilder, x: Value, axes: Sequence[int], kind: str) -> Tensor:
    """Combined over axes, which are dropped: sum, prod, max, min, and, or."""
    return b.emit(Reduce, x, axes=tuple(axes), kind=kind) if axes else b.tensor(x)


def kept_sizes(sizes: Sequence[Size], axes: Sequence[int]) -> tuple[Size, ...]:
    """The sizes of a tensor whose axes `axes` have become 1."""
    return tuple(ONE if axis in axes else size for axis, size in enumerate(sizes))


def back_to(b: GraphBuilder, x: Tensor, axes: Sequence[int], sizes: Sequence[Size]) -> Tensor:
    """A reduced tensor repeated along the axes that it lost."""
    return b.repeated(b.reshape(x, kept_sizes(sizes, axes)), tuple(sizes))


def _register(op: str, compute: Callable[[GraphBuilder, Value, list[int]], Tensor]) -> None:
    @lowers(op)
    def lower(  # pyright: ignore[reportUnusedFunction]
        b: GraphBuilder, x: Value, axes: Axes = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        listed = reduced_axes(b, axes, x.rank, noop_with_empty_axes)
        result = compute(b, x, listed)
        return b.reshape(result, kept_sizes(x.sizes, listed)) if keepdims else result


def _kind(kind: str) -> Callable[[GraphBuilder, Value, list[int]], Tensor]:
    return lambda b, x, axes: reduced(b, x, axes, kind)


def _extremum(kind: str) -> Callable[[GraphBuilder, Value, list[int]], Tensor]:
    """Bools are ordered false before true."""
    of_bools = {"max": "or", "min": "and"}[kind]
    return lambda b, x, axes: reduced(b, x, axes, of_bools if x.dtype.is_bool else kind)


def _mean(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    if x.dtype.is_float:
        return b.emit(Mean, x, axes=tuple(axes)) if axes else b.tensor(x)
    count = numel([x.sizes[axis] for axis in axes])
    return b.binary(Divide, reduced(b, x, axes, "sum"), b.operand(known_scalar(count), x.dtype))


def _magnitudes(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    return reduced(b, b.emit(Abs, x), axes, "sum")


def _squares(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    return reduced(b, b.emit(Multiply, x, x), axes, "sum")


def _length(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    """√Σx²; f16 and bf16 in f32, integers in f64, where the squares do not overflow"""
    wide = b.convert(x, accumulation_dtype(x.dtype) if x.dtype.is_float else F64)
    return b.convert(b.emit(Sqrt, _squares(b, wide, axes)), x.dtype)


def _log_sum(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    return b.emit(Log, reduced(b, x, axes, "sum"))


def _log_sum_exp(b: GraphBuilder, x: Value, axes: list[int]) -> Tensor:
    """m + ln Σ exp(x − m), m = max x, or 0 where that is infinite"""
    largest = reduced(b, x, axes, "max")
    shift = b.emit(Select, b.emit(IsInf, largest), b.constant(0.0, x.dtype, largest.sizes), largest)
    total = reduced(b, b.emit(Exponential, b.emit(Subtract, x, back_to(b, shift, axes, x.sizes))), axes, "sum")
    return b.emit(Add, shift, b.emit(Log, total))


for _op, _compute in {
    "ReduceSum": _kind("sum"), "ReduceProd": _kind("prod"), "ReduceMax": _extremum("max"), "ReduceMin": _extremum("min"),
    "ReduceMean": _mean, "ReduceL1": _magnitudes, "ReduceL2": _length, "ReduceSumSquare": _squares,
    "ReduceLogSum": _log_sum, "ReduceLogSumExp": _log_sum_exp,
}.items():  # fmt: skip
    _register(_op, _compute)


def _register_fold(op: str, combine: Callable[[Size, Size], Size]) -> None:
    @folds(op)
    def fold(  # pyright: ignore[reportUnusedFunction]
        b: GraphBuilder,
        x: Known,
        axes: Known | Sequence[int] | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Known | None:
        """Of sizes: the number of elements, say"""
        listed = reduced_axes(b, axes, x.rank, noop_with_empty_axes)
        kept = [axis for axis in range(x.rank) if axis not in listed]
        rows = (
            as_objects(x).transpose([*kept, *listed]).reshape([*(x.shape[axis] for axis in kept), -1])
            if x.elements.size
            else None
        )
        if x.numpy.kind not in "iu" or rows is None:
            return None
        totals = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(totals.shape):
            totals[place] = b.graph.facts.simplify(reduce(combine, rows[place]))
        shape = [1 if axis in listed else size for axis, size in enumerate(x.shape)] if keepdims else totals.shape
        return known_array(totals.reshape(shape), x.numpy)


_register_fold("ReduceProd", operator.mul)
_register_fold("ReduceSum", operator.add)
_register_fold("ReduceMax", size_max)
_register_fold("ReduceMin", size_min)


# -- positions -------------------------------------------------------------------------------------------------------


def _register_position(op: str, kind: type[DhloOp]) -> None:
    @lowers(op)
    def lower(  # pyright: ignore[reportUnusedFunction]
        b: GraphBuilder, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        """The first position of the extremum along an axis, or the last one"""
        axis = b.axis(axis, x.rank)
        b.require(x.sizes[axis].ge(1), "the axis of a position")
        if select_last_index:
            last = x.sizes[axis] - 1
            found = b.emit(kind, b.slice(x, axis, last, x.sizes[axis], -1), axis=axis)
            position = b.binary(Subtract, known_scalar(last), found)
        else:
            position = b.emit(kind, x, axis=axis)
        return b.reshape(position, kept_sizes(x.sizes, (axis,))) if keepdims else position


_register_position("ArgMax", ArgMax)
_register_position("ArgMin", ArgMin)


__all__ = ["Axes", "back_to", "kept_sizes", "reduced", "reduced_axes"]
