"""`hoist-scales`: the scales of a weight's columns move behind the product, which then takes the weight in the few bits it is stored in."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import BroadcastInDim, Constant, DhloOp, DotGeneral, Multiply, Reshape
from anyshape.dialects.dtypes import F32
from anyshape.passes.canonicalise_products import narrow_weight
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts, Size

ONE = Size.const(1)


@dataclass(frozen=True)
class HoistScalesPass(RewritePass):
    """lhs · (convert(weight) · scale)  ->  (lhs · convert(weight)) · scale, where the scale does not vary along the axes that are summed.

    For f32 products with weights of 16 bits or signed bytes alone: others are folded into one weight.
    """

    name = "hoist-scales"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return hoist_scale


def hoist_scale(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """One step of the pass for one op."""
    if not isinstance(op, DotGeneral) or op.operand_dtype(0) != F32 or op.result_dtype != F32:
        return None
    scaled = op.operands[1].owner
    if not isinstance(scaled, Multiply):
        return None
    for weight, scale in (scaled.operands, reversed(scaled.operands)):
        hoisted = _behind(op, scale, rewriter) if narrow_weight(weight, rewriter) is not None else None
        if hoisted is not None:
            product = DotGeneral.emit(rewriter, op.operands[0], weight, **op.attribute_values)
            return Rewritten("product of a scaled weight", (Multiply.emit(rewriter, product, hoisted),))
    return None


def _behind(op: DotGeneral, scale: SSAValue, builder: Builder) -> SSAValue | None:
    """A scale of the right-hand side's elements as one of the result's; None where it varies along a summed or batch axis."""
    source = scale.owner
    if isinstance(source, Constant):
        return Constant.emit(builder, value=source.attribute("value"), dtype=F32, sizes=op.result_sizes)
    if not isinstance(source, BroadcastInDim):
        return None
    places = {axis: len(op.result_sizes) - len(op.free_axes(1)) + i for i, axis in enumerate(op.free_axes(1))}
    kept: list[tuple[Size, int]] = []
    for size, axis in zip(source.operand_sizes(), source.integers("dimensions"), strict=True):
        if axis in places:
            kept.append((size, places[axis]))
        elif size != ONE:
            return None
    value = Reshape.emit(builder, source.operands[0], sizes=tuple(size for size, _ in kept))
    return BroadcastInDim.emit(builder, value, dimensions=tuple(axis for _, axis in kept), sizes=op.result_sizes)


__all__ = ["HoistScalesPass", "hoist_scale"]
