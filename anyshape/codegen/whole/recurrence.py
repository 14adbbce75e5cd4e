"""`recurrence`: the steps of recurrent cells, rows of a batch in parallel.

A point is a row of the batch in one direction. A part of the points packs the direction's weights once where there are steps enough to pay
for it, then walks all steps with a block of its rows at a time: a product of the rows' states with the weights by the driver of
products, then the cell, in lanes over units. States are read where the step before has stored them.

Where rows are few, or weights so large that each thread should read its part of them only, units are shared within each step instead; see
`units`.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name, declare_block_driver
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.records import set_slot
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.pack import pack_rhs_arguments
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, tile_shape
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.cells import RecurrentLayer, Units
from anyshape.codegen.whole.units import (
    BLOCK_ROWS,
    LEAST_STEPS,
    SharedUnits,
    emit_is_shared,
    is_shared,
    shared_bytes,
    shares_units,
)
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.packed_panels import PANEL
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_PARTS = 16
"""Parts of a launch at most: each packs the weights of its directions."""
_WORTH = 1 << 16
"""Multiply-adds that are worth another thread."""


def recurrence_schedule(op: Recurrence, machine: Machine) -> Schedule:
    """Points are rows; a part has as many as a register tile where they suffice for several threads."""
    steps, batch, _ = op.operand_sizes(0)
    directions, gates, units = op.operand_sizes(1)
    rows = directions * batch
    tile = size_min(MAX_ROWS, (rows + 1) // 2)
    worth = _WORTH // size_max(1, steps * gates * units) + 1
    grain = size_max(size_max((rows + _PARTS - 1) // _PARTS, tile), worth)
    scratch = Size.of(_gates_bytes(op)) + _panels_bytes(op)
    if shares_units(op, machine):
        # One chunk where units are shared: it has all threads to itself.
        grain = grain + rows * is_shared(op, machine)
        scratch = size_max(scratch, shared_bytes(op, machine))
    return Schedule(rows, grain, scratch)


def _gates_bytes(op: Recurrence) -> Size:
    bytes_ = op.operand_sizes(1)[1] * BLOCK_ROWS * op.operand_dtype().bytes
    return (bytes_ + LINE - 1) // LINE * LINE


def _panels_bytes(op: Recurrence) -> Size:
    _, gates, units = op.operand_sizes(1)
    return (gates + PANEL - 1) // PANEL * PANEL * units * op.operand_dtype().bytes


def emit_recurrence(body: WholeBody) -> None:
    """The code of a `recurrence`."""
    op = body.op.op
    assert isinstance(op, Recurrence)
    b = body.b
    shape = tile_shape(str(op.operand_dtype()), body.machine)
    declare_block_driver(body.module, b, shape.element)
    body.module.declare(pack_rhs_name(shape.element), pack_rhs_arguments(b))
    emitter = _Emitter.begin(body, op)
    if not shares_units(op, body.machine):
        _emit_rows(emitter)
        return
    shared = SharedUnits(body, op)
    branch = b.if_(emit_is_shared(body, op), has_else=True)
    with branch.then():
        shared.emit()
    with branch.otherwise():
        _emit_rows(emitter)


def _emit_rows(emitter: _Emitter) -> None:
    """The rows of [begin, end) in each direction."""
    body = emitter.body
    b, batch = body.b, emitter.layer.batch
    safe = b.maximum(batch, 1)
    for direction in range(len(emitter.op.reversed)):
        start = b.mul(batch, direction)
        low = b.maximum(b.sub(body.begin, start), 0)
        high = b.minimum(b.sub(body.end, start), batch)
        with b.if_(b.cmp("slt", b.minimum(low, safe), high)).then():
            emitter.emit_direction(direction, low, high)


@dataclass
class _Emitter:
    """A kernel under construction: the tensors, the record of the product's driver."""

    body: WholeBody
    op: Recurrence
    layer: RecurrentLayer
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
        task, packs = b.alloca(b.i64, SLOTS), b.cmp("sge", steps, LEAST_STEPS)
        layer = RecurrentLayer(b, op, body.machine, body.inputs, body.outputs[0], steps, batch, gates, units)
        emitter = _Emitter(body, op, layer, task, packs, panels)
        for slot in Slot:
            emitter._set(slot, 0)
        return emitter

    @property
    def element(self) -> Type:
        return self.layer.element

    def _set(self, slot: Slot, value: Value | int) -> None:
        b = self.body.b
        set_slot(b, self.task, slot, b.const(b.i64, value) if isinstance(value, int) else value)

    def emit_direction(self, direction: int, low: Value, high: Value) -> None:
        """All steps of the rows [low, high) of one direction."""
        b, layer = self.body.b, self.layer
        self._emit_weights(direction)
        number = b.const(b.i64, direction)
        with b.for_(low, high, BLOCK_ROWS) as block:
            rows = b.minimum(b.sub(high, block.index), BLOCK_ROWS)
            self._set(Slot.ROWS, rows)
            with b.for_(0, layer.steps) as step:
                place = layer.place(number, step.index)
                pointers, stride = layer.before(place, block.index)
                self._set(Slot.LHS, pointers[0])
                self._set(Slot.LHS_ROW, stride)
                b.call(block_name(str(self.op.operand_dtype())), [self.task])
                with b.for_(0, rows) as row:
                    sums = b.offset(self.body.scratch, self.element, b.mul(row.index, layer.gates))
                    products = [
                        b.offset(sums, self.element, b.mul(layer.units, gate)) for gate in range(self.op.cell.gates)
                    ]
                    units = Units(b.const(b.i64, 0), layer.units, products)
                    layer.emit_cell(place, b.add(block.index, row.index), units)

    def _emit_weights(self, direction: int) -> None:
        """Pack a direction's weights, or have the driver read them where they lie; fill the record but for its rows."""
        b, body = self.body.b, self.body
        element = self.element
        weights = b.offset(body.inputs[1], element, b.mul(b.mul(self.layer.gates, self.layer.units), direction))
        bias = b.offset(body.inputs[2], element, b.mul(self.layer.gates, direction))
        panel_stride = b.mul(self.layer.units, PANEL)
        with b.if_(self.packs).then(), b.for_(0, b.ceildiv(self.layer.gates, PANEL)) as panel:
            first = b.mul(panel.index, PANEL)
            source = b.offset(weights, element, b.mul(first, self.layer.units))
            columns = b.minimum(b.sub(self.layer.gates, first), PANEL)
            target = b.offset(self.panels, element, b.mul(panel.index, panel_stride))
            b.call(
                pack_rhs_name(str(self.op.operand_dtype())),
                [source, b.const(b.i64, 1), self.layer.units, self.layer.units, columns, target],
            )
        self._set(Slot.COLUMNS, self.layer.gates)
        self._set(Slot.DEPTH, self.layer.units)
        self._set(Slot.LHS_DEPTH, 1)
        self._set(Slot.RHS, b.select(self.packs, self.panels, weights))
        self._set(Slot.RHS_DEPTH, b.select(self.packs, b.const(b.i64, PANEL), b.const(b.i64, 1)))
        self._set(Slot.RHS_COLUMN, b.select(self.packs, b.const(b.i64, 1), self.layer.units))
        self._set(Slot.RHS_PANEL, panel_stride)
        self._set(Slot.PACKED, b.convert(self.packs, b.i64, signed=False))
        self._set(Slot.OUT, body.scratch)
        self._set(Slot.OUT_ROW, self.layer.gates)
        self._set(Slot.INIT, bias)
        self._set(Slot.RHS_SCRATCH, self.panels)


__all__ = ["emit_recurrence", "recurrence_schedule"]
