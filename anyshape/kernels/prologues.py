"""The rows of a product's left factor, as the prologue of a `tile.contract`: planned like a memory-bound group of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects import tile
from anyshape.dialects.dhlo.fusion import YieldOp
from anyshape.dialects.dhlo.movement import delinearise, linearise
from anyshape.dialects.sizes import sizes_of
from anyshape.dialects.tile import ContractOp, LanesOp, LoopOp, StoreOp
from anyshape.fusion.layout import Matrices, axes_of_extents
from anyshape.kernels.collapse import Axis, Collapsed, collapse
from anyshape.kernels.loops import carried_sites, drop_unwritten, reduce_row, reductions_of
from anyshape.kernels.points import At, PlanPoints
from anyshape.symbolic import Size


@dataclass(frozen=True)
class Rows:
    """How the rows are computed: a block of their own, whose arguments are the group's `arguments`.

    Args:
        sites: the error site of ops of the block that check indices.
    """

    collapsed: Collapsed
    arguments: tuple[SSAValue, ...]
    sites: Mapping[Operation, int]


def rows_of(block: Block, value: SSAValue, matrices: Matrices, sites: Mapping[Operation, int]) -> Rows:
    """What computes `value`, the left factor of a product, out of a group's block.

    Raises ValueError where the axes of `value` are not those of (batch…, m, k) in order.
    """
    needed = operations_above(value)
    arguments = list(
        dict.fromkeys(
            operand for op in block.ops if op in needed for operand in op.operands if isinstance(operand.owner, Block)
        )
    )
    copy = Block(arg_types=[argument.type for argument in arguments])
    inner: dict[SSAValue, SSAValue] = dict(zip(arguments, copy.args, strict=True))
    copied: dict[Operation, int] = {}
    for op in block.ops:
        if op in needed:
            clone = op.clone(inner)
            copy.add_op(clone)
            inner.update(zip(op.results, clone.results, strict=True))
            if op in sites:
                copied[clone] = sites[op]
    result = inner[value]
    copy.add_op(YieldOp(result))
    runs = axes_of_extents(sizes_of(value.type), (*matrices.batch, matrices.m, matrices.k))
    apart: dict[Axis, int] = {(result, axis): label for label, run in enumerate(runs, 1) for axis in run}
    collapsed = collapse(copy, apart)
    return Rows(collapsed, tuple(arguments), carried_sites(copied, copy, collapsed.block))


def operations_above(*values: SSAValue) -> set[Operation]:
    """Every op that values are computed by."""
    found: set[Operation] = set()
    work = [value.owner for value in values]
    while work:
        op = work.pop()
        if isinstance(op, Operation) and op not in found:
            found.add(op)
            work.extend(value.owner for value in op.operands)
    return found


def fill_prologue(contract: ContractOp, rows: Rows, buffers: Sequence[SSAValue], matrices: Matrices) -> None:
    """Build the region: a row of the left factor at the batch indices and i, stored to the product's rows.

    Args:
        buffers: the kernel's buffer of each argument of the rows.
    """
    assert contract.prologue is not None
    block = contract.prologue.block
    (value,) = rows.collapsed.results
    sizes = sizes_of(value.type)
    extents = (*matrices.batch, matrices.m, matrices.k)
    *outer, along = axes_of_extents(sizes, extents)
    points = PlanPoints(dict(zip(rows.collapsed.block.args, buffers, strict=True)), rows.sites)
    with points.scope(block):
        row: list[SSAValue] = []
        rest = tuple(sizes[axis] for axis in along)
        for index, run in zip(block.args, outer, strict=True):
            row.extend(delinearise(points, index, [sizes[axis] for axis in run]) if run else [])
        if reductions_of(rows.collapsed):
            reduce_row(points, rows.collapsed, tuple(row), rest)
        _store_row(points, contract, value, tuple(row), rest)
        drop_unwritten(points)


def _store_row(
    points: PlanPoints, contract: ContractOp, value: SSAValue, at: At, extents: Sequence[Size], inner: At = ()
) -> None:
    """The axes of a row, the last in lanes; the element stored is number k of the row. `inner`: indices of the axes that are open."""
    if len(inner) == len(extents):
        assert contract.prologue is not None
        k = linearise(points, inner, extents) if inner else points.size(0)
        element = points.evaluate(value, points.with_ones(value, (*at, *inner)))
        points.append(StoreOp(element, contract.lhs, [*contract.prologue.block.args, k]))
        return
    is_last = len(inner) == len(extents) - 1
    axis = (LanesOp if is_last else LoopOp)(extents[len(inner)])
    points.append(axis)
    with points.scope(axis.body.block):
        _store_row(points, contract, value, at, extents, (*inner, axis.index))
        points.append(tile.YieldOp())


__all__ = ["Rows", "fill_prologue", "operations_above", "rows_of"]
