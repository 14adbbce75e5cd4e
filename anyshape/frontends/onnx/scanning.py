"""ONNX ops that run along an axis."""

from __future__ import annotations

import numpy as np

from anyshape.dialects.dhlo import Or, Pad, Scan
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.places import reversed_along
from anyshape.frontends.onnx.registry import folds, lowers
from anyshape.frontends.onnx.values import Known, Value, as_objects, known_array
from anyshape.nn import Tensor


def _scanned(b: GraphBuilder, x: Value, axis: Value, kind: str, start: int, exclusive: int, reverse: int) -> Tensor:
    """Every prefix combined, or every suffix; an exclusive one without its own element.

    Where the program computes the axis, it scans along all of them and takes one of the results.
    """
    if isinstance(axis, Known):
        (listed,) = b.integers(axis, "the axis")
        return _along(b, x, b.axis(listed, x.rank), kind, start, exclusive, reverse)
    chosen = b.reshape(axis, ())
    result = _along(b, x, 0, kind, start, exclusive, reverse)
    for other in range(1, x.rank):
        is_this = b.binary(Or, b.compare("eq", chosen, other), b.compare("eq", chosen, other - x.rank))
        result = b.select(is_this, _along(b, x, other, kind, start, exclusive, reverse), result)
    return result


def _along(b: GraphBuilder, x: Value, along_axis: int, kind: str, start: int, exclusive: int, reverse: int) -> Tensor:
    tensor = b.tensor(x)
    if reverse:
        tensor = reversed_along(b, tensor, along_axis)
    if exclusive:
        low = tuple(ONE if each == along_axis else ZERO for each in range(x.rank))
        tensor = b.emit(Pad, tensor, b.constant(start, x.dtype), low=low, high=tuple(-each for each in low))
    tensor = b.emit(Scan, tensor, axis=along_axis, kind=kind)
    return reversed_along(b, tensor, along_axis) if reverse else tensor


@lowers("CumSum")
def lower_cum_sum(b: GraphBuilder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _scanned(b, x, axis, "sum", 0, exclusive, reverse)


@folds("CumSum")
def fold_cum_sum(b: GraphBuilder, x: Known, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Known | None:
    """Of a vector of sizes: where each part begins or ends"""
    if x.numpy.kind != "i" or x.rank != 1 or exclusive or reverse or not x.elements.size:
        return None
    b.axis(int(b.number(axis, "the axis")), 1)
    return known_array(np.add.accumulate(as_objects(x)), x.numpy)


@lowers("CumProd")
def lower_cum_prod(b: GraphBuilder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _scanned(b, x, axis, "prod", 1, exclusive, reverse)


__all__: list[str] = []
