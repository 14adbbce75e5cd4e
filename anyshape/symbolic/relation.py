"""Relations between sizes: `==`, `!=`, `<=`, `<`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anyshape.symbolic.errors import SizeNameError, SizeTypeError

if TYPE_CHECKING:
    from anyshape.symbolic.expr import Size, SizeLike

RelationOp = Literal["==", "!=", "<=", "<"]
RELATION_OPS: tuple[RelationOp, ...] = ("==", "!=", "<=", "<")


@dataclass(frozen=True, slots=True)
class Relation:
    """`lhs op rhs` over the integers. Equality and hash are structural; an int on one side becomes a constant.

    Raises:
        SizeNameError: an unknown `op`.
        SizeTypeError: no side is a size.
    """

    lhs: Size
    op: RelationOp
    rhs: Size

    def __init__(self, lhs: SizeLike, op: RelationOp, rhs: SizeLike) -> None:
        if op not in RELATION_OPS:
            ops = ", ".join(RELATION_OPS)
            raise SizeNameError(f"relation: op is {op!r}, expected one of {ops} (for > swap the sides)")
        if isinstance(lhs, int):
            if isinstance(rhs, int):
                raise SizeTypeError(f"relation: {lhs} {op} {rhs} has no size; wrap one side with Size.const")
            lhs = type(rhs).of(lhs)
        object.__setattr__(self, "lhs", lhs)
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "rhs", type(lhs).of(rhs))

    def __str__(self) -> str:
        return f"{self.lhs} {self.op} {self.rhs}"

    @property
    def symbols(self) -> frozenset[str]:
        return self.lhs.symbols | self.rhs.symbols

    def evaluate(self, env: Mapping[str, int]) -> bool:
        """Whether it holds when each symbol has its value in `env`; raises what `Size.evaluate` raises."""
        lhs, rhs = self.lhs.evaluate(env), self.rhs.evaluate(env)
        match self.op:
            case "==":
                return lhs == rhs
            case "!=":
                return lhs != rhs
            case "<=":
                return lhs <= rhs
            case "<":
                return lhs < rhs

    def negate(self) -> Relation:
        """The relation that holds exactly where this one does not."""
        match self.op:
            case "==":  # not (a == b) -> a != b
                return Relation(self.lhs, "!=", self.rhs)
            case "!=":  # not (a != b) -> a == b
                return Relation(self.lhs, "==", self.rhs)
            case "<=":  # not (a <= b) -> b < a
                return Relation(self.rhs, "<", self.lhs)
            case "<":  # not (a < b) -> b <= a
                return Relation(self.rhs, "<=", self.lhs)

    def substitute(self, env: Mapping[str, SizeLike]) -> Relation:
        """Simultaneous substitution on both sides."""
        return Relation(self.lhs.substitute(env), self.op, self.rhs.substitute(env))
