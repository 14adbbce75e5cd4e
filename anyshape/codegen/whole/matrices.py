"""Matrices in memory, row by row, for emitters of whole ops that take them."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.mlir import Operand, Type, Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.sizes import numel
from anyshape.symbolic import Size, size_max

_WORTH = 1 << 15
"""Multiply-adds that are worth another thread."""


def batch_schedule(op: DhloOp, batch_axes: int, scratch: Size) -> Schedule:
    """One point for each index of the first axes of operand 0, of which each is work for all elements and columns behind it."""
    sizes = op.operand_sizes()
    work = numel(sizes[batch_axes:]) * (sizes[-1] + 1)
    return Schedule(numel(sizes[:batch_axes]), size_max(1, _WORTH // size_max(1, work)), scratch)


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix in memory, `columns` elements apart."""

    body: WholeBody
    memory: Value
    columns: Value
    element: Type

    def load(self, row: Operand, column: Operand) -> Value:
        return self.body.b.load(self.memory, self.element, self._place(row, column))

    def store(self, value: Value, row: Operand, column: Operand) -> None:
        self.body.b.store(value, self.memory, self._place(row, column))

    def row(self, row: Operand, column: Operand = 0) -> Value:
        """The address of a row from that column on."""
        return self.body.b.offset(self.memory, self.element, self._place(row, column))

    def _place(self, row: Operand, column: Operand) -> Value:
        b = self.body.b
        return b.add(b.mul(self.columns, row), column)

    def subtract(self, target: Value, factor: Value, source: Value, count: Value) -> None:
        """target[: count] −= factor·source[: count]"""
        b = self.body.b

        def step(at: Value, width: int, mask: Value | None) -> None:
            old, taken = (b.load(each, self.element, at, width=width, mask=mask) for each in (target, source))
            b.store(b.fma(b.neg(b.broadcast(factor, width)), taken, old), target, at, mask=mask)

        self.body.vectors(count, self.element, step)

    def divide(self, target: Value, divisor: Value, count: Value) -> None:
        """target[: count] /= divisor"""
        b = self.body.b

        def step(at: Value, width: int, mask: Value | None) -> None:
            old = b.load(target, self.element, at, width=width, mask=mask)
            b.store(b.div(old, b.broadcast(divisor, width)), target, at, mask=mask)

        self.body.vectors(count, self.element, step)

    def exchange(self, row: Value, other: Value) -> None:
        b = self.body.b
        first, second = self.row(row), self.row(other)

        def step(at: Value, width: int, mask: Value | None) -> None:
            x, y = (b.load(each, self.element, at, width=width, mask=mask) for each in (first, second))
            b.store(y, first, at, mask=mask)
            b.store(x, second, at, mask=mask)

        self.body.vectors(self.columns, self.element, step)


def copied(body: WholeBody, op: DhloOp, target: Value, source: Value, matrix: Value) -> Rows:
    """Matrix number `matrix` of a tensor [.., m, n], copied to the target."""
    element, size = body.element(op.operand_dtype()), body.size(numel(op.operand_sizes()[-2:]))
    begin = body.b.offset(source, element, body.b.mul(matrix, size))
    body.copy(target, begin, element, 0, size)
    return Rows(body, target, body.size(op.operand_sizes()[-1]), element)


def own_result(body: WholeBody, op: DhloOp, matrix: Value) -> Value:
    """Where the result of one matrix lies."""
    element, size = body.element(op.result_dtype), body.size(numel(op.result_sizes[-2:]))
    return body.b.offset(body.outputs[0], element, body.b.mul(matrix, size))


__all__ = ["Rows", "batch_schedule", "copied", "own_result"]
