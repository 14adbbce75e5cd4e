"""Plans of memory-bound groups: one loop nest, outer axes parallel, the last axis in lanes.

A group whose reductions all go over the innermost axis is *stitched*: a point of `parallel` is a row, each reduction is one pass of
`lanes` over it, and what several passes need is kept in a row of scratch. Any other reduction is a loop inside lanes
over the axes that stay.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import Reduce
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.dialects.tile import (
    BufferType,
    KernelOp,
    LanesOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.fusion.roles import cost_of, domain_of, reduced_axes
from anyshape.fusion.space import space_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import Collapsed, collapse
from anyshape.kernels.points import At, KeptRow, PlanPoints
from anyshape.symbolic import Size

KEEP_FROM = 3
"""A value costing this much or more (loads included) is kept in scratch between passes rather than computed again."""

SHORT_ROW = 3
"""Rows of this many points or fewer are computed side by side by every target: nothing of them is kept in memory."""


@dataclass(frozen=True)
class Shape:
    """Points of the nest: parallel axes, and the axes of a row, the last in lanes; `stitched`: rows are reduced.

    Axes of size 1 are none of the nest's: values that have some are read and written at 0 there.
    """

    parallel: tuple[Size, ...]
    row: tuple[Size, ...]
    stitched: bool


def plan_loops(group: CanonicalGroup, name: str, sites: Mapping[Operation, int]) -> tuple[KernelOp, Size]:
    """The kernel, and the number of points that a launch divides."""
    collapsed = collapse(group.block)
    return plan_collapsed(collapsed, name, group.names, carried_sites(sites, group.block, collapsed.block))


def plan_collapsed(
    collapsed: Collapsed,
    name: str,
    symbols: Sequence[str],
    sites: Mapping[Operation, int],
    results: Sequence[BufferType] | None = None,
) -> tuple[KernelOp, Size]:
    """The kernel of a collapsed group, and the number of points that a launch divides; `results` where these are not row-major."""
    kernel, points = open_kernel(collapsed, name, symbols, sites, results)
    shape = _shape_of(collapsed)
    outputs = list(zip(collapsed.results, kernel.body.block.args[len(collapsed.block.args) :], strict=True))
    if not shape.parallel and shape.row and not shape.stitched:
        lanes = LanesOp(shape.row[0])
        kernel.body.block.add_op(lanes)
        with points.scope(lanes.body.block):
            _store(points, outputs, (lanes.index,))
            points.append(YieldOp())
        return kernel, shape.row[0]
    nest = ParallelOp(shape.parallel)
    kernel.body.block.add_op(nest)
    with points.scope(nest.body.block):
        row = nest.indices
        if shape.stitched:
            _stitch(points, collapsed, row, shape, outputs)
        else:
            _map_row(points, row, shape, outputs)
    return kernel, numel(shape.parallel)


def open_kernel(
    collapsed: Collapsed,
    name: str,
    symbols: Sequence[str],
    sites: Mapping[Operation, int],
    results: Sequence[BufferType] | None = None,
) -> tuple[KernelOp, PlanPoints]:
    """An empty kernel whose buffers are the group's arguments and results, and the points to fill it with."""
    outputs = results or [_dense(value) for value in collapsed.results]
    kernel = KernelOp(name, symbols, [*map(_dense, collapsed.block.args), *outputs])
    inputs = kernel.body.block.args[: len(collapsed.block.args)]
    return kernel, PlanPoints(dict(zip(collapsed.block.args, inputs, strict=True)), sites)


def _dense(value: SSAValue) -> BufferType:
    return buffer(dtype_of(value.type).scalar, sizes_of(value.type))


def carried_sites(sites: Mapping[Operation, int], old: Block, new: Block) -> dict[Operation, int]:
    """The error sites of the ops of a block, for the copies of them in a collapsed one."""
    return {copy: sites[op] for op, copy in zip(old.ops, new.ops, strict=True) if op in sites}


def _shape_of(collapsed: Collapsed) -> Shape:
    """The nest that fits the group's outputs and reductions."""
    spaces = [space_of(op) for op in reductions_of(collapsed)]
    if spaces and all(space.innermost for space in spaces):
        rows = len(spaces[0].kept)
        return Shape(spaces[0].kept, spaces[0].domain[rows:], stitched=True)
    widest = max((domain_of(value) for value in collapsed.results), key=len)
    return Shape(widest[:-1], widest[-1:], stitched=False)


def reductions_of(collapsed: Collapsed) -> list[Reduce]:
    """The reductions of a group, but those over axes of size 1 only."""
    return [op for op in collapsed.block.ops if isinstance(op, Reduce) and reduced_axes(op)]


def _store(points: PlanPoints, outputs: Sequence[tuple[SSAValue, SSAValue]], at: At) -> None:
    """Store every output at the nest's indices `at`."""
    for value, target in outputs:
        where = points.with_ones(value, at)
        points.append(StoreOp(points.evaluate(value, where), target, where))


def _map_row(
    points: PlanPoints,
    row: tuple[SSAValue, ...],
    shape: Shape,
    outputs: Sequence[tuple[SSAValue, SSAValue]],
) -> None:
    if not shape.row:
        _store(points, outputs, row)
        return
    first, *rest = shape.row
    axis = LoopOp(first) if rest else LanesOp(first)
    points.append(axis)
    with points.scope(axis.body.block):
        _map_row(points, (*row, axis.index), Shape((), tuple(rest), shape.stitched), outputs)
        points.append(YieldOp())


def _stitch(
    points: PlanPoints,
    collapsed: Collapsed,
    row: tuple[SSAValue, ...],
    shape: Shape,
    outputs: Sequence[tuple[SSAValue, SSAValue]],
) -> None:
    """Passes over a row: one for each reduction, one that stores what is as long as the row; then the row's own values."""
    reduce_row(points, collapsed, row, shape.row)
    rank = len(row) + len(shape.row)
    long = [(value, target) for value, target in outputs if len(domain_of(value)) == rank]
    if long:
        _map_row(points, row, shape, long)
    _store(points, [pair for pair in outputs if pair not in long], row)
    drop_unwritten(points)


def reduce_row(points: PlanPoints, collapsed: Collapsed, row: At, extents: tuple[Size, ...]) -> None:
    """One pass over a row of `extents` points for each reduction; what a later pass needs again may be kept in scratch."""
    points.row = row
    rank = len(row) + len(extents)
    for value in values_to_keep(collapsed, rank) if _is_worth_keeping(extents) else []:
        scratch = ScratchOp(dtype_of(value.type).scalar, extents)
        points.append(scratch)
        points.kept[value] = KeptRow(scratch)
    for op in reductions_of(collapsed):
        points.evaluate(op.result, points.with_ones(op.result, row))


def drop_unwritten(points: PlanPoints) -> None:
    """Remove the scratch that was reserved for what no pass computed after all."""
    for kept in points.kept.values():
        if kept.written_in is None:
            kept.scratch.detach()


def _is_worth_keeping(extents: Sequence[Size]) -> bool:
    """Whether rows are of one axis, and not so short that many of them lie side by side in lanes, with nothing kept."""
    return len(extents) == 1 and extents[0].constant_or(SHORT_ROW + 1) > SHORT_ROW


def values_to_keep(collapsed: Collapsed, rank: int) -> list[SSAValue]:
    """Values as long as a row that a later pass needs again and that cost more to compute twice than to keep.

    Passes are taken in order. A value met in a later pass than the one that computed it is kept when it is dear enough, and
    what it was made of is then not needed again.
    """
    passes: list[list[SSAValue]] = [[op.operands[0]] for op in reductions_of(collapsed)]
    passes.append([value for value in collapsed.results if len(domain_of(value)) == rank])
    computed_in: dict[SSAValue, int] = {}
    kept: dict[SSAValue, None] = {}
    costs = _total_costs(collapsed, rank, kept)
    for number, roots in enumerate(passes):
        work = list(roots)
        while work:
            value = work.pop()
            owner = value.owner
            if len(domain_of(value)) != rank or isinstance(owner, Block | Reduce) or computed_in.get(value) == number:
                continue
            if value in computed_in and value not in kept and costs[value] >= KEEP_FROM:
                kept[value] = None
                costs = _total_costs(collapsed, rank, kept)
            if value not in kept:
                work.extend(owner.operands)
            computed_in[value] = number
    return list(kept)


def _total_costs(collapsed: Collapsed, rank: int, kept: Container[SSAValue]) -> dict[SSAValue, int]:
    """Operations for one element of each value of a row with all that it is made of, `KEEP_FROM` at most; a load costs 1."""
    costs: dict[SSAValue, int] = dict.fromkeys(collapsed.block.args, 1)
    for op in collapsed.block.ops:
        for result in op.results:
            outer = isinstance(op, Reduce) or len(domain_of(result)) != rank
            total = 0 if outer else cost_of(op) + sum(1 if value in kept else costs[value] for value in op.operands)
            costs[result] = min(total, KEEP_FROM)
    return costs
