"""Reductions: in which type they are accumulated, from which identity, combined by which function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type, Float32Type, IntegerType
from xdsl.ir import Attribute

from anyshape.support.errors import CodegenError
from anyshape.targets.triton.arithmetic import extreme
from anyshape.targets.triton.syntax import Number, binary, call, jit_function, name

_INFINITY = float("inf")


def _sum(a: ast.expr, b: ast.expr) -> ast.expr:
    return binary("+", a, b)


def _product(a: ast.expr, b: ast.expr) -> ast.expr:
    return binary("*", a, b)


def _maximum(a: ast.expr, b: ast.expr) -> ast.expr:
    return extreme("tl.maximum", a, b)


def _minimum(a: ast.expr, b: ast.expr) -> ast.expr:
    return extreme("tl.minimum", a, b)


def _integer_maximum(a: ast.expr, b: ast.expr) -> ast.expr:
    return call("tl.maximum", a, b)


def _integer_minimum(a: ast.expr, b: ast.expr) -> ast.expr:
    return call("tl.minimum", a, b)


def _and(a: ast.expr, b: ast.expr) -> ast.expr:
    return binary("&", a, b)


def _or(a: ast.expr, b: ast.expr) -> ast.expr:
    return binary("|", a, b)


_COMBINERS: dict[str, Callable[[ast.expr, ast.expr], ast.expr]] = {
    "add": _sum,
    "multiply": _product,
    "maximum": _maximum,
    "minimum": _minimum,
    "integer_maximum": _integer_maximum,
    "integer_minimum": _integer_minimum,
    "bit_and": _and,
    "bit_or": _or,
}
_FLOAT: dict[str, tuple[str, float]] = {
    "sum": ("add", 0.0),
    "prod": ("multiply", 1.0),
    "max": ("maximum", -_INFINITY),
    "min": ("minimum", _INFINITY),
}
_BOOL: dict[str, tuple[str, int]] = {
    "sum": ("bit_or", 0),
    "max": ("bit_or", 0),
    "or": ("bit_or", 0),
    "prod": ("bit_and", 1),
    "min": ("bit_and", 1),
    "and": ("bit_and", 1),
}


@dataclass(frozen=True)
class Reduction:
    """`combiner`: the name of a function of `combiner_function`; `accumulator`: the type in which it runs."""

    combiner: str
    identity: Number
    accumulator: Attribute


def reduction_of(kind: str, element: Attribute) -> Reduction:
    """How to reduce elements by one of `tile.KINDS`.

    f16 and bf16 are accumulated in f32, since a sum is rounded once; i1 in i32, since Triton exchanges no bits between lanes.
    """
    if isinstance(element, AnyFloat) and kind in _FLOAT:
        narrow = isinstance(element, Float16Type | BFloat16Type)
        return Reduction(*_FLOAT[kind], Float32Type() if narrow else element)
    if isinstance(element, IntegerType):
        integer_type = IntegerType(element.bitwidth)
        if element.bitwidth == 1 and kind in _BOOL:
            return Reduction(*_BOOL[kind], IntegerType(32))
        highest = (1 << (element.bitwidth - 1)) - 1
        integer: dict[str, tuple[str, int]] = {
            "sum": ("add", 0),
            "prod": ("multiply", 1),
            "max": ("integer_maximum", -highest - 1),
            "min": ("integer_minimum", highest),
            "and": ("bit_and", -1),
            "or": ("bit_or", 0),
        }
        if kind in integer:  # signless integers are signed in Triton: umax and umin are not among them
            return Reduction(*integer[kind], integer_type)
    raise CodegenError("a reduction does not fit its elements", got=f"{kind} of {element}")


def combiner_function(combiner: str) -> ast.stmt:
    """`def combiner(a, b)`, which `tl.reduce` and accumulation both call."""
    result = _COMBINERS[combiner](name("a"), name("b"))
    return jit_function(combiner, [("a", None), ("b", None)], [ast.Return(result)])


__all__ = ["Reduction", "combiner_function", "reduction_of"]
