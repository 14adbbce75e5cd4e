"""`recurrence`: the steps of recurrent cells, rows of a batch in parallel.

A point is a row of the batch in one direction. A part of the points packs the direction's weights once where there are steps enough to pay
for it, then walks all steps with a block of its rows at a time: a product of the rows' states with the weights by the driver of
products, then the cell, in lanes over units. States are read where the step before has stored them.

Where rows are few, or weights so large that each thread should read its part of them only, units are shared within each step instead; see
`units`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name, declare_block_driver
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.records import set_slot
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.pack import pack_rhs_arguments
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, tile_shape
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.cells import Place, RecurrentLayer, Units
from anyshape.codegen.whole.units import (
    BLOCK_ROWS,
    LEAST_STEPS,
    SharedUnits,
    emit_is_shared,
    has_two_products,
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
    """Of the sums of a block of rows, and of the factors of a second product behind them."""
    _, gates, units = op.operand_sizes(1)
    bytes_ = (gates + units * has_two_products(op)) * BLOCK_ROWS * op.operand_dtype().bytes
    return (bytes_ + LINE - 1) // LINE * LINE


def _panels_bytes(op: Recurrence) -> Size:
    units = op.operand_sizes(1)[2]
    columns = sum((_whole_panels(units * (end - first)) for first, end in _products_of(op)), Size.const(0))
    return columns * units * op.operand_dtype().bytes


def _whole_panels(columns: Size) -> Size:
    return (columns + PANEL - 1) // PANEL * PANEL


def _products_of(op: Recurrence) -> list[tuple[int, int]]:
    """The gates [first, end) of each product of a step."""
    gates = op.cell.gates
    return [(0, gates - 1), (gates - 1, gates)] if has_two_products(op) else [(0, gates)]


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


@dataclass(frozen=True)
class _Product:
    """Some gates of a direction: where their weights, biases and sums begin, and the columns that they are."""

    rhs: Value
    bias: Value
    sums: Value
    columns: Value


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
        self._emit_fixed_slots()
        products = self._emit_products(direction)
        number = b.const(b.i64, direction)
        with b.for_(low, high, BLOCK_ROWS) as block:
            rows = b.minimum(b.sub(high, block.index), BLOCK_ROWS)
            self._set(Slot.ROWS, rows)
            with b.for_(0, layer.steps) as step:
                self._emit_step(layer.place(number, step.index), block.index, rows, products)

    def _emit_step(self, place: Place, first: Value, rows: Value, products: Sequence[_Product]) -> None:
        """One step of `rows` rows from `first` on."""
        b, layer = self.body.b, self.layer
        pointers, stride = layer.before(place, first)
        self._emit_product(products[0], pointers[0], stride)
        if len(products) > 1:
            factors = b.offset(self.body.scratch, self.element, b.mul(layer.gates, BLOCK_ROWS))
            with b.for_(0, rows) as row:
                own = b.offset(factors, self.element, b.mul(row.index, layer.units))
                layer.emit_reset(place, b.add(first, row.index), self._units_of(row.index), own)
            self._emit_product(products[1], factors, layer.units)
        with b.for_(0, rows) as row:
            layer.emit_cell(place, b.add(first, row.index), self._units_of(row.index))

    def _units_of(self, row: Value) -> Units:
        """All units of a row of the block."""
        b, layer = self.body.b, self.layer
        sums = b.offset(self.body.scratch, self.element, b.mul(row, layer.gates))
        gates = range(self.op.cell.gates)
        products = [b.offset(sums, self.element, b.mul(layer.units, gate)) for gate in gates]
        return Units(b.const(b.i64, 0), layer.units, products)

    def _emit_product(self, product: _Product, lhs: Value, stride: Value) -> None:
        """The sums of a product's gates, of rows that are `stride` apart from `lhs` on."""
        self._set(Slot.LHS, lhs)
        self._set(Slot.LHS_ROW, stride)
        self._set(Slot.COLUMNS, product.columns)
        self._set(Slot.RHS, product.rhs)
        self._set(Slot.OUT, product.sums)
        self._set(Slot.INIT, product.bias)
        self.body.b.call(block_name(str(self.op.operand_dtype())), [self.task])

    def _emit_fixed_slots(self) -> None:
        b, units = self.body.b, self.layer.units
        self._set(Slot.DEPTH, units)
        self._set(Slot.LHS_DEPTH, 1)
        self._set(Slot.RHS_DEPTH, b.select(self.packs, b.const(b.i64, PANEL), b.const(b.i64, 1)))
        self._set(Slot.RHS_COLUMN, b.select(self.packs, b.const(b.i64, 1), units))
        self._set(Slot.RHS_PANEL, b.mul(units, PANEL))
        self._set(Slot.PACKED, b.convert(self.packs, b.i64, signed=False))
        self._set(Slot.OUT_ROW, self.layer.gates)
        self._set(Slot.RHS_SCRATCH, self.panels)

    def _emit_products(self, direction: int) -> list[_Product]:
        """The products of a step. Pack a direction's weights, or have the driver read them where they lie."""
        b, body, layer, element = self.body.b, self.body, self.layer, self.element
        products: list[_Product] = []
        panels = self.panels
        for first, end in _products_of(self.op):
            row = b.add(b.mul(layer.gates, direction), b.mul(layer.units, first))
            weights = b.offset(body.inputs[1], element, b.mul(row, layer.units))
            bias = b.offset(body.inputs[2], element, row)
            sums = b.offset(body.scratch, element, b.mul(layer.units, first))
            columns = b.mul(layer.units, end - first)
            with b.if_(self.packs).then():
                self._emit_pack(weights, columns, panels)
            products.append(_Product(b.select(self.packs, panels, weights), bias, sums, columns))
            packed = b.mul(b.mul(b.ceildiv(columns, PANEL), PANEL), layer.units)
            panels = b.offset(panels, element, packed)
        return products

    def _emit_pack(self, weights: Value, columns: Value, panels: Value) -> None:
        b, units, element = self.body.b, self.layer.units, self.element
        with b.for_(0, b.ceildiv(columns, PANEL)) as panel:
            first = b.mul(panel.index, PANEL)
            source = b.offset(weights, element, b.mul(first, units))
            count = b.minimum(b.sub(columns, first), PANEL)
            target = b.offset(panels, element, b.mul(first, units))
            strides = [b.const(b.i64, 1), units]
            b.call(pack_rhs_name(str(self.op.operand_dtype())), [source, *strides, units, count, target])


__all__ = ["emit_recurrence", "recurrence_schedule"]
