"""`ctc_loss`: sequences in parallel, each by its forward variables, step by step in place from the last place to the first."""

from __future__ import annotations

import math

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.vector_math import exp, log
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.ctc import CtcLoss
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def ctc_schedule(op: CtcLoss, machine: Machine) -> Schedule:
    """One point a sequence; a worker's scratch has α of each place, f64."""
    return Schedule(op.result_sizes[0], Size.const(1), (op.operand_sizes(1)[1] * 2 + 1) * 8)


def emit_ctc(body: WholeBody) -> None:
    """The code of a `ctc_loss`."""
    b, op = body.b, body.op.op
    assert isinstance(op, CtcLoss)
    with b.for_(body.begin, body.end) as point:
        sequence = _Sequence(body, op, point.index)
        sequence.begin()
        with b.for_(1, sequence.steps) as step:
            sequence.step(step.index)
        b.store(b.convert(sequence.loss(), sequence.element), body.outputs[0], point.index)


class _Sequence:
    """The forward variables of one sequence."""

    def __init__(self, body: WholeBody, op: CtcLoss, number: Value) -> None:
        b = self.b = body.b
        self.body, self.number, self.alpha = body, number, body.scratch
        self.element = body.element(op.operand_dtype())
        _, self.batch, self.classes = (body.size(size) for size in op.operand_sizes())
        self.labels = b.offset(body.inputs[1], b.i64, b.mul(number, body.size(op.operand_sizes(1)[1])))
        self.steps, self.length = (b.load(body.inputs[which], b.i64, number) for which in (2, 3))
        self.last = b.mul(self.length, 2)
        self.blank = b.const(b.i64, op.attribute("blank"))
        self.nothing = b.const(b.f64, -math.inf)

    def label(self, place: Value) -> Value:
        """Blank at even places; that of number (place − 1)/2 at odd ones, kept inside the classes once it is reported."""
        b = self.b
        branch = b.if_(b.cmp("eq", b.and_(place, 1), 0), [b.i64])
        with branch.then():
            branch.yield_(self.blank)
        with branch.otherwise():
            found = b.load(self.labels, b.i64, b.shr(place, 1))
            branch.yield_(found)
        (label,) = branch.results
        wrong = b.or_(b.cmp("slt", label, 0), b.cmp("sge", label, self.classes))
        self.body.report(wrong, label, self.classes)
        return b.select(wrong, 0, label)

    def probability(self, step: Value, label: Value) -> Value:
        """log_probs[step, number, label] as f64."""
        b = self.b
        row = b.add(b.mul(step, self.batch), self.number)
        return b.convert(b.load(self.body.inputs[0], self.element, b.add(b.mul(row, self.classes), label)), b.f64)

    def begin(self) -> None:
        """α of the first step, where a path is at one of its first two places."""
        b = self.b
        zero = b.const(b.i64, 0)
        with b.for_(0, b.add(self.last, 1)) as place:
            is_open = b.and_(b.cmp("sle", place.index, 1), b.cmp("sgt", self.steps, 0))
            branch = b.if_(is_open, [b.f64])
            with branch.then():
                branch.yield_(self.probability(zero, self.label(place.index)))
            with branch.otherwise():
                branch.yield_(self.nothing)
            b.store(branch.results[0], self.alpha, place.index)

    def step(self, step: Value) -> None:
        """α of a step: a path comes from its place, the one before, or past a blank between different labels."""
        b = self.b
        with b.for_(0, b.add(self.last, 1)) as loop:
            place = b.sub(self.last, loop.index)
            label = self.label(place)
            here = b.load(self.alpha, b.f64, place)
            one = self._before(place, 1, b.cmp("sge", place, 1))
            two = self._before(place, 2, self._may_skip(place, label))
            total = self._sum((here, one, two))
            b.store(b.add(total, self.probability(step, label)), self.alpha, place)

    def _may_skip(self, place: Value, label: Value) -> Value:
        b = self.b
        has_two = b.and_(b.cmp("sge", place, 3), b.cmp("eq", b.and_(place, 1), 1))
        branch = b.if_(has_two, [b.i1])
        with branch.then():
            branch.yield_(b.cmp("ne", b.load(self.labels, b.i64, b.sub(b.shr(place, 1), 1)), label))
        with branch.otherwise():
            branch.yield_(b.const(b.i1, 0))
        return branch.results[0]

    def _before(self, place: Value, distance: int, condition: Value) -> Value:
        """α so many places before, where the condition holds; else nothing."""
        b = self.b
        found = b.load(self.alpha, b.f64, b.maximum(b.sub(place, distance), 0))
        return b.select(condition, found, self.nothing)

    def _sum(self, terms: tuple[Value, ...]) -> Value:
        """ln Σ exp, −inf of nothing."""
        b = self.b
        most = terms[0]
        for term in terms[1:]:
            most = b.maximum(most, term)
        shift = b.select(b.cmp("oeq", most, self.nothing), 0.0, most)
        powers = [exp(b, b.sub(term, shift)) for term in terms]
        total = powers[0]
        for power in powers[1:]:
            total = b.add(total, power)
        return b.add(log(b, total), shift)

    def loss(self) -> Value:
        """Paths end at the last label or the blank behind it."""
        b = self.b
        before = self._before(self.last, 1, b.cmp("sge", self.last, 1))
        value = b.neg(self._sum((b.load(self.alpha, b.f64, self.last), before)))
        is_empty = b.and_(b.cmp("sle", self.steps, 0), b.cmp("eq", self.length, 0))
        return b.select(is_empty, 0.0, value)


__all__ = ["ctc_schedule", "emit_ctc"]
