"""Makers of Python syntax: short names for the nodes that a Triton kernel consists of."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import TypeAlias

Number: TypeAlias = bool | int | float

_BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
    "<<": ast.LShift,
    ">>": ast.RShift,
}
_COMPARE: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}


def name(identifier: str) -> ast.expr:
    return ast.Name(identifier, ast.Load())


def dotted(path: str) -> ast.expr:
    """`a.b.c`."""
    first, *rest = path.split(".")
    node = name(first)
    for part in rest:
        node = ast.Attribute(node, part, ast.Load())
    return node


def number(value: Number) -> ast.expr:
    """A literal; `float("inf")` and its like where Python has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return call("float", ast.Constant(str(value)))
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def call(function: str, *arguments: ast.expr, **keywords: ast.expr) -> ast.expr:
    given = [ast.keyword(key, value) for key, value in keywords.items()]
    return ast.Call(dotted(function), list(arguments), given)


def binary(operator: str, lhs: ast.expr, rhs: ast.expr) -> ast.expr:
    return ast.BinOp(lhs, _BINARY[operator](), rhs)


def compare(operator: str, lhs: ast.expr, rhs: ast.expr) -> ast.expr:
    return ast.Compare(lhs, [_COMPARE[operator]()], [rhs])


def negated(value: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.USub(), value)


def conjunction(conditions: Sequence[ast.expr]) -> ast.expr:
    """`a & b & …` of one condition at least."""
    first, *others = conditions
    for other in others:
        first = binary("&", first, other)
    return first


def tuple_of(*elements: ast.expr) -> ast.expr:
    return ast.Tuple(list(elements), ast.Load())


def along(value: ast.expr, axis: int, rank: int) -> ast.expr:
    """A vector as the axis `axis` of a block of that rank: `v`, `v[:, None]`, `v[None, :]`."""
    if rank == 1:
        return value
    places: list[ast.expr] = [ast.Slice() if place == axis else ast.Constant(None) for place in range(rank)]
    return ast.Subscript(value, tuple_of(*places), ast.Load())


def assign(target: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(target, ast.Store())], value)


def statement(value: ast.expr) -> ast.stmt:
    return ast.Expr(value)


def for_range(variable: str, bounds: Sequence[ast.expr], body: Sequence[ast.stmt]) -> ast.stmt:
    """`for variable in range(*bounds)`; an empty body passes."""
    return ast.For(ast.Name(variable, ast.Store()), call("range", *bounds), list(body) or [ast.Pass()], [])


def jit_function(
    identifier: str, parameters: Sequence[tuple[str, ast.expr | None]], body: Sequence[ast.stmt]
) -> ast.stmt:
    """A `@triton.jit` function of parameters with or without annotation."""
    arguments = ast.arguments(
        [], [ast.arg(each, annotation) for each, annotation in parameters], None, [], [], None, []
    )
    return ast.FunctionDef(identifier, arguments, list(body), [dotted("triton.jit")], None)


def module(body: Sequence[ast.stmt]) -> ast.Module:
    """A module that imports Triton as its users do."""
    imports: list[ast.stmt] = [
        ast.Import([ast.alias("triton", None)]),
        ast.Import([ast.alias("triton.language", "tl")]),
    ]
    return ast.fix_missing_locations(ast.Module([*imports, *body], []))
