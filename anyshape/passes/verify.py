"""`verify`: check the invariants of a graph; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from anyshape.dialects.dhlo.verify import verify_graph


@dataclass(frozen=True)
class VerifyPass(ModulePass):
    """Raises VerifyError for the first invariant that does not hold; `dialects/dhlo/verify.py` lists them."""

    name = "verify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        verify_graph(op)
