"""Plans of scans: one loop nest whose scanned axis is walked from its first point to its last.

Along the last axis a parallel point is a row and the axis is in lanes, which hand what they have combined to the next vector. Along any
other axis the last one is in lanes and each of these walks the scanned axis, a column, with the other axes parallel around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import Scan
from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import KernelOp, LanesOp, LoopOp, ParallelOp, StoreOp, YieldOp
from anyshape.fusion.roles import is_scan
from anyshape.fusion.space import Space, scanned_space
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import collapse
from anyshape.kernels.loops import carried_sites, open_kernel
from anyshape.kernels.points import At, PlanPoints
from anyshape.symbolic import Size


def plan_scans(group: CanonicalGroup, name: str, sites: Mapping[Operation, int]) -> tuple[KernelOp, Size]:
    """The kernel of a group whose scans all have one space, and the number of points that a launch divides."""
    collapsed = collapse(group.block)
    kernel, points = open_kernel(collapsed, name, group.names, carried_sites(sites, group.block, collapsed.block))
    space = next(scanned_space(op) for op in collapsed.block.ops if isinstance(op, Scan) and is_scan(op))
    outputs = list(zip(collapsed.results, kernel.body.block.args[len(collapsed.block.args) :], strict=True))
    (axis,), last = space.axes, len(space.domain) - 1
    outer = tuple(extent for place, extent in enumerate(space.domain) if place not in (axis, last))
    lanes = LanesOp(space.domain[last])
    if axis != last and not outer:
        kernel.body.block.add_op(lanes)
        _walk(points, space, (), lanes, outputs)
        return kernel, space.domain[last]
    nest = ParallelOp(outer)
    nest.body.block.add_op(lanes)
    kernel.body.block.add_op(nest)
    with points.scope(nest.body.block):
        _walk(points, space, nest.indices, lanes, outputs)
    return kernel, numel(outer)


def _walk(
    points: PlanPoints, space: Space, outer: At, lanes: LanesOp, outputs: Sequence[tuple[SSAValue, SSAValue]]
) -> None:
    """The body of the lanes: a loop along the scanned axis where that is another one, and a store for every result."""
    (axis,), last = space.axes, len(space.domain) - 1

    def store(at: At) -> None:
        for value, target in outputs:
            where = points.with_ones(value, at)
            points.append(StoreOp(points.evaluate(value, where), target, where))
        points.append(YieldOp())

    with points.scope(lanes.body.block):
        if axis == last:
            store((*outer, lanes.index))
            return
        loop = LoopOp(space.domain[axis])
        points.append(loop)
        with points.scope(loop.body.block):
            store((*outer[:axis], loop.index, *outer[axis:], lanes.index))
        points.append(YieldOp())


__all__ = ["plan_scans"]
