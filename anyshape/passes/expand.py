"""`expand`: composites (softmax, layer norm, mean, …) in terms of simpler ops, until none is left."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import DhloOp
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts


@dataclass(frozen=True)
class ExpandPass(RewritePass):
    """Replaces every op that has an expansion and no kernel plan of its own."""

    name = "expand"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return expand_op


def is_composite(op: DhloOp) -> bool:
    """Whether the op is computed by its expansion."""
    return not op.has_plan and type(op).expand is not DhloOp.expand


def expand_op(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """The op's results by simpler ops, None where it is no composite."""
    return Rewritten("expand", op.expand(rewriter)) if is_composite(op) else None
