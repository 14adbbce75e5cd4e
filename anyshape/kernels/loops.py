"""Plans of memory-bound groups: one loop nest, outer axes parallel, the last axis in lanes.

A group whose reductions all go over the innermost axis is *stitched*: a point of `parallel` is a row, each reduction is one pass of
`lanes` over it, and what several passes need is kept in a row of scratch. Any other reduction is a loop inside lanes
over the axes that stay.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import Pad, Reduce
from anyshape.dialects.dhlo.border import BorderPad
from anyshape.dialects.dhlo.parts import AxisPart
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


MAX_BORDER = 8
"""Places beside an operand's row that are computed point by point, at most."""
MAX_WOVEN = 4
"""Points of a last axis that are written out, at most: their vectors are woven into neighbours in registers."""
LONG_ENOUGH = 4
"""Points of the axis before it, at least."""


@dataclass(frozen=True)
class Shape:
    """Points of the nest: parallel axes, and the axes of a row, the last in lanes; `stitched`: rows are reduced.

    Axes of size 1 are none of the nest's: values that have some are read and written at 0 there.

    Args:
        woven: so many points of one more axis, the last, are written out within the lanes: as lanes of its own it would fill no vector.
        border: (before, size, behind) of a row of padded operands: lanes walk these, and what is beside is computed point by point.
    """

    parallel: tuple[Size, ...]
    row: tuple[Size, ...]
    stitched: bool
    woven: int = 0
    border: tuple[Size, Size, Size] | None = None


def plan_loops(group: CanonicalGroup, name: str, sites: Mapping[Operation, int]) -> tuple[KernelOp, Size]:
    """The kernel, and the number of points that a launch divides."""
    collapsed = collapse(group.block)
    sites = carried_sites(sites, group.block, collapsed.block)
    if group.kind == "flat":
        return _plan_flat(collapsed, name, group.names, sites)
    return plan_collapsed(collapsed, name, group.names, sites)


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
            _store_woven(points, outputs, (lanes.index,), shape.woven)
            points.append(YieldOp())
        return kernel, shape.row[0]
    nest = ParallelOp(shape.parallel)
    kernel.body.block.add_op(nest)
    with points.scope(nest.body.block):
        row = nest.indices
        if shape.stitched:
            _stitch(points, collapsed, row, shape, outputs)
        elif shape.woven:
            (extent,) = shape.row
            lanes = LanesOp(extent)
            points.append(lanes)
            with points.scope(lanes.body.block):
                _store_woven(points, outputs, (*row, lanes.index), shape.woven)
                points.append(YieldOp())
        elif shape.border is not None:
            _map_bordered(points, row, shape.border, outputs)
        else:
            _map_row(points, row, shape, outputs)
    return kernel, numel(shape.parallel)


def _plan_flat(
    collapsed: Collapsed, name: str, symbols: Sequence[str], sites: Mapping[Operation, int]
) -> tuple[KernelOp, Size]:
    """The kernel of a group whose results have the same points, all of which a launch divides: a thread has a part of a row."""
    kernel, points = open_kernel(collapsed, name, symbols, sites)
    outputs = list(zip(collapsed.results, kernel.body.block.args[len(collapsed.block.args) :], strict=True))
    nest = ParallelOp(domain_of(collapsed.results[0]))
    kernel.body.block.add_op(nest)
    with points.scope(nest.body.block):
        _store(points, outputs, nest.indices)
    return kernel, numel(nest.extents.data)


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
    domains = [domain_of(value) for value in collapsed.results]
    widest = max(domains, key=len)
    if len(widest) > 1 and all(domain == widest for domain in domains):
        *outer, before, last = widest
        woven = last.constant_or(0)
        if 0 < woven <= MAX_WOVEN and not spaces and before.constant_or(LONG_ENOUGH) >= LONG_ENOUGH:
            return Shape(tuple(outer), (before,), stitched=False, woven=woven)
    border = _border_of(collapsed, widest) if len(widest) > 1 and not spaces and set(domains) == {widest} else None
    return Shape(widest[:-1], widest[-1:], stitched=False, border=border)


def _border_of(collapsed: Collapsed, domain: Sequence[Size]) -> tuple[Size, Size, Size] | None:
    """(before, size, behind) along the last axis, where all pads of the group agree on it and add few places."""
    found: set[tuple[Size, Size, Size]] = set()
    for op in collapsed.block.ops:
        if isinstance(op, BorderPad | Pad) and op.result_sizes[-1] == domain[-1]:
            found.add((op.size_list("low")[-1], op.operand_sizes()[-1], op.size_list("high")[-1]))
    if len(found) != 1:
        return None
    (border,) = found
    amounts = [size.constant_or(-1) for size in (border[0], border[2])]
    return border if any(amounts) and all(0 <= amount <= MAX_BORDER for amount in amounts) else None


def reductions_of(collapsed: Collapsed) -> list[Reduce]:
    """The reductions of a group, but those over axes of size 1 only."""
    return [op for op in collapsed.block.ops if isinstance(op, Reduce) and reduced_axes(op)]


def _store(points: PlanPoints, outputs: Sequence[tuple[SSAValue, SSAValue]], at: At) -> None:
    """Store every output at the nest's indices `at`."""
    for value, target in outputs:
        where = points.with_ones(value, at)
        points.append(StoreOp(points.evaluate(value, where), target, where))


def _map_bordered(
    points: PlanPoints,
    row: tuple[SSAValue, ...],
    border: tuple[Size, Size, Size],
    outputs: Sequence[tuple[SSAValue, SSAValue]],
) -> None:
    """A row with a border: loops over the places before and behind, and lanes over those between, each at its own index."""
    before, size, behind = border
    for axis, start, is_inside in (
        (LoopOp(before), Size.const(0), False), (LanesOp(size), before, True), (LoopOp(behind), before + size, False)
    ):  # fmt: skip
        if axis.size == Size.const(0):
            continue
        points.append(axis)
        with points.scope(axis.body.block):
            place = points.scalars.add(axis.index, points.size(start))
            points.parts[place] = AxisPart(axis.index if is_inside else None)
            _store(points, outputs, (*row, place))
            points.append(YieldOp())


def _store_woven(points: PlanPoints, outputs: Sequence[tuple[SSAValue, SSAValue]], at: At, count: int) -> None:
    """As `_store`, at all `count` points of one more axis: first their values, so that the stores stand together."""
    if not count:
        _store(points, outputs, at)
    for value, target in outputs if count else ():
        places = [points.with_ones(value, (*at, points.size(number))) for number in range(count)]
        values = [points.evaluate(value, place) for place in places]
        for stored, place in zip(values, places, strict=True):
            points.append(StoreOp(stored, target, place))


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
