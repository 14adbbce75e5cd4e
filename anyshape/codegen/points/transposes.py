"""Square tiles for accesses across rows: a value read along the rows of a nest is read along its own and turned in registers.

`out[i, j] = x[j, i]`, lanes over j, would gather. A tile of W rows × W lanes reads W vectors along i, each a whole cache line, and
turns them by log₂ W stages of shuffles: stage d exchanges, in vectors r and r + d, the lanes that differ in bit d.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.points.schedule import nested
from anyshape.dialects.tile import LanesOp, LoadOp, ParallelOp, PrefixOp, StoreOp, YieldOp, buffer_of
from anyshape.symbolic import Size

STRIP = 256
"""Lanes that all rows of a run walk before the next: pages of x that the address translation of a core holds at once."""


def transpose_vectors(b: Builder, vectors: Sequence[Value]) -> list[Value]:
    """W vectors of W lanes: result[i][j] = vectors[j][i]; W is a power of two."""
    turned, width = list(vectors), len(vectors)
    distance = 1
    while distance < width:
        low = [lane if not lane & distance else width + lane - distance for lane in range(width)]
        high = [lane + distance if not lane & distance else width + lane for lane in range(width)]
        for first in range(width):
            if not first & distance:
                x, y = turned[first], turned[first + distance]
                turned[first], turned[first + distance] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        distance *= 2
    return turned


def transposed_loads(op: ParallelOp, row: SSAValue) -> tuple[LanesOp, frozenset[LoadOp]] | None:
    """The lanes of a nest and their loads that are contiguous along `row` and strided along the lane; None where tiles do not fit.

    A nest fits that has one axis of lanes, without reductions and prefixes, and only straight code in it.
    """
    lanes = [each for each in op.body.block.ops if isinstance(each, LanesOp)]
    others = [each for each in nested(op) if each not in lanes]
    if len(lanes) != 1 or lanes[0].results or any(each.regions or isinstance(each, PrefixOp) for each in others):
        return None
    (axis,) = lanes
    depends: set[SSAValue] = {row, axis.index}
    found: set[LoadOp] = set()
    for each in nested(op):
        if (
            isinstance(each, LoadOp)
            and each.parent is axis.body.block
            and _is_transposed(each, row, axis.index, depends)
        ):
            found.add(each)
        if not isinstance(each, StoreOp | YieldOp) and not depends.isdisjoint(each.operands):
            depends.update(each.results)
    return (axis, frozenset(found)) if found else None


def _is_transposed(op: LoadOp, row: SSAValue, lane: SSAValue, depends: set[SSAValue]) -> bool:
    if op.guard is not None or row not in op.indices or lane not in op.indices:
        return False
    strides = buffer_of(op.buffer).strides.data
    rest = [index for index in op.indices if index is not row and index is not lane]
    along_row = [stride for index, stride in zip(op.indices, strides, strict=True) if index is row]
    along_lane = [stride for index, stride in zip(op.indices, strides, strict=True) if index is lane]
    return (
        depends.isdisjoint(rest)
        and len(along_lane) == 1
        and along_row == [Size.const(1)]
        and along_lane[0] not in (Size.const(0), Size.const(1))
    )
