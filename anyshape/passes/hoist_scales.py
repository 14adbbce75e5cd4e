"""`hoist-scales`: the scales of a weight's columns move behind the product, which then takes the weight in the few bits it is stored in;
those of a table's rows move behind their choice."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Constant,
    Convert,
    DhloOp,
    DotGeneral,
    Gather,
    Multiply,
    Reshape,
    Weight,
)
from anyshape.dialects.dtypes import F32
from anyshape.passes.canonicalise_products import narrow_weight
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts, Size

ONE = Size.const(1)


@dataclass(frozen=True)
class HoistScalesPass(RewritePass):
    """lhs · (convert(weight) · scale)  ->  (lhs · convert(weight)) · scale, where the scale does not vary along the axes that are summed.

    For f32 products with weights of 16 bits or signed bytes alone: others are folded into one weight. And rows of a table are chosen
    before they are scaled: rows(convert(weight) · scale)  ->  convert(rows(weight)) · rows(scale).
    """

    name = "hoist-scales"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return hoist_scale


def hoist_scale(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """One step of the pass for one op."""
    if isinstance(op, Gather):
        return _scale_rows(op, rewriter)
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


def _scale_rows(op: Gather, builder: PatternRewriter) -> Rewritten | None:
    """rows(convert(weight) · scale) -> convert(rows(weight)) · rows(scale); None where a window is not one row and all that is in it."""
    scaled, axes = op.operands[0].owner, op.integers("start_index_map")
    if not isinstance(scaled, Multiply) or len(axes) != 1 or axes != op.integers("collapsed_slice_dims"):
        return None
    if op.integers("operand_batching_dims") or len(op.integers("offset_dims")) != len(op.operand_sizes()) - 1:
        return None
    whole = zip(op.size_list("slice_sizes"), op.operand_sizes(), strict=True)
    if any(window != size for axis, (window, size) in enumerate(whole) if axis not in axes):
        return None
    for weight, scale in (scaled.operands, reversed(scaled.operands)):
        stored = weight.owner
        if not isinstance(stored, Convert) or not isinstance(stored.operands[0].owner, Weight):
            continue
        factor = _of_rows(op, scale, axes[0], builder)
        if factor is not None:
            rows = Gather.emit(builder, stored.operands[0], op.operands[1], **op.attribute_values)
            value = Convert.emit(builder, rows, dtype=op.result_dtype)
            return Rewritten("rows of a scaled weight", (Multiply.emit(builder, value, factor),))
    return None


def _of_rows(op: Gather, scale: SSAValue, row: int, builder: Builder) -> SSAValue | None:
    """A scale of a table's elements as one of the rows that `op` chooses along axis `row`."""
    source = scale.owner
    if isinstance(source, Constant):
        return Constant.emit(builder, value=source.attribute("value"), dtype=op.result_dtype, sizes=op.result_sizes)
    if not isinstance(source, BroadcastInDim):
        return None
    offsets = op.integers("offset_dims")
    pairs = zip(source.operand_sizes(), source.integers("dimensions"), strict=True)
    kept = [(size, axis) for size, axis in pairs if size != ONE]
    value = source.operands[0]
    if len(kept) != len(source.operand_sizes()):
        value = Reshape.emit(builder, value, sizes=tuple(size for size, _ in kept))
    within = [axis for _, axis in kept if axis != row]
    dimensions = [offsets[axis - (axis > row)] for axis in within]
    if len(within) < len(kept):
        batch = [axis for axis in range(len(op.result_sizes)) if axis not in offsets]
        place = [axis for _, axis in kept].index(row)
        value = Gather.emit(
            builder, value, op.operands[1],
            offset_dims=tuple(range(len(batch), len(batch) + len(within))), collapsed_slice_dims=(place,),
            start_index_map=(place,), index_vector_dim=op.integer("index_vector_dim"),
            slice_sizes=tuple(ONE if axis == row else size for size, axis in kept),
        )  # fmt: skip
        dimensions = [*batch, *dimensions]
    if dimensions != sorted(dimensions):
        return None
    return BroadcastInDim.emit(builder, value, dimensions=tuple(dimensions), sizes=op.result_sizes)


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
