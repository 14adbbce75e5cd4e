"""`suppress_overlaps`: groups of boxes in parallel; each box is compared with all kept ones of its group, a vector at a time."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.suppression import SuppressOverlaps
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

_WORTH = 1 << 8
"""Boxes that are worth another thread."""
_SIDES = 4


def suppression_schedule(op: SuppressOverlaps, machine: Machine) -> Schedule:
    """One point a box; scratch holds the sides of the kept boxes of a group."""
    count = op.operand_sizes()[0]
    return Schedule(count, Size.const(_WORTH), count * (_SIDES * op.operand_dtype().bytes))


def emit_suppression(body: WholeBody) -> None:
    """The code of a `suppress_overlaps`."""
    op = body.op.op
    assert isinstance(op, SuppressOverlaps)
    _Suppression(body, op).emit()


class _Suppression:
    """The groups that begin at points of this call, to their ends."""

    def __init__(self, body: WholeBody, op: SuppressOverlaps) -> None:
        b = body.b
        self.body, self.b = body, b
        self.element = body.element(op.operand_dtype())
        self.count = body.size(op.operand_sizes()[0])
        self.width = body.machine.lanes(8 * op.operand_dtype().bytes)
        self.overlap = b.load(body.inputs[2], self.element)
        self.most = b.load(body.inputs[3], b.i64)
        self.kept = [
            b.offset(body.scratch, self.element, b.mul(self.count, side)) if side else body.scratch
            for side in range(_SIDES)
        ]

    def emit(self) -> None:
        b, groups = self.b, self.body.inputs[1]
        nothing = b.const(b.i64, 0)
        with b.for_(self.body.begin, self.count, initial=[b.const(b.i1, 0), nothing]) as loop:
            is_own, kept = loop.args
            at = loop.index
            before = b.load(groups, b.i64, b.maximum(b.sub(at, 1), 0))
            begins = b.or_(b.cmp("eq", at, 0), b.cmp("ne", b.load(groups, b.i64, at), before))
            is_own = b.select(begins, b.cmp("slt", at, self.body.end), is_own)
            kept = b.select(begins, nothing, kept)
            branch = b.if_(is_own, [b.i64])
            with branch.then():
                branch.yield_(self._judge(at, kept))
            with branch.otherwise():
                branch.yield_(kept)
            loop.yield_(is_own, branch.results[0])

    def _judge(self, at: Value, kept: Value) -> Value:
        """Write whether box `at` is kept beside the first `kept` of its group, and give their number behind it."""
        b = self.b
        has_room = b.cmp("slt", kept, self.most)
        branch = b.if_(has_room, [b.i1])
        with branch.then():
            sides = [
                b.load(self.body.inputs[0], self.element, b.add(b.mul(at, _SIDES), side)) for side in range(_SIDES)
            ]
            for side, memory in zip(sides, self.kept, strict=True):
                b.store(side, memory, kept)
            branch.yield_(b.cmp("eq", self._overlapping(sides, kept), 0))
        with branch.otherwise():
            branch.yield_(b.const(b.i1, 0))
        is_kept = branch.results[0]
        b.store(b.convert(is_kept, b.i8, signed=False), self.body.outputs[0], at)
        return b.add(kept, b.convert(is_kept, b.i64, signed=False))

    def _overlapping(self, sides: Sequence[Value], kept: Value) -> Value:
        """An i64 that is 0 where no kept box overlaps this one by more than is allowed."""
        b = self.b
        own = [b.broadcast(side, self.width) for side in sides]
        limit = b.broadcast(self.overlap, self.width)
        with b.for_(0, kept, self.width, initial=[b.const(b.i64, 0)]) as loop:
            mask = b.tail_mask(b.sub(kept, loop.index), self.width)
            others = [b.load(memory, self.element, loop.index, width=self.width, mask=mask) for memory in self.kept]
            lengths = [
                b.sub(b.minimum(own[axis + 2], others[axis + 2]), b.maximum(own[axis], others[axis]))
                for axis in range(2)
            ]
            inside = b.mul(*lengths)
            total = b.sub(b.add(self._area(own), self._area(others)), inside)
            meets = b.and_(*(b.cmp("ogt", length, 0.0) for length in lengths))
            hit = b.and_(b.and_(mask, meets), b.cmp("ogt", b.div(inside, total), limit))
            bits = b.convert(b.mask_bits(hit), b.i64, signed=False)
            loop.yield_(b.or_(loop.args[0], bits))
        return loop.results[0]

    def _area(self, sides: Sequence[Value]) -> Value:
        return self.b.mul(self.b.sub(sides[2], sides[0]), self.b.sub(sides[3], sides[1]))


__all__ = ["emit_suppression", "suppression_schedule"]
