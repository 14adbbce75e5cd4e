"""`sink-reshapes`: a reshape moves below the op that reads it, so that the op fuses with what comes before.

Elementwise ops and products take the sizes of what was reshaped: a product of tokens that were flattened is one of batches of tokens,
as is what it is added to afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import BroadcastInDim, Constant, DhloOp, DotGeneral, Elementwise, Reshape, reshape_groups
from anyshape.dialects.sizes import sizes_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts, Size

ONE = Size.const(1)
Sizes = tuple[Size, ...]


@dataclass(frozen=True)
class SinkReshapesPass(RewritePass):
    """f(reshape(x), reshape(y), …) -> reshape(f(x, y, …)), and broadcasts take in the reshapes before them.

    reshape(x) · y -> reshape(x · y) where the reshape merges axes that are not summed over.
    """

    name = "sink-reshapes"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return rewrite_reshape


def rewrite_reshape(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """One step of the pass for one op."""
    if isinstance(op, BroadcastInDim):
        return _absorb_into_broadcast(op, rewriter)
    if isinstance(op, DotGeneral):
        return _sink_below_product(op, rewriter)
    return _sink(op, rewriter) if isinstance(op, Elementwise) else None


def moves_axes(op: object) -> bool:
    """Whether the op is a reshape that does more than add or remove axes of size 1."""
    return isinstance(op, Reshape) and not op.only_ones_differ


def _sink(op: Elementwise, rewriter: PatternRewriter) -> Rewritten | None:
    """f(reshape(x), reshape(y), constant, broadcast(z)) -> reshape(f(x, y, constant, broadcast(z))), x and y of equal sizes."""
    sources = {sizes_of(owner.operands[0].type) for value in op.operands if isinstance(owner := value.owner, Reshape)}
    if len(sources) != 1 or not any(moves_axes(value.owner) for value in op.operands):
        return None
    (source,) = sources
    if not all(_can_take(value, source) for value in op.operands):
        return None
    operands = [_taken(rewriter, value, source) for value in op.operands]
    inner = rewriter.insert(type(op).build_from(*operands, **op.attribute_values))
    return Rewritten("f(reshape(x)) -> reshape(f(x))", (Reshape.emit(rewriter, inner.result, sizes=op.result_sizes),))


def _sink_below_product(op: DotGeneral, rewriter: PatternRewriter) -> Rewritten | None:
    """reshape(x) · y -> reshape(x · y), the free axes of x as they were; its other axes stay as the reshape made them."""
    inner = op.operands[0].owner
    if not isinstance(inner, Reshape):
        return None
    free = op.free_axes(0)
    parts: dict[int, Sizes] = {axis: (size,) for axis, size in enumerate(inner.result_sizes)}
    for sources, targets in reshape_groups(inner.operand_sizes(), inner.result_sizes):
        split = tuple(size for axis in sources if (size := inner.operand_sizes()[axis]) != ONE)
        if len(targets) == 1 and targets[0] in free and len(split) > 1:
            parts[targets[0]] = split
    if all(len(part) == 1 for part in parts.values()):
        return None
    first = {axis: sum(len(parts[before]) for before in range(axis)) for axis in parts}
    lhs = Reshape.emit(rewriter, inner.operands[0], sizes=tuple(size for part in parts.values() for size in part))
    product = DotGeneral.emit(
        rewriter, lhs, op.operands[1],
        lhs_batch=tuple(first[axis] for axis in op.attribute("lhs_batch")), rhs_batch=op.attribute("rhs_batch"),
        lhs_contract=tuple(first[axis] for axis in op.attribute("lhs_contract")),
        rhs_contract=op.attribute("rhs_contract"), dtype=op.attribute("dtype"),
    )  # fmt: skip
    return Rewritten("reshape(x) · y -> reshape(x · y)", (Reshape.emit(rewriter, product, sizes=op.result_sizes),))


def _can_take(value: SSAValue, source: Sizes) -> bool:
    """Whether `value` is as easily had with the sizes `source`, which hold the same elements in the same order."""
    match value.owner:
        case Reshape() | Constant():
            return True
        case BroadcastInDim() as broadcast:
            return _broadcast_axes(broadcast, source) is not None
        case _:
            return False


def _taken(builder: Builder, value: SSAValue, source: Sizes) -> SSAValue:
    owner = value.owner
    if isinstance(owner, Constant):
        return Constant.emit(builder, value=owner.attribute("value"), dtype=owner.result_dtype, sizes=source)
    assert isinstance(owner, Reshape | BroadcastInDim)
    if isinstance(owner, Reshape):
        return owner.operands[0]
    axes = _broadcast_axes(owner, source)
    assert axes is not None
    return BroadcastInDim.emit(builder, owner.operands[0], dimensions=axes, sizes=source)


def _broadcast_axes(op: BroadcastInDim, source: Sizes) -> tuple[int, ...] | None:
    """The axes of `source` along which the operand of `op` varies, where each is one whole axis there too."""
    same = {
        targets[0]: axes[0]
        for axes, targets in reshape_groups(source, op.result_sizes)
        if len(axes) == 1 and len(targets) == 1 and source[axes[0]] == op.result_sizes[targets[0]]
    }
    found = [same.get(axis) for axis in op.attribute("dimensions")]
    axes = tuple(axis for axis in found if axis is not None)
    return axes if len(axes) == len(found) else None


def _absorb_into_broadcast(op: BroadcastInDim, rewriter: PatternRewriter) -> Rewritten | None:
    """broadcast(reshape(x)) -> broadcast(x), where the reshape only inserts axes of size 1."""
    inner = op.operands[0].owner
    if not isinstance(inner, Reshape):
        return None
    kept = _kept_axes(inner.operand_sizes(), inner.result_sizes)
    if kept is None:
        return None
    dimensions = tuple(op.attribute("dimensions")[axis] for axis in kept)
    value = BroadcastInDim.emit(rewriter, inner.operands[0], dimensions=dimensions, sizes=op.result_sizes)
    return Rewritten("broadcast(reshape that inserts ones (x)) -> broadcast(x)", (value,))


def _kept_axes(sizes: Sizes, longer: Sizes) -> list[int] | None:
    """Where each axis of `sizes` stands in `longer`, which has further axes of size 1; None where it has others."""
    kept: list[int] = []
    for axis, size in enumerate(longer):
        if len(kept) < len(sizes) and size == sizes[len(kept)]:
            kept.append(axis)
        elif size != ONE:
            return None
    return kept if len(kept) == len(sizes) else None
