"""`recurrence`: the steps of recurrent cells, rows of a batch in parallel.

A point is a row of the batch in one direction. A part of the points packs the direction's weights once where there are steps enough to pay
for it, then walks all steps with a block of its rows at a time: a product of the rows' states with the weights by the driver of
products, then the cell, in lanes over units. States are read where the step before has stored them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name, declare_block_driver
from anyshape.codegen.mlir import Value
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.pack import pack_rhs_arguments
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, tile_shape
from anyshape.codegen.vector_math import sigmoid, tanh
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.packed_panels import PANEL
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_ROWS = 4 * MAX_ROWS
"""Rows of a block: their gates stay in the first-level cache beside the panel that they meet."""
_PARTS = 16
"""Parts of a launch at most: each packs the weights of its directions."""
_WORTH = 1 << 16
"""Multiply-adds that are worth another thread."""
_STEPS = 4
"""Steps from which on packing the weights pays."""

Cell = Callable[[WholeBody, list[Value], list[Value], list[Value]], list[Value]]
"""(body, the inputs' part of each gate, the product's part of each, the states) -> the states of the next step."""


def recurrence_schedule(op: Recurrence, machine: Machine) -> Schedule:
    """Points are rows; a part has as many as a register tile where they suffice for several threads."""
    steps, batch, _ = op.operand_sizes(0)
    directions, gates, units = op.operand_sizes(1)
    rows = directions * batch
    tile = size_min(MAX_ROWS, (rows + 1) // 2)
    worth = _WORTH // size_max(1, steps * gates * units) + 1
    grain = size_max(size_max((rows + _PARTS - 1) // _PARTS, tile), worth)
    return Schedule(rows, grain, Size.of(_gates_bytes(op)) + _panels_bytes(op))


def _gates_bytes(op: Recurrence) -> Size:
    bytes_ = op.operand_sizes(1)[1] * _ROWS * op.operand_dtype().bytes
    return (bytes_ + LINE - 1) // LINE * LINE


def _panels_bytes(op: Recurrence) -> Size:
    _, gates, units = op.operand_sizes(1)
    return (gates + PANEL - 1) // PANEL * PANEL * units * op.operand_dtype().bytes


def _lstm(body: WholeBody, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    b = body.b
    i, f, g, o = (b.add(a, c) for a, c in zip(x, y, strict=True))
    cell = b.fma(sigmoid(b, f), states[1], b.mul(sigmoid(b, i), tanh(b, g)))
    return [b.mul(sigmoid(b, o), tanh(b, cell)), cell]


def _gru(body: WholeBody, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    b = body.b
    r, z = (sigmoid(b, b.add(x[gate], y[gate])) for gate in range(2))
    n = tanh(b, b.fma(r, y[2], x[2]))
    return [b.fma(z, b.sub(states[0], n), n)]


def _tanh(body: WholeBody, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    return [tanh(body.b, body.b.add(x[0], y[0]))]


def _relu(body: WholeBody, x: list[Value], y: list[Value], states: list[Value]) -> list[Value]:
    return [body.b.maximum(body.b.add(x[0], y[0]), 0.0)]


_CELLS: Mapping[str, Cell] = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


def emit_recurrence(body: WholeBody) -> None:
    """The code of a `recurrence`."""
    op = body.op.op
    assert isinstance(op, Recurrence)
    b = body.b
    shape = tile_shape(str(op.operand_dtype()), body.machine)
    declare_block_driver(body.module, b, shape.element)
    body.module.declare(pack_rhs_name(shape.element), pack_rhs_arguments(b))
    emitter = _Emitter.begin(body, op)
    batch = emitter.batch
    safe = b.maximum(batch, 1)
    for direction, backwards in enumerate(op.reversed):
        start = b.mul(batch, direction)
        low = b.maximum(b.sub(body.begin, start), 0)
        high = b.minimum(b.sub(body.end, start), batch)
        with b.if_(b.cmp("slt", b.minimum(low, safe), high)).then():
            emitter.emit_direction(direction, backwards, low, high)


@dataclass(frozen=True)
class _Place:
    """A step of a direction: its time, the time of the step before, and whether there was none."""

    direction: int
    t: Value
    before: Value
    is_first: Value


@dataclass
class _Emitter:
    """A kernel under construction: sizes as values, the record of the product's driver."""

    body: WholeBody
    op: Recurrence
    steps: Value
    batch: Value
    gates: Value
    """Gates of a row: those of the cell times its units."""
    units: Value
    task: Value
    packs: Value
    """Whether the weights are packed."""
    panels: Value
    """Where to."""

    @staticmethod
    def begin(body: WholeBody, op: Recurrence) -> _Emitter:
        b = body.b
        steps, batch, _ = (body.size(size) for size in op.operand_sizes(0))
        _, gates, units = (body.size(size) for size in op.operand_sizes(1))
        panels = b.offset(body.scratch, b.i8, body.size(_gates_bytes(op)))
        task, packs = b.alloca(b.i64, SLOTS), b.cmp("sge", steps, _STEPS)
        emitter = _Emitter(body, op, steps, batch, gates, units, task, packs, panels)
        for slot in Slot:
            emitter._set(slot, 0)
        return emitter

    @property
    def element(self):
        return self.body.element(self.op.operand_dtype())

    def _set(self, slot: Slot, value: Value | int) -> None:
        b = self.body.b
        value = b.const(b.i64, value) if isinstance(value, int) else value
        b.store(value, b.offset(self.task, b.i64, slot.value))

    def emit_direction(self, direction: int, backwards: bool, low: Value, high: Value) -> None:
        """All steps of the rows [low, high) of one direction."""
        b = self.body.b
        self._emit_weights(direction)
        with b.for_(low, high, _ROWS) as block:
            rows = b.minimum(b.sub(high, block.index), _ROWS)
            self._set(Slot.ROWS, rows)
            with b.for_(0, self.steps) as step:
                t = b.sub(b.sub(self.steps, 1), step.index) if backwards else step.index
                place = _Place(direction, t, b.add(t, 1 if backwards else -1), b.cmp("eq", step.index, 0))
                pointers, stride = self._before(place, block.index)
                self._set(Slot.LHS, pointers[0])
                self._set(Slot.LHS_ROW, stride)
                b.call(block_name(str(self.op.operand_dtype())), [self.task])
                with b.for_(0, rows) as row:
                    self._emit_cell(place, row.index, b.add(block.index, row.index))

    def _before(self, place: _Place, row: Value) -> tuple[list[Value], Value]:
        """Where the states that a row meets are, and elements from one row's to the next: the given ones, or the step before's."""
        b, body, op = self.body.b, self.body, self.op
        given = b.mul(b.add(b.mul(self.batch, place.direction), row), self.units)
        pointers: list[Value] = []
        for state in range(op.cell.states):
            first = b.offset(body.inputs[3 + state], self.element, given)
            pointers.append(b.select(place.is_first, first, self._state(state, place.before, row, place.direction)))
        return pointers, b.select(place.is_first, self.units, b.mul(self.units, len(op.reversed)))

    def _state(self, state: int, t: Value, row: Value, direction: int) -> Value:
        """The address of result[state, t, row, direction·units]."""
        b = self.body.b
        line = b.add(b.mul(b.add(b.mul(self.steps, state), t), self.batch), row)
        at = b.mul(b.add(b.mul(line, len(self.op.reversed)), direction), self.units)
        return b.offset(self.body.outputs[0], self.element, at)

    def _emit_weights(self, direction: int) -> None:
        """Pack a direction's weights, or have the driver read them where they lie; fill the record but for its rows."""
        b, body = self.body.b, self.body
        element = self.element
        weights = b.offset(body.inputs[1], element, b.mul(b.mul(self.gates, self.units), direction))
        bias = b.offset(body.inputs[2], element, b.mul(self.gates, direction))
        panel_stride = b.mul(self.units, PANEL)
        with b.if_(self.packs).then(), b.for_(0, b.ceildiv(self.gates, PANEL)) as panel:
            first = b.mul(panel.index, PANEL)
            source = b.offset(weights, element, b.mul(first, self.units))
            columns = b.minimum(b.sub(self.gates, first), PANEL)
            target = b.offset(self.panels, element, b.mul(panel.index, panel_stride))
            b.call(
                pack_rhs_name(str(self.op.operand_dtype())),
                [source, b.const(b.i64, 1), self.units, self.units, columns, target],
            )
        self._set(Slot.COLUMNS, self.gates)
        self._set(Slot.DEPTH, self.units)
        self._set(Slot.LHS_DEPTH, 1)
        self._set(Slot.RHS, b.select(self.packs, self.panels, weights))
        self._set(Slot.RHS_DEPTH, b.select(self.packs, b.const(b.i64, PANEL), b.const(b.i64, 1)))
        self._set(Slot.RHS_COLUMN, b.select(self.packs, b.const(b.i64, 1), self.units))
        self._set(Slot.RHS_PANEL, panel_stride)
        self._set(Slot.PACKED, b.convert(self.packs, b.i64, signed=False))
        self._set(Slot.OUT, body.scratch)
        self._set(Slot.OUT_ROW, self.gates)
        self._set(Slot.INIT, bias)
        self._set(Slot.RHS_SCRATCH, self.panels)

    def _emit_cell(self, place: _Place, row_of_block: Value, row: Value) -> None:
        """One step of one row: from gates and states to its states in the result."""
        b, body, op = self.body.b, self.body, self.op
        element, gates = self.element, op.cell.gates
        line = b.add(b.mul(b.add(b.mul(place.t, self.batch), row), len(op.reversed)), place.direction)
        inputs = b.offset(body.inputs[0], element, b.mul(line, self.gates))
        products = b.offset(body.scratch, element, b.mul(row_of_block, self.gates))
        before, _ = self._before(place, row)
        after = [self._state(state, place.t, row, place.direction) for state in range(op.cell.states)]
        cell = _CELLS[op.cell_name]

        def step(first: Value, width: int, mask: Value | None) -> None:
            def of_gates(source: Value) -> list[Value]:
                return [
                    b.load(source, element, b.add(first, b.mul(self.units, gate)), width=width, mask=mask)
                    for gate in range(gates)
                ]

            states = [b.load(each, element, first, width=width, mask=mask) for each in before]
            for target, value in zip(after, cell(body, of_gates(inputs), of_gates(products), states), strict=True):
                b.store(value, target, first, mask=mask)

        body.vectors(self.units, element, step)


__all__ = ["emit_recurrence", "recurrence_schedule"]
