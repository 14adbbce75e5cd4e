"""Reading ahead: while a later pass over a row computes, what the first pass will read of the next row is fetched.

The passes over a row take turns at waiting for memory (the first reads the row, the last stores its results) and at computing on what
is in cache. Processors fetch ahead within a run of addresses while it is read, and stop while a later pass computes, so they need to be
told. They are told in a pass that is bound by computing, where there is one, else in the last, which stores while memory is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.points.memory import Memory
from anyshape.codegen.points.scalar import HEAVY
from anyshape.codegen.points.values import Frame, Points, Uniform, add_indices, is_uniform
from anyshape.codegen.sizes import element_bytes
from anyshape.dialects.tile import LanesOp, LoadOp, ParallelOp, SizeOp, buffer_of
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

LEAST_BYTES = 256
"""Of a row: of shorter ones several passes are over before anything arrives."""
DISTANCE = 8192
"""Bytes between a row and the one that is fetched: what memory needs to answer, a row at least."""
CACHE_PART = 4
"""Of the second-level cache a row may take one in so many: it has the row itself, one of scratch and one of results to hold, too."""


@dataclass(frozen=True)
class RowLoad:
    """A load at every point of a row: where `row` is an index of its own, or where rows are chunks of an axis, at `start + lane`.

    Args:
        start: row · length.
        length: points from one chunk to the next, where there are chunks.
    """

    op: LoadOp
    start: SSAValue | None = None
    length: Size | None = None


@dataclass(frozen=True)
class ReadAhead:
    """Loads of the first pass over rows, whose later rows are fetched during the pass `during`.

    Args:
        row: the index that counts rows.
        extent: points of a row.
    """

    during: LanesOp
    loads: tuple[RowLoad, ...]
    row: SSAValue
    extent: Size

    def distance(self, b: Builder, memory: Memory, machine: Machine) -> Value:
        """Rows, 0 where they are too short or too long: then the row itself is fetched, which costs nothing."""
        bytes_ = b.mul(memory.sizes(self.extent), element_bytes(buffer_of(self.loads[0].op.buffer).element_type))
        fits = b.and_(b.cmp("sge", bytes_, LEAST_BYTES), b.cmp("sle", bytes_, machine.l2 // CACHE_PART))
        rows = b.div(b.add(bytes_, DISTANCE - 1), b.maximum(bytes_, 1))
        return b.select(fits, rows, 0)

    def emit(
        self, b: Builder, memory: Memory, values: Mapping[SSAValue, Points], lane: Value, distance: Value, frame: Frame
    ) -> None:
        """Fetch what the loads read at the points of a frame, `distance` rows on; nothing at the masked end of a row."""
        if frame.mask is not None or frame.width is None:
            return
        for row_load in self.loads:
            load = row_load.op
            *outer, _ = load.indices
            if not all(index in values and is_uniform(values[index]) for index in outer):
                continue
            points = [values[index] for index in outer]
            moved = [
                add_indices(b, frame, each, Uniform((distance,))) if index is self.row else each
                for index, each in zip(outer, points, strict=True)
            ]
            if row_load.start is not None and row_load.length is not None:
                chunks = b.mul(distance, memory.sizes(row_load.length))
                lane = b.add(lane, b.add(values[row_load.start].rows[0], chunks))
            memory.prefetch(load.buffer, [*moved, Uniform((lane,), step=1)], frame)


def read_ahead(b: Builder, op: ParallelOp, row: SSAValue, machine: Machine) -> ReadAhead | None:
    """What may be fetched ahead; None where rows are passed over once, or are known to be too short or too long."""
    passes = [each for each in op.body.block.ops if isinstance(each, LanesOp)]
    if len(passes) < 2:
        return None
    first = passes[0]
    found = [_row_load(each, first, row) for each in first.body.block.ops if isinstance(each, LoadOp)]
    loads = tuple(each for each in found if each is not None)
    if not loads:
        return None
    bytes_ = first.size * element_bytes(buffer_of(loads[0].op.buffer).element_type)
    if not LEAST_BYTES <= bytes_.constant_or(LEAST_BYTES) <= machine.l2 // CACHE_PART:
        return None
    heavy = [each for each in passes[1:] if any(op.name in HEAVY for op in each.body.walk())]
    return ReadAhead(heavy[0] if heavy else passes[-1], loads, row, first.size)


def _row_load(load: LoadOp, axis: LanesOp, row: SSAValue) -> RowLoad | None:
    """A load of an argument at every point of an axis, one beside the other, and anew in each row; None for others."""
    if not load.indices or not isinstance(load.buffer.owner, Block):
        return None
    if buffer_of(load.buffer).strides.data[-1] != Size.const(1):
        return None
    last = load.indices[-1]
    if last is axis.index:
        return RowLoad(load) if load.guard is None and row in load.indices else None
    sum_ = last.owner
    if not isinstance(sum_, arith.AddiOp) or sum_.rhs is not axis.index:
        return None
    start = sum_.lhs.owner
    if not isinstance(start, arith.MuliOp) or start.lhs is not row or not isinstance(start.rhs.owner, SizeOp):
        return None
    return RowLoad(load, sum_.lhs, start.rhs.owner.expression)


__all__ = ["ReadAhead", "RowLoad", "read_ahead"]
