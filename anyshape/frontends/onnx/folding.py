"""Arithmetic and movement on small tensors that are known while importing: Shape → Gather → Concat → Reshape becomes expressions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import Array
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import FOLDED_ELEMENTS, GraphBuilder
from anyshape.frontends.onnx.conditions import any_of, both_of, chosen_size
from anyshape.frontends.onnx.dtypes import numpy_of_code
from anyshape.frontends.onnx.movement import reshaped_sizes
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import folds
from anyshape.frontends.onnx.values import BOOLEAN, Known, as_objects, known_array
from anyshape.symbolic import Relation, Size, size_max, size_min

# -- arithmetic ------------------------------------------------------------------------------------


def _truncated(b: GraphBuilder, x: Any, y: Any) -> Any:
    """x / y: of integers rounded toward zero, which is down where both have the same sign."""
    if not isinstance(x, Size):
        return x / y if y else None
    if y.is_constant and y.value == 0:
        return None
    if x.is_constant and y.is_constant:
        return Size.const(int(x.value / y.value) if abs(x.value) < 2**53 else -(-x.value // y.value))
    negative = [b.prove(each.lt(0)) for each in (x, y)]
    return x // y if negative[0] is not None and negative[0] == negative[1] else None


def _modulo(b: GraphBuilder, x: Any, y: Any) -> Any:
    if isinstance(y, Size) and y.is_constant and y.value == 0:
        return None
    return x % y if isinstance(x, Size) else None


def _compared(op: str) -> Callable[[GraphBuilder, Any, Any], Any]:
    def compare(b: GraphBuilder, x: Any, y: Any) -> Any:
        if not isinstance(x, Size):
            return None if isinstance(x, Relation) or isinstance(y, Relation) else bool(_PYTHON[op](x, y))
        relation = {"==": x.eq, "<": x.lt, "<=": x.le, ">": x.gt, ">=": x.ge}[op](y)
        proved = b.prove(relation)
        return relation if proved is None else proved

    return compare


_PYTHON: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _extreme(of_sizes: Callable[..., Size], of_numbers: Callable[..., Any]) -> Callable[[GraphBuilder, Any, Any], Any]:
    def extreme(b: GraphBuilder, x: Any, y: Any) -> Any:
        return b.graph.facts.simplify(of_sizes(x, y)) if isinstance(x, Size) else of_numbers(x, y)

    return extreme


def _logical(when: bool) -> Callable[[GraphBuilder, Any, Any], Any]:
    """And, which a false side decides (`when` is False), or Or, which a true one does."""

    def combine(b: GraphBuilder, x: Any, y: Any) -> Any:
        if x is when or y is when:
            return when
        if isinstance(x, bool):
            return y
        if isinstance(y, bool):
            return x
        return any_of(x, y) if when else both_of(b, x, y)

    return combine


_ELEMENTWISE: Mapping[str, Callable[[GraphBuilder, Any, Any], Any]] = {
    "Add": lambda _, x, y: x + y, "Sub": lambda _, x, y: x - y, "Mul": lambda _, x, y: x * y, "Div": _truncated,
    "Mod": _modulo, "Max": _extreme(size_max, max), "Min": _extreme(size_min, min), "Equal": _compared("=="),
    "Less": _compared("<"), "LessOrEqual": _compared("<="), "Greater": _compared(">"), "GreaterOrEqual": _compared(">="),
    "And": _logical(False), "Or": _logical(True),
}  # fmt: skip
_TESTS = frozenset({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})


def _mapped(function: Callable[..., object], numpy: np.dtype[np.generic], *operands: Array) -> Known | None:
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


def _register(op: str) -> None:
    combine = _ELEMENTWISE[op]

    @folds(op)
    def fold(b: GraphBuilder, first: Known, *others: Known, fmod: int = 0) -> Known | None:  # pyright: ignore[reportUnusedFunction]
        operands = (first, *others)
        if fmod or any(each.numpy.kind not in "iubf" or each.numpy != first.numpy for each in operands):
            return None
        if first.numpy.kind == "f":
            return _floats(op, operands)
        numpy = BOOLEAN if op in _TESTS else first.numpy
        result: Known | None = first
        for other in others:
            result = (
                None if result is None else _mapped(partial(combine, b), numpy, as_objects(result), as_objects(other))
            )
        return result


for _op in _ELEMENTWISE:
    _register(_op)


_FLOATS: Mapping[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip


def _floats(op: str, operands: Sequence[Known]) -> Known | None:
    """Arithmetic on constants, in their own type, as the program would do it; or on fractions of sizes, exactly."""
    if op not in _FLOATS:
        return None
    if not all(each.is_literal for each in operands):
        return _fractions(op, operands)
    with np.errstate(all="ignore"):
        return Known(np.asarray(reduce(_FLOATS[op], (each.elements for each in operands)), operands[0].numpy))


_FRACTIONS: Mapping[str, Callable[[Ratio, Ratio], Ratio | None]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": Ratio.divided,
}  # fmt: skip


def _fractions(op: str, operands: Sequence[Known]) -> Known | None:
    if op not in _FRACTIONS or len(operands) != 2:
        return None

    def combine(x: object, y: object) -> Ratio | None:
        left, right = Ratio.of(x), Ratio.of(y)
        return None if left is None or right is None else _FRACTIONS[op](left, right)

    return _mapped(combine, operands[0].numpy, *map(as_objects, operands))


def _rounded(b: GraphBuilder, x: Known, direction: Callable[[Ratio], Size]) -> Known | None:
    if x.is_literal or x.numpy.kind != "f":
        return None

    def rounded(element: object) -> Ratio | None:
        exact = Ratio.of(element)
        return None if exact is None else Ratio(direction(exact), 1)

    return _mapped(rounded, x.numpy, as_objects(x))


@folds("Floor")
def fold_floor(b: GraphBuilder, x: Known) -> Known | None:
    return _rounded(b, x, Ratio.floor)


@folds("Ceil")
def fold_ceil(b: GraphBuilder, x: Known) -> Known | None:
    return _rounded(b, x, Ratio.ceil)


@folds("Neg")
def fold_neg(b: GraphBuilder, x: Known) -> Known | None:
    return _mapped(operator.neg, x.numpy, as_objects(x)) if x.numpy.kind == "i" else None


@folds("Abs")
def fold_abs(b: GraphBuilder, x: Known) -> Known | None:
    if x.numpy.kind != "i":
        return None

    def magnitude(element: Size) -> Size | None:
        is_positive = b.prove(element.ge(0))
        return None if is_positive is None else element if is_positive else -element

    return _mapped(magnitude, x.numpy, as_objects(x))


@folds("Not")
def fold_not(b: GraphBuilder, x: Known) -> Known | None:
    return _mapped(_negated, BOOLEAN, as_objects(x))


def _negated(element: Relation | bool) -> Relation | bool:
    return element.negate() if isinstance(element, Relation) else not element


@folds("Where")
def fold_where(b: GraphBuilder, condition: Known, on_true: Known, on_false: Known) -> Known | None:
    def choose(test: Any, yes: Any, no: Any) -> Any:
        if isinstance(test, bool):
            return yes if test else no
        return chosen_size(b.graph.facts, test, yes, no) if isinstance(yes, Size) and isinstance(no, Size) else None

    if on_true.numpy != on_false.numpy or on_true.numpy.kind not in "iubf":
        return None
    return _mapped(choose, on_true.numpy, *map(as_objects, (condition, on_true, on_false)))


@folds("Cast")
def fold_cast(b: GraphBuilder, x: Known, *, to: int, saturate: int = 1, round_mode: str = "up") -> Known | None:
    target = numpy_of_code(to)
    if x.numpy.kind in "iu" and target.kind in "iu":
        return known_array(as_objects(x), target)
    if not x.is_literal and x.numpy.kind in "if" and target.kind in "if":
        return _cast_fractions(b, x, target)
    if x.is_literal and x.numpy.kind in "iubf" and target.kind in "iubf":
        with np.errstate(all="ignore"):
            return Known(x.elements.astype(target))
    return None


def _cast_fractions(b: GraphBuilder, x: Known, target: np.dtype[np.generic]) -> Known | None:
    """Sizes as fractions, and fractions of sizes truncated to sizes, where their sign is known."""

    def truncated(element: object) -> Size | None:
        exact = Ratio.of(element)
        return exact.floor() if exact is not None and b.prove(exact.size.ge(0)) is True else None

    return _mapped(Ratio.of if target.kind == "f" else truncated, target, as_objects(x))


# -- movement of known elements --------------------------------------------------------------------------------------


def _moved(x: Known, moved: Array) -> Known:
    elements = np.empty(np.shape(moved), x.elements.dtype)  # of one element numpy gives the element itself
    elements[...] = moved
    return Known(elements) if x.is_literal else known_array(elements, x.numpy)


@folds("Gather")
def fold_gather(b: GraphBuilder, x: Known, indices: Known, *, axis: int = 0) -> Known | None:
    if not indices.is_literal:
        return None
    axis = b.axis(axis, x.rank)
    size = x.shape[axis]
    if ((indices.elements < -size) | (indices.elements >= size)).any():
        raise Malformed(f"index {indices.elements.ravel().tolist()} is outside an axis of size {size}")
    if indices.numpy.kind not in "iu":
        raise Malformed(f"the indices are {indices.numpy}")
    return _moved(x, np.take(x.elements, indices.elements, axis=axis))


@folds("Concat")
def fold_concat(b: GraphBuilder, first: Known, *others: Known, axis: int) -> Known | None:
    parts = (first, *others)
    if any(each.numpy != first.numpy or each.rank != first.rank for each in parts):
        return None
    if all(each.is_literal for each in parts):
        return Known(np.concatenate([each.elements for each in parts], axis=b.axis(axis, first.rank)))
    return known_array(np.concatenate([as_objects(each) for each in parts], axis=b.axis(axis, first.rank)), first.numpy)


@folds("Reshape")
def fold_reshape(b: GraphBuilder, x: Known, shape: Known, *, allowzero: int = 0) -> Known | None:
    sizes = reshaped_sizes(b, x.sizes, b.size_list(shape, "the shape"), bool(allowzero))
    if not all(size.is_constant for size in sizes) or numel(sizes) != numel(x.sizes):
        return None
    return _moved(x, x.elements.reshape([size.value for size in sizes]))


@folds("Transpose")
def fold_transpose(b: GraphBuilder, x: Known, *, perm: Sequence[int] | None = None) -> Known:
    return _moved(x, x.elements.transpose(perm))


@folds("ConstantOfShape")
def fold_constant_of_shape(b: GraphBuilder, shape: Known, *, value: Known | None = None) -> Known | None:
    """As exporters write the pads of axes that are not padded"""
    filled = np.zeros(1, np.float32) if value is None else value.elements
    if shape.is_literal and any(size < 0 for size in shape.elements.ravel().tolist()):
        raise Malformed("a size is negative")
    if (
        not shape.is_literal
        or filled.size != 1
        or not 0 <= math.prod(shape.elements.ravel().tolist()) <= FOLDED_ELEMENTS
    ):
        return None
    return Known(np.full(shape.elements.ravel(), filled.reshape(()), filled.dtype))


@folds("Unsqueeze")
def fold_unsqueeze(b: GraphBuilder, x: Known, axes: Known | Sequence[int]) -> Known:
    added = b.axes(axes, x.rank + len(b.integers(axes, "the axes")))
    return _moved(x, np.expand_dims(x.elements, tuple(added)))


@folds("Squeeze")
def fold_squeeze(b: GraphBuilder, x: Known, axes: Known | Sequence[int] | None = None) -> Known:
    dropped = None if axes is None else tuple(b.axes(axes, x.rank))
    if any(x.shape[axis] != 1 for axis in dropped or ()):
        raise Malformed(f"axes {dropped} of shape {list(x.shape)} are squeezed")
    return _moved(x, np.squeeze(x.elements, dropped))
