"""Simplifications as laws: each is a method of the op that it simplifies, with its text and an example in which it fires.

A law is directional and never makes the program worse: its result has no more ops to run than before. It holds for every size,
0 and 1 included, and for every value, NaN and −0.0 included; where it does not for values that no model means, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.builder import Builder
from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from anyshape.dialects.dhlo.base import DhloOp
    from anyshape.dialects.dhlo.graph import FunctionBuilder
    from anyshape.symbolic import Facts

Simplified: TypeAlias = "SSAValue | Sequence[SSAValue] | None"
LawMethod: TypeAlias = "Callable[[Any, Builder, Facts], Simplified]"
Example: TypeAlias = "Callable[[FunctionBuilder], SSAValue]"

_MARK = "__law__"


@dataclass(frozen=True)
class Law:
    """`text` states the law, `apply(op, builder, facts)` is its left to right direction, `example` builds a call to which it applies.

    `apply` returns None where the law does not apply; else the values that replace the op's results, and ops that they need
    inserted at the builder's insertion point.
    """

    text: str
    name: str
    apply: LawMethod
    example: Example


def law(text: str, *, example: Example) -> Callable[[LawMethod], LawMethod]:
    """Mark a method `(self, builder, facts)` of an op class as one of its laws."""

    def mark(method: LawMethod) -> LawMethod:
        setattr(method, _MARK, Law(text, method.__name__, method, example))
        return method

    return mark


def laws_of_class(cls: type) -> tuple[Law, ...]:
    """The laws of a class, those of its bases last, each name once."""
    found: dict[str, Law] = {}
    for base in cls.__mro__:
        for name, member in vars(base).items():
            mark = getattr(member, _MARK, None)
            if isinstance(mark, Law) and name not in found:
                found[name] = mark
    return tuple(found.values())


def simplify_op(op: DhloOp, builder: Builder, facts: Facts) -> tuple[Law, Sequence[SSAValue]] | None:
    """The first law of the op that applies, and the values that replace the op's results; the op is left where it is."""
    for each in op.LAWS:
        replacement = each.apply(op, builder, facts)
        if replacement is not None:
            return each, (replacement,) if isinstance(replacement, SSAValue) else replacement
    return None


__all__ = ["Law", "law", "laws_of_class", "simplify_op"]
