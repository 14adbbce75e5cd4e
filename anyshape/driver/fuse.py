"""`fuse`: fusion as a pass on text; the compiler itself runs its steps one by one, to report on them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from anyshape.fusion import copy_shared_results, decide_fusion, outline_groups
from anyshape.passes.worklist import functions_of


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Decide which ops become one kernel, and outline each group into a `dhlo.fusion`. Composites must have been expanded."""

    name = "fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions_of(op):
            outline_groups(func, decide_fusion(func))
            copy_shared_results(func)
