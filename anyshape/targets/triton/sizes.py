"""Size expressions as Triton expressions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from anyshape.symbolic import Size
from anyshape.targets.triton.syntax import binary, call, name, number


@dataclass(frozen=True)
class SizeSyntax:
    """The algebra of Triton's integers; symbols are the kernel's arguments of the same name.

    Triton's `//` and `%` round to zero, as C's do, so that `Size`'s, which round down, are written with the remainder
    r = ((a % b) + b) % b, which has the divisor's sign.
    """

    def constant(self, value: int, /) -> ast.expr:
        return number(value)

    def symbol(self, name_: str, /) -> ast.expr:
        return name(name_)

    def add(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return binary("+", lhs, rhs)

    def mul(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return binary("*", lhs, rhs)

    def floordiv(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return binary("//", binary("-", lhs, self.mod(lhs, rhs)), rhs)

    def mod(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return binary("%", binary("+", binary("%", lhs, rhs), rhs), rhs)

    def min(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return call("tl.minimum", lhs, rhs)

    def max(self, lhs: ast.expr, rhs: ast.expr, /) -> ast.expr:
        return call("tl.maximum", lhs, rhs)


def size_expression(size: Size) -> ast.expr:
    return size.fold(SizeSyntax())


__all__ = ["SizeSyntax", "size_expression"]
