"""`embedding_bag`: bags in parallel, a strip of each added up in registers while rows further on are fetched."""

from __future__ import annotations

from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import Strip, WholeBody
from anyshape.dialects.dhlo.bags import EmbeddingBag
from anyshape.dialects.dtypes import F64
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max

_WORTH = 1 << 15
"""Elements added up that are worth another thread."""
_AHEAD = 16
"""Rows that are fetched before they are needed."""


def bags_schedule(op: EmbeddingBag, machine: Machine) -> Schedule:
    """One point a bag."""
    (bags, width), (count,) = op.result_sizes, op.operand_sizes(1)
    grain = _WORTH * size_max(bags, 0) // size_max(1, (count + bags) * width) + 1
    return Schedule(bags, grain, Size.const(0))


def emit_bags(body: WholeBody) -> None:
    """The code of an `embedding_bag`."""
    op = body.op.op
    assert isinstance(op, EmbeddingBag)
    b = body.b
    emitter = _Bags(body, op)
    with b.for_(body.begin, body.end) as bags:
        emitter.emit(bags.index)


class _Bags:
    """One bag after another."""

    def __init__(self, body: WholeBody, op: EmbeddingBag) -> None:
        b = body.b
        self.body, self.b, self.op = body, b, op
        self.rows, self.width = (body.size(size) for size in op.operand_sizes())
        self.count = body.size(op.operand_sizes(1)[0])
        self.last = body.size(op.operand_sizes(2)[0] - 1)
        self.element = body.element(op.operand_dtype())
        self.sum: Type = b.f64 if op.operand_dtype() == F64 else b.f32
        self.mode = op.attribute("mode")

    def emit(self, bag: Value) -> None:
        """result[bag, :]"""
        b = self.b
        first, end = self._ends(bag)
        with self.body.strips(self.op.result_sizes[1], self.sum) as strip:
            start = b.splat(float("-inf") if self.mode == "max" else 0.0, self.sum, strip.width)
            with b.for_(first, end, initial=[b.const(b.i64, 0), *[start] * len(strip.masks)]) as loop:
                count, *sums = loop.args
                counts, sums = self._take(loop.index, strip, sums)
                loop.yield_(b.add(count, counts), *sums)
            self._finish(bag, strip, *loop.results)

    def _ends(self, bag: Value) -> tuple[Value, Value]:
        """Where the elements of a bag begin and end; nothing where its offsets are wrong."""
        b = self.b
        offset_type = self.body.element(self.op.operand_dtype(2))
        first = b.convert(b.load(self.body.inputs[2], offset_type, bag), b.i64)
        next_ = b.minimum(b.add(bag, 1), self.last)
        given = b.convert(b.load(self.body.inputs[2], offset_type, next_), b.i64)
        end = b.select(b.cmp("slt", bag, self.last), given, self.count)
        bound = b.add(self.count, 1)
        wrong = b.or_(b.or_(b.cmp("slt", first, 0), b.cmp("sgt", end, self.count)), b.cmp("sgt", first, end))
        self.body.report(wrong, b.select(b.cmp("slt", first, 0), first, end), bound)
        return b.select(wrong, b.const(b.i64, 0), first), b.select(wrong, b.const(b.i64, 0), end)

    def _index(self, at: Value) -> Value:
        b = self.b
        return b.convert(b.load(self.body.inputs[1], self.body.element(self.op.operand_dtype(1)), at), b.i64)

    def _take(self, at: Value, strip: Strip, sums: list[Value]) -> tuple[Value, list[Value]]:
        """1 where element number `at` counts, and the sums with it."""
        b = self.b
        index = self._index(at)
        inside = b.cmp("ult", index, self.rows)
        self.body.report(b.not_(inside), index, self.rows)
        counts = b.and_(inside, b.cmp("ne", index, self.op.integer("padding")))
        self._fetch(b.minimum(b.add(at, _AHEAD), b.sub(self.count, 1)), strip)
        factor = None
        if len(self.op.operands) == 4:
            factor = b.broadcast(b.convert(b.load(self.body.inputs[3], self.element, at), self.sum), strip.width)
        branch = b.if_(counts, [sum_.type for sum_ in sums])
        with branch.then():
            source = b.offset(self.body.inputs[0], self.element, b.mul(index, self.width))
            added: list[Value] = []
            for sum_, (place, mask) in zip(sums, strip.places(b), strict=True):
                value = b.convert(b.load(source, self.element, place, width=strip.width, mask=mask), self.sum)
                if self.mode == "max":
                    added.append(b.maximum(sum_, value))
                else:
                    added.append(b.add(sum_, value) if factor is None else b.fma(value, factor, sum_))
            branch.yield_(*added)
        with branch.otherwise():
            branch.yield_(*sums)
        return b.convert(counts, b.i64, signed=False), branch.results

    def _fetch(self, at: Value, strip: Strip) -> None:
        """Ask for the strip of the row of element number `at`."""
        b = self.b
        first = b.add(b.mul(self._index(at), self.width), strip.first)
        line = max(1, self.body.machine.line // self.op.operand_dtype().bytes)
        for place in range(0, strip.width * len(strip.masks), line):
            b.prefetch(self.body.inputs[0], self.element, b.add(first, place))

    def _finish(self, bag: Value, strip: Strip, counted: Value, *sums: Value) -> None:
        """Write the strip."""
        b = self.b
        target = b.offset(self.body.outputs[0], self.element, b.mul(bag, self.width))
        is_empty = b.cmp("eq", counted, 0)
        divisor = b.convert(b.maximum(counted, 1), self.sum)
        for value, (place, mask) in zip(sums, strip.places(b), strict=True):
            if self.mode == "mean":
                value = b.div(value, b.broadcast(divisor, strip.width))
            if self.mode == "max":
                value = b.select(is_empty, b.splat(0.0, self.sum, strip.width), value)
            b.store(b.convert(value, self.element), target, place, mask=mask)


__all__ = ["bags_schedule", "emit_bags"]
