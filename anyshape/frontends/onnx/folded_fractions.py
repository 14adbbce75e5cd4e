"""Arithmetic on floats that are known while importing: constants in their own type, fractions of sizes exactly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from anyshape.dialects.dhlo import Array
from anyshape.frontends.onnx.builder import FOLDED_ELEMENTS, GraphBuilder
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import folds
from anyshape.frontends.onnx.values import Known, as_objects, known_array
from anyshape.symbolic import Size


def mapped(function: Callable[..., object], numpy: np.dtype[np.generic], *operands: Array) -> Known | None:
    """A function of the elements of operands that are broadcast together; None where it gives None of any."""
    try:
        shape = np.broadcast_shapes(*(each.shape for each in operands))
    except ValueError as error:
        raise Malformed(f"shapes {[each.shape for each in operands]} do not fit each other") from error
    if math.prod(shape) > FOLDED_ELEMENTS:
        return None
    operands = tuple(np.broadcast_to(each, shape) for each in operands)
    results = np.empty(shape, object)
    for place in np.ndindex(results.shape):
        result = function(*(each[place] for each in operands))
        if result is None:
            return None
        results[place] = result
    return known_array(results, numpy)


_FLOATS: Mapping[str, Callable[..., Array]] = {
    "Add": np.add, "Sum": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip

_FRACTIONS: Mapping[str, Callable[[Ratio, Ratio], Ratio | None]] = {
    "Add": operator.add, "Sum": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": Ratio.divided, "Max": Ratio.larger,
    "Min": Ratio.smaller,
}  # fmt: skip


def combined_floats(op: str, operands: Sequence[Known]) -> Known | None:
    """Operands of one float type combined from left to right; None for ops that are left to the program."""
    if op not in _FLOATS:
        return None
    if not all(each.is_literal for each in operands):
        return _fractions(_FRACTIONS[op], operands)
    with np.errstate(all="ignore"):
        try:
            return Known(np.asarray(reduce(_FLOATS[op], (each.elements for each in operands)), operands[0].numpy))
        except ValueError as error:
            raise Malformed(f"shapes {[list(each.shape) for each in operands]} do not fit each other") from error


def _fractions(combine: Callable[[Ratio, Ratio], Ratio | None], operands: Sequence[Known]) -> Known | None:
    def each(*elements: object) -> Ratio | None:
        result: Ratio | None = Ratio.of(elements[0])
        for element in elements[1:]:
            other = Ratio.of(element)
            result = None if result is None or other is None else combine(result, other)
        return result

    return mapped(each, operands[0].numpy, *map(as_objects, operands))


@folds("Mean")
def fold_mean(b: GraphBuilder, first: Known, *others: Known) -> Known | None:
    total = combined_floats("Add", (first, *others)) if first.numpy.kind == "f" else None
    return None if total is None else combined_floats("Div", (total, Known(np.asarray(len(others) + 1, first.numpy))))


def _rounded(x: Known, direction: Callable[[Ratio], Size]) -> Known | None:
    if x.is_literal or x.numpy.kind != "f":
        return None

    def rounded(element: object) -> Ratio | None:
        exact = Ratio.of(element)
        return None if exact is None else Ratio(direction(exact), 1)

    return mapped(rounded, x.numpy, as_objects(x))


@folds("Floor")
def fold_floor(b: GraphBuilder, x: Known) -> Known | None:
    return _rounded(x, Ratio.floor)


@folds("Ceil")
def fold_ceil(b: GraphBuilder, x: Known) -> Known | None:
    return _rounded(x, Ratio.ceil)


@folds("Round")
def fold_round(b: GraphBuilder, x: Known) -> Known | None:
    return _rounded(x, Ratio.nearest)


def cast_fractions(b: GraphBuilder, x: Known, target: np.dtype[np.generic]) -> Known | None:
    """Sizes as fractions, and fractions of sizes truncated to sizes, where their sign is known."""

    def truncated(element: object) -> Size | None:
        exact = Ratio.of(element)
        return exact.floor() if exact is not None and b.prove(exact.size.ge(0)) is True else None

    return mapped(Ratio.of if target.kind == "f" else truncated, target, as_objects(x))


__all__ = ["cast_fractions", "combined_floats", "mapped"]
