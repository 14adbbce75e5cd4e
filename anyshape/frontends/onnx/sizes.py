"""Where sizes come from: shapes, constants, and tensors that are made from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import Add, Ceil, Divide, FloorDivide, Iota, Maximum, Multiply, Subtract
from anyshape.dialects.dtypes import F64, I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import FOLDED_ELEMENTS, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_size
from anyshape.frontends.onnx.evaluation import constant_elements
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, as_objects, known_scalar, known_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max


@lowers("Shape")
def lower_shape(b: GraphBuilder, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The sizes of the axes [start, end), which are clamped"""
    return known_sizes(x.sizes[start:end])


@lowers("Size")
def lower_size(b: GraphBuilder, x: Value) -> Value:
    """The number of elements"""
    return known_scalar(numel(x.sizes))


@lowers("Constant")
def lower_constant(b: GraphBuilder, **values: Any) -> Value:
    """The only one of its attributes"""
    if len(values) != 1:
        raise Malformed(f"a constant has one value; this one has {sorted(values)}")
    ((name, value),) = values.items()
    if isinstance(value, Known):
        return value
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    return Known(np.array(value, kinds.get(name, object)))


@lowers("ConstantOfShape")
def lower_constant_of_shape(b: GraphBuilder, shape: Value, *, value: Known | None = None) -> Value:
    """One number at every point; f32 zeros where none is given"""
    filled = value or Known(np.zeros(1, np.float32))
    return b.constant(b.number(filled, "the value"), filled.dtype, b.shape(shape))


@lowers("Range")
def lower_range(b: GraphBuilder, start: Value, limit: Value, delta: Value) -> Value:
    """start, start + delta, … up to but without limit: max(⌈(limit − start) / delta⌉, 0) numbers"""
    bounds = [_as_known(b, each) for each in (start, limit, delta)]
    known = [each for each in bounds if each is not None]
    if any(each.elements.size != 1 for each in known):
        raise Malformed("the bounds of a range are numbers")
    if len(known) < len(bounds):
        return _numbers(b, _read_count(b, start, limit, delta), start, delta)
    first, last, by = known
    if first.dtype.is_float:
        count = _float_count(b, first, last, by)
    else:
        count = range_count(b, *(b.size_list(each, "the bounds of a range")[0] for each in (first, last, by)))
    if count.is_constant and count.value <= FOLDED_ELEMENTS and first.is_literal and by.is_literal:
        numbers = np.arange(count.value) * by.elements.reshape(()) + first.elements.reshape(())
        return Known(numbers.astype(first.numpy))
    return _numbers(b, count, first, by)


def _as_known(b: GraphBuilder, value: Value) -> Known | None:
    """A value whose elements are known; None for one that the program computes."""
    if isinstance(value, Known):
        return value
    elements = constant_elements(value, b.graph.store)
    return None if elements is None else Known(elements)


def _numbers(b: GraphBuilder, count: Size, first: Value, by: Value) -> Tensor:
    """first + i · by for i < count"""
    wide = first.dtype if first.dtype.is_float else I64
    positions = b.convert(b.emit(Iota, axis=0, sizes=(count,), dtype=I64), wide)
    steps = b.binary(Multiply, positions, b.reshape(b.convert(by, wide), ()))
    return b.convert(b.binary(Add, steps, b.reshape(b.convert(first, wide), ())), first.dtype)


def _read_count(b: GraphBuilder, *bounds: Value) -> Size:
    """How many numbers a range has whose bounds the program computes. A step of 0 is an error of the call."""
    is_real = bounds[0].dtype.is_float
    low, high, by = (b.reshape(b.convert(each, F64 if is_real else I64), ()) for each in bounds)
    is_none = b.compare("eq", by, 0)
    steps = b.select(is_none, 1, by)
    if is_real:
        count = b.emit(Ceil, b.binary(Divide, b.binary(Subtract, high, low), steps))
    else:
        count = b.binary(Subtract, 0, b.binary(FloorDivide, b.binary(Subtract, low, high), steps))
    # A size below 0 is what the call is told of.
    return read_size(b, b.convert(b.select(is_none, -1, b.binary(Maximum, count, 0)), I64), "range")


def _float_count(b: GraphBuilder, *bounds: Known) -> Size:
    """How many numbers a range of floats has; its bounds may be fractions of sizes, its step may not."""
    if not all(each.is_literal for each in bounds):
        low, high, by = (Ratio.of(as_objects(each).flat[0]) for each in bounds)
        quotient = None if low is None or high is None or by is None else (high - low).divided(by)
        if quotient is None:
            raise Unsupported(
                "the step of a range of floats must be constant, and its bounds constant or computed from sizes"
            )
        return b.graph.facts.simplify(size_max(quotient.ceil(), 0))
    low, high, by = (float(b.number(each, "the bounds of a range of floats")) for each in bounds)
    count = (high - low) / by if by else math.nan
    if not math.isfinite(count):
        raise Malformed(f"there is no range from {low} to {high} in steps of {by}")
    return Size.const(max(math.ceil(count), 0))


def range_count(b: GraphBuilder, low: Size, high: Size, by: Size) -> Size:
    """How many numbers a range has."""
    if by == Size.const(0):
        raise Malformed("a range has step 0")
    if b.prove(by.lt(0)) is True:
        low, high, by = -low, -high, -by
    b.require(by.gt(0), "the step of a range")
    return b.graph.facts.simplify(size_max((high - low + by - 1) // by, 0))


__all__ = ["range_count"]
