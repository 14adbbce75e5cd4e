"""`cse`: equal ops on equal operands are computed once. Weights of one name are one value."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import cse


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Common subexpression elimination; the first of equal ops stays, with its source location.

    Runs before groups are outlined: the types inside two regions may differ where their texts are equal.
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        cse(op)
