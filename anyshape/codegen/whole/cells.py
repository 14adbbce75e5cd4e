"""Cells of recurrent layers in lanes over units, and where a step finds what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.vector_math import sigmoid, tanh
from anyshape.codegen.whole.body import emit_vectors
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.support.machine import Machine

Cell = Callable[[Builder, list[Value], list[Value], list[Value]], list[Value]]
"""(builder, the inputs' part of each gate, the product's part of each, the states) -> the states of the next step."""


def _lstm(b: Builder, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    i, f, g, o = (b.add(a, c) for a, c in zip(x, y, strict=True))
    cell = b.fma(sigmoid(b, f), states[1], b.mul(sigmoid(b, i), tanh(b, g)))
    return [b.mul(sigmoid(b, o), tanh(b, cell)), cell]


def _gru(b: Builder, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    r, z = (sigmoid(b, b.add(x[gate], y[gate])) for gate in range(2))
    n = tanh(b, b.fma(r, y[2], x[2]))
    return [b.fma(z, b.sub(states[0], n), n)]


def _tanh(b: Builder, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    return [tanh(b, b.add(x[0], y[0]))]


def _relu(b: Builder, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    return [b.maximum(b.add(x[0], y[0]), 0.0)]


_CELLS: Mapping[str, Cell] = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


@dataclass(frozen=True)
class Place:
    """A step of a direction: its time, the time of the step before, and whether there was none."""

    direction: Value
    t: Value
    before: Value
    is_first: Value


@dataclass(frozen=True)
class Units:
    """Some units of a row: the first one, how many, and where their products with the states are, gate by gate."""

    first: Value
    count: Value
    products: Sequence[Value]


@dataclass(frozen=True)
class RecurrentLayer:
    """The tensors of a `recurrence` in memory; sizes and addresses as values."""

    b: Builder
    op: Recurrence
    machine: Machine
    inputs: Sequence[Value]
    output: Value
    steps: Value
    batch: Value
    gates: Value
    """Gates of a row: those of the cell times its units."""
    units: Value

    @property
    def element(self) -> Type:
        return self.b.type(str(self.op.operand_dtype().scalar))

    def place(self, direction: Value, step: Value) -> Place:
        """Where a direction's step of that number is."""
        b = self.b
        backwards = sum(1 << number for number, each in enumerate(self.op.reversed) if each)
        is_backwards = b.cmp("ne", b.and_(b.shr(b.const(b.i64, backwards), direction), 1), 0)
        t = b.select(is_backwards, b.sub(b.sub(self.steps, 1), step), step)
        before = b.add(t, b.select(is_backwards, b.const(b.i64, 1), b.const(b.i64, -1)))
        return Place(direction, t, before, b.cmp("eq", step, 0))

    def before(self, place: Place, row: Value) -> tuple[list[Value], Value]:
        """Where the states that a row meets are, and elements from one row's to the next: the given ones, or the step before's."""
        b = self.b
        given = b.mul(b.add(b.mul(self.batch, place.direction), row), self.units)
        pointers: list[Value] = []
        for state in range(self.op.cell.states):
            first = b.offset(self.inputs[3 + state], self.element, given)
            pointers.append(b.select(place.is_first, first, self._state(state, place.before, row, place.direction)))
        return pointers, b.select(place.is_first, self.units, b.mul(self.units, len(self.op.reversed)))

    def _state(self, state: int, t: Value, row: Value, direction: Value) -> Value:
        """The address of result[state, t, row, direction·units]."""
        b = self.b
        line = b.add(b.mul(b.add(b.mul(self.steps, state), t), self.batch), row)
        at = b.mul(b.add(b.mul(line, len(self.op.reversed)), direction), self.units)
        return b.offset(self.output, self.element, at)

    def emit_cell(self, place: Place, row: Value, units: Units) -> None:
        """One step of some units of one row: from gates and states to their states in the result."""
        b, op, element = self.b, self.op, self.element
        line = b.add(b.mul(b.add(b.mul(place.t, self.batch), row), len(op.reversed)), place.direction)
        inputs = b.offset(self.inputs[0], element, b.add(b.mul(line, self.gates), units.first))
        sources = [b.offset(inputs, element, b.mul(self.units, gate)) for gate in range(op.cell.gates)]
        before = [b.offset(each, element, units.first) for each in self.before(place, row)[0]]
        after = [
            b.offset(self._state(state, place.t, row, place.direction), element, units.first)
            for state in range(op.cell.states)
        ]

        def step(first: Value, width: int, mask: Value | None) -> None:
            x, y, states = (
                [b.load(each, element, first, width=width, mask=mask) for each in pointers]
                for pointers in (sources, units.products, before)
            )
            for target, value in zip(after, _CELLS[op.cell_name](b, x, y, states), strict=True):
                b.store(value, target, first, mask=mask)

        emit_vectors(b, self.machine, units.count, element, step)


__all__ = ["Place", "RecurrentLayer", "Units"]
