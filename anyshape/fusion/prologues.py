"""Kernels whose result only a product reads, as its left factor, become the product's prologue.

A product multiplies rows of its left factor, a block of them at a time. Where a kernel computes those rows one by one, from
themselves (elementwise ops, reductions along the row), the product can compute a block's rows itself, just before it
multiplies them: a launch less, and the rows never leave the cache. The price is that rows are computed again by
every thread that multiplies them with other columns; whether that pays is asked of `Judge`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import BroadcastInDim, DotGeneral, QuantisedDot, Reshape, Slice, Transpose
from anyshape.dialects.sizes import numel, row_major_strides, sizes_of
from anyshape.fusion.groups import MAX_INPUTS, Decision, Edge, Group
from anyshape.fusion.layout import ONE, ZERO, Matrices, axes_of_extents, layout_of, product_matrices_of
from anyshape.fusion.roles import domain_of


@dataclass(frozen=True)
class Proposal:
    """A kernel that may become the prologue of a product.

    Args:
        dot: the product.
        rows: the value that it reads as its left factor.
        maker: the group that computes it, and nothing else.
        matrices: the product's sizes; row (g…, i) of the left factor is k neighbours of `rows`.
    """

    dot: DotGeneral | QuantisedDot
    rows: SSAValue
    maker: Group
    matrices: Matrices


Judge = Callable[[Proposal], str | None]
"""None when a prologue pays, else the reason why not."""


def fuse_prologues(decision: Decision, why_not_worth: Judge) -> None:
    """Make prologues of the groups of a decided graph that can be and pay; the others keep an edge with the reason."""
    asked: dict[Operation, list[Group]] = {}
    reasons: list[Edge] = []
    for product in list(decision.groups):
        if not isinstance(product.anchor, DotGeneral | QuantisedDot):
            continue
        rows = layout_of(product.anchor.operands[0], product.ops).root
        maker = _maker_of(rows, decision)
        if maker is None or not isinstance(rows.owner, Operation):
            continue
        found = _propose(product.anchor, rows, maker, product)
        reason = found if isinstance(found, str) else why_not_worth(found)
        asked.setdefault(rows.owner, []).append(product)
        if reason is None:
            product.upstream.update(maker.ops)
            decision.absorb(maker, product)
        else:
            reasons.append(Edge(rows.owner, product.anchor, reason))
    before = [
        edge for edge in decision.edges if not any(edge.consumer in each.ops for each in asked.get(edge.producer, ()))
    ]
    decision.edges = before + reasons


def _maker_of(rows: SSAValue, decision: Decision) -> Group | None:
    """The one group that computes a value, None for values that no loop kernel computes."""
    homes = decision.homes_of(rows.owner) if isinstance(rows.owner, Operation) else []
    makers = [group for group in homes if rows in group.outputs]
    if len(makers) != 1 or makers[0].kind not in ("loop", "reduce") or makers[0].is_update:
        return None
    return makers[0]


def _propose(
    dot: DotGeneral | QuantisedDot, rows: SSAValue, maker: Group, product: Group
) -> Proposal | str:  # fmt: skip
    """The proposal, or the reason why the product cannot compute its rows."""
    if isinstance(rows.owner, Transpose | BroadcastInDim | Slice | Reshape):
        return "it is a copy in another order"
    if maker.outputs != [rows]:
        return "its kernel has other results too"
    if not _is_read_once(dot.operands[0], rows):
        return "it has other users beside the product"
    if len(maker.inputs | product.inputs) > MAX_INPUTS:
        return f"the kernel would read more than {MAX_INPUTS} buffers"
    matrices = product_matrices_of(dot, product.ops)
    extents = (*matrices.batch, matrices.m, matrices.k)
    strides = zip(extents, matrices.lhs, row_major_strides(extents), strict=True)
    is_dense = all(extent == ONE or stride == dense for extent, stride, dense in strides)
    if not is_dense or layout_of(dot.operands[0], product.ops).offset != ZERO:
        return "the product reads it in another order than that in which it is computed"
    try:
        *_, along = axes_of_extents(sizes_of(rows.type), extents)
    except ValueError as error:
        return f"its {error}"
    if maker.space is not None:
        reduced = tuple(maker.space.domain[axis] for axis in maker.space.axes)
        is_row = maker.space.innermost and len(reduced) == len(along) and numel(reduced) == matrices.k
        if domain_of(rows) != maker.space.domain or not is_row:
            return "its reduction is not along the row that the product multiplies"
    return Proposal(dot, rows, maker, matrices)


def _is_read_once(value: SSAValue, rows: SSAValue) -> bool:
    """Whether each value from the product's left operand up to `rows` has one reader."""
    while value.has_one_use():
        if value is rows:
            return True
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
    return False


__all__ = ["Judge", "Proposal", "fuse_prologues"]
