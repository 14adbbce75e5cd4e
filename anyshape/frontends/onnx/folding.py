"""Arithmetic on small tensors that are known while importing: numbers, and expressions over sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.conditions import any_of, both_of, chosen_size, truth
from anyshape.frontends.onnx.dtypes import numpy_of_code
from anyshape.frontends.onnx.folded_fractions import cast_fractions, combined_floats, mapped
from anyshape.frontends.onnx.registry import folds
from anyshape.frontends.onnx.values import BOOLEAN, Known, as_objects, known_array
from anyshape.symbolic import Relation, Size, size_max, size_min

_MOST_FACTORS = 8
"""The exponent up to which a power of a size is written as a product."""
_SHIFTED_BITS = 62
"""What a size may be shifted by."""


def _truncated(b: GraphBuilder, x: Any, y: Any) -> Any:
    """x / y: of integers rounded toward zero, which is down where both have the same sign."""
    if not isinstance(x, Size):
        return x / y if y else None
    if y.is_constant and y.value == 0:
        return None
    if x.is_constant and y.is_constant:
        magnitude = abs(x.value) // abs(y.value)
        return Size.const(magnitude if (x.value < 0) == (y.value < 0) else -magnitude)
    negative = [b.prove(each.lt(0)) for each in (x, y)]
    return x // y if negative[0] is not None and negative[0] == negative[1] else None


def _modulo(b: GraphBuilder, x: Any, y: Any) -> Any:
    """The remainder with the sign of y."""
    if isinstance(y, Size) and y.is_constant and y.value == 0:
        return None
    return x % y if isinstance(x, Size) else None


def _remainder(b: GraphBuilder, x: Any, y: Any) -> Any:
    """The remainder with the sign of x, which is the other one where neither is negative."""
    both = isinstance(x, Size) and isinstance(y, Size) and b.prove(x.ge(0)) is True and b.prove(y.gt(0)) is True
    return x % y if both else None


def _power(b: GraphBuilder, x: Any, y: Any) -> Any:
    few = isinstance(x, Size) and isinstance(y, Size) and y.is_constant and 0 <= y.value <= _MOST_FACTORS
    return reduce(operator.mul, [x] * y.value, Size.const(1)) if few else None


def _masked(b: GraphBuilder, x: Any, y: Any) -> Any:
    """The bits that both have: below a power of two, or above it, as sizes are rounded down to whole blocks."""
    if not isinstance(x, Size) or not isinstance(y, Size):
        return None
    for size, mask in ((x, y), (y, x)):
        if mask.is_constant:
            low = mask.value + 1 if mask.value >= 0 else -mask.value
            if low & (low - 1) == 0:
                return size % low if mask.value >= 0 else size - size % low
    return None


def _shifted(direction: str) -> Callable[[GraphBuilder, Any, Any], Any]:
    def shift(b: GraphBuilder, x: Any, y: Any) -> Any:
        if not (isinstance(x, Size) and isinstance(y, Size) and y.is_constant and 0 <= y.value < _SHIFTED_BITS):
            return None
        return x * 2**y.value if direction == "LEFT" else x // 2**y.value if b.prove(x.ge(0)) is True else None

    return shift


def _compared(op: str) -> Callable[[GraphBuilder, Any, Any], Any]:
    def compare(b: GraphBuilder, x: Any, y: Any) -> Any:
        if not isinstance(x, Size):
            return None if isinstance(x, Relation) or isinstance(y, Relation) else bool(_PYTHON[op](x, y))
        relation = {"==": x.eq, "!=": x.ne, "<": x.lt, "<=": x.le, ">": x.gt, ">=": x.ge}[op](y)
        proved = b.prove(relation)
        return relation if proved is None else proved

    return compare


_PYTHON: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
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


def _either(b: GraphBuilder, x: Any, y: Any) -> Any:
    if isinstance(x, bool) and isinstance(y, bool):
        return x != y
    if isinstance(x, bool):
        x, y = y, x
    if isinstance(y, bool):
        return _negated(x) if y else x
    return (truth(x) + truth(y)).eq(1)


_ELEMENTWISE: Mapping[str, Callable[[GraphBuilder, Any, Any], Any]] = {
    "Add": lambda _, x, y: x + y, "Sub": lambda _, x, y: x - y, "Mul": lambda _, x, y: x * y, "Div": _truncated,
    "Sum": lambda _, x, y: x + y, "Max": _extreme(size_max, max), "Min": _extreme(size_min, min), "Equal": _compared("=="),
    "Less": _compared("<"), "LessOrEqual": _compared("<="), "Greater": _compared(">"), "GreaterOrEqual": _compared(">="),
    "And": _logical(False), "Or": _logical(True), "Xor": _either, "Pow": _power, "BitwiseAnd": _masked,
}  # fmt: skip
_TESTS = frozenset({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})


def _combined(
    b: GraphBuilder, op: str, combine: Callable[[GraphBuilder, Any, Any], Any], operands: Sequence[Known]
) -> Known | None:
    """Operands of one type combined from left to right, element by element."""
    first, *others = operands
    if any(each.numpy.kind not in "iubf" or each.numpy != first.numpy for each in operands):
        return None
    if first.numpy.kind == "f":
        return combined_floats(op, operands)
    numpy = BOOLEAN if op in _TESTS else first.numpy
    result: Known | None = first
    for other in others:
        if result is not None:
            result = mapped(partial(combine, b), numpy, as_objects(result), as_objects(other))
    return result


def _register(op: str) -> None:
    combine = _ELEMENTWISE[op]

    @folds(op)
    def fold(b: GraphBuilder, first: Known, *others: Known) -> Known | None:  # pyright: ignore[reportUnusedFunction]
        return _combined(b, op, combine, (first, *others))


for _op in _ELEMENTWISE:
    _register(_op)


@folds("Mod")
def fold_mod(b: GraphBuilder, x: Known, y: Known, *, fmod: int = 0) -> Known | None:
    return _combined(b, "Mod", _remainder if fmod else _modulo, (x, y))


@folds("BitShift")
def fold_bit_shift(b: GraphBuilder, x: Known, y: Known, *, direction: str) -> Known | None:
    return _combined(b, "BitShift", _shifted(direction), (x, y))


@folds("Clip")
def fold_clip(
    b: GraphBuilder, x: Known, min: Known | float | None = None, max: Known | float | None = None
) -> Known | None:
    """As exporters keep a size within bounds"""
    result: Known | None = x
    for op, bound in (("Max", min), ("Min", max)):
        if bound is not None and result is not None:
            limit = bound if isinstance(bound, Known) else Known(np.asarray(bound, x.numpy))
            result = _combined(b, op, _ELEMENTWISE[op], (result, limit))
    return result


@folds("Relu")
def fold_relu(b: GraphBuilder, x: Known) -> Known | None:
    return _combined(b, "Max", _ELEMENTWISE["Max"], (x, Known(np.zeros((), x.numpy)))) if x.numpy.kind == "i" else None


@folds("Sign")
def fold_sign(b: GraphBuilder, x: Known) -> Known | None:
    def sign(element: Size) -> Size:
        return b.graph.facts.simplify(size_min(size_max(element, -1), 1))

    return mapped(sign, x.numpy, as_objects(x)) if x.numpy.kind in "iu" else None


@folds("Neg")
def fold_neg(b: GraphBuilder, x: Known) -> Known | None:
    return mapped(operator.neg, x.numpy, as_objects(x)) if x.numpy.kind == "i" else None


@folds("Abs")
def fold_abs(b: GraphBuilder, x: Known) -> Known | None:
    if x.numpy.kind != "i":
        return None

    def magnitude(element: Size) -> Size | None:
        is_positive = b.prove(element.ge(0))
        return None if is_positive is None else element if is_positive else -element

    return mapped(magnitude, x.numpy, as_objects(x))


@folds("Not")
def fold_not(b: GraphBuilder, x: Known) -> Known | None:
    return mapped(_negated, BOOLEAN, as_objects(x))


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
    return mapped(choose, on_true.numpy, *map(as_objects, (condition, on_true, on_false)))


@folds("Cast")
def fold_cast(b: GraphBuilder, x: Known, *, to: int, saturate: int = 1, round_mode: str = "up") -> Known | None:
    return _cast(b, x, numpy_of_code(to))


@folds("CastLike")
def fold_cast_like(
    b: GraphBuilder, x: Known, like: Known, *, saturate: int = 1, round_mode: str = "up"
) -> Known | None:
    return _cast(b, x, like.numpy)


def _cast(b: GraphBuilder, x: Known, target: np.dtype[np.generic]) -> Known | None:
    if x.numpy.kind in "iu" and target.kind in "iu":
        return known_array(as_objects(x), target)
    if x.is_literal:
        if x.numpy.kind not in "iubf" or target.kind not in "iubf":
            return None
        with np.errstate(all="ignore"):
            return Known(x.elements.astype(target))
    if x.numpy.kind == "b" and target.kind in "iu":
        return mapped(_truth, target, as_objects(x))
    if x.numpy.kind in "iu" and target.kind == "b":
        return mapped(partial(_is_nonzero, b), BOOLEAN, as_objects(x))
    return cast_fractions(b, x, target) if x.numpy.kind in "if" and target.kind in "if" else None


def _is_nonzero(b: GraphBuilder, element: Size) -> Relation | bool:
    return _compared("!=")(b, element, Size.const(0))


def _truth(element: Relation | bool) -> Size:
    return Size.const(int(element)) if isinstance(element, bool) else truth(element)
