"""Recurrent layers whose units are shared by threads within each step.

One thread alone takes the layer. For each step it hands out parts (direction, block of rows, block of 64 units) to all threads, which ends
when all are done (`ral_run_parts`). The weights of a block of units are packed beforehand, a panel for each gate, so that a part reads
these only, and keeps reading the same from step to step. What a unit's sums are added up from, and in which order, does not
depend on the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.driver import SLOTS, Slot, block_name
from anyshape.codegen.mlir import ModuleBuilder, Value
from anyshape.codegen.records import set_slot
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.shape import MAX_ROWS
from anyshape.codegen.whole.body import WholeBody, kernel_arguments
from anyshape.codegen.whole.cells import RecurrentLayer, Units
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.packed_panels import PANEL
from anyshape.kernels.cost import WORTH
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

BLOCK_ROWS = 4 * MAX_ROWS
"""Rows of a block: their gates stay in the first-level cache beside the panel that they meet."""
LEAST_STEPS = 4
"""Steps from which on packing the weights pays."""
_MOST_ROWS = 8 * BLOCK_ROWS
"""Rows up to which the gates of all stay in a cache between the product and the cell."""


def shares_units(op: Recurrence, machine: Machine) -> bool:
    """Whether a step of one row takes so long that handing out its parts pays."""
    units = op.operand_sizes(1)[2]
    if has_two_products(op):
        return False
    if machine.threads < 2 or not units.is_constant or units.value <= PANEL:
        return False
    bytes_ = _weight_bytes(op)
    rate = machine.rates.l2 if bytes_ <= machine.l2 else max(machine.rates.l3, machine.rates.memory)
    return bytes_ / rate > WORTH * machine.rates.region


def has_two_products(op: Recurrence) -> bool:
    """Whether a step has a product of what the one before it gives: all units of a row must be there in between."""
    return op.cell_name == "gru_reset_before"


def _weight_bytes(op: Recurrence) -> int:
    """Of all directions; their sizes are known."""
    units = op.operand_sizes(1)[2].value
    return len(op.reversed) * op.cell.gates * units * units * op.operand_dtype().bytes


def _limit(op: Recurrence, machine: Machine) -> int:
    """Rows of all directions up to which units are shared, not rows: few, or all that may be where a thread could not keep the weights."""
    own = _weight_bytes(op) // len(op.reversed)
    return _MOST_ROWS if own > machine.l2 // 2 else machine.threads - 1


def is_shared(op: Recurrence, machine: Machine) -> Size:
    """1 where the rows of a call are so few that units are shared, else 0."""
    rows = op.operand_sizes(0)[1] * len(op.reversed)
    return size_max(0, size_min(1, _limit(op, machine) + 1 - rows))


def emit_is_shared(body: WholeBody, op: Recurrence) -> Value:
    """`is_shared`, steps enough to pack weights, and nobody else who takes a part of the layer."""
    b = body.b
    steps, batch = (body.size(size) for size in op.operand_sizes(0)[:2])
    rows = b.mul(batch, len(op.reversed))
    few = b.cmp("sle", rows, _limit(op, body.machine))
    is_alone = b.cmp("eq", b.sub(body.end, body.begin), rows)
    return b.and_(b.and_(few, is_alone), b.cmp("sge", steps, LEAST_STEPS))


@dataclass(frozen=True)
class _Blocks:
    """Units in blocks, and what is in scratch for them, in elements.

    Args:
        directions, gates, units: of the layer.
    """

    directions: int
    gates: int
    units: int

    @staticmethod
    def of(op: Recurrence) -> _Blocks:
        return _Blocks(len(op.reversed), op.cell.gates, op.operand_sizes(1)[2].value)

    @property
    def count(self) -> int:
        """Blocks of a direction."""
        return -(-self.units // PANEL)

    @property
    def panels(self) -> int:
        return self.directions * self.count * self.gates

    @property
    def panel(self) -> int:
        """Elements of a panel."""
        return self.units * PANEL

    @property
    def bias(self) -> int:
        """Where the biases begin: 64 for each panel."""
        return self.panels * self.panel

    @property
    def sums(self) -> int:
        """Where the sums begin: for each part, those of a block of rows."""
        return self.bias + self.panels * PANEL

    @property
    def part(self) -> int:
        """Elements of a part's sums."""
        return BLOCK_ROWS * self.gates * PANEL


def shared_bytes(op: Recurrence, machine: Machine) -> Size:
    """Scratch of the thread that takes the layer."""
    blocks, limit = _Blocks.of(op), _limit(op, machine)
    row_blocks = (size_min(op.operand_sizes(0)[1], limit) + (BLOCK_ROWS - 1)) // BLOCK_ROWS
    parts = row_blocks * (blocks.directions * blocks.count)
    return (parts * blocks.part + blocks.sums) * op.operand_dtype().bytes


class SharedUnits:
    """The kernel of such a layer: `emit` builds its body, the constructor what must stand in the entry block."""

    def __init__(self, body: WholeBody, op: Recurrence) -> None:
        b = body.b
        self.body, self.op, self.blocks = body, op, _Blocks.of(op)
        self.pointers = [*body.inputs, body.outputs[0], body.scratch]
        self.buffers = b.alloca(b.i64, len(self.pointers))
        self.sizes = b.alloca(b.i64, 3)

    def emit(self) -> None:
        """Pack all weights, then all steps, each by all threads."""
        b, body, op = self.body.b, self.body, self.op
        name = body.name
        for number, pointer in enumerate(self.pointers):
            b.store(pointer, b.offset(self.buffers, b.i64, number))
        steps, batch = (body.size(size) for size in op.operand_sizes(0)[:2])
        b.store(steps, self.sizes, 0)
        b.store(batch, self.sizes, 1)
        _emit_pack(body.module, f"{name}_pack", op, body.machine)
        _emit_step(body.module, f"{name}_step", op, body.machine)
        body.run_parts(f"{name}_pack", self.buffers, self.sizes, b.const(b.i64, self.blocks.panels))
        parts = b.mul(b.ceildiv(batch, BLOCK_ROWS), self.blocks.directions * self.blocks.count)
        with b.for_(0, steps) as step:
            b.store(step.index, self.sizes, 2)
            body.run_parts(f"{name}_step", self.buffers, self.sizes, parts)


@dataclass(frozen=True)
class _Shared:
    """What a part finds: the layer, its step, the scratch of the thread that took it."""

    layer: RecurrentLayer
    step: Value
    scratch: Value

    @staticmethod
    def of(b: Builder, op: Recurrence, machine: Machine, buffers: Value, sizes: Value) -> _Shared:
        count = len(op.operands)
        pointers = [b.load(b.offset(buffers, b.i64, number), b.ptr) for number in range(count + 2)]
        steps, batch, step = (b.load(sizes, b.i64, number) for number in range(3))
        units = op.operand_sizes(1)[2].value
        gates = b.const(b.i64, op.cell.gates * units)
        layer = RecurrentLayer(
            b, op, machine, pointers[:count], pointers[count], steps, batch, gates, b.const(b.i64, units)
        )  # fmt: skip
        return _Shared(layer, step, pointers[count + 1])

    def at(self, element: Value | int) -> Value:
        """The address of an element of the scratch."""
        return self.layer.b.offset(self.scratch, self.layer.element, element)


def _emit_pack(module: ModuleBuilder, name: str, op: Recurrence, machine: Machine) -> None:
    """Define the kernel that packs the weights of a gate of a block of units, and puts their biases beside; points are panels."""
    b, blocks = Builder(machine.features), _Blocks.of(op)
    with module.function(name, kernel_arguments(b), internal=True) as f:
        buffers, sizes, begin, end, _, _ = f.args
        shared = _Shared.of(b, op, machine, buffers, sizes)
        element, inputs = shared.layer.element, shared.layer.inputs
        with b.for_(begin, end) as panel:
            gate = b.rem(panel.index, blocks.gates)
            block = b.div(panel.index, blocks.gates)
            direction = b.div(block, blocks.count)
            first = b.mul(b.sub(block, b.mul(direction, blocks.count)), PANEL)
            columns = b.minimum(b.sub(blocks.units, first), PANEL)
            row = b.add(b.mul(b.add(b.mul(direction, blocks.gates), gate), blocks.units), first)
            target = shared.at(b.mul(panel.index, blocks.panel))
            source = b.offset(inputs[1], element, b.mul(row, blocks.units))
            strides = [b.const(b.i64, 1), b.const(b.i64, blocks.units)]
            depth = b.const(b.i64, blocks.units)
            b.call(pack_rhs_name(str(op.operand_dtype())), [source, *strides, depth, columns, target])
            bias = shared.at(b.add(b.mul(panel.index, PANEL), blocks.bias))
            own = b.offset(inputs[2], element, row)
            width = machine.lanes(8 * op.operand_dtype().bytes)
            for start in range(0, PANEL, width):
                mask = b.tail_mask(b.sub(columns, start), width)
                b.store(b.load(own, element, start, width=width, mask=mask), bias, start)


def _emit_step(module: ModuleBuilder, name: str, op: Recurrence, machine: Machine) -> None:
    """Define the kernel of one step; points are (direction, block of rows, block of units)."""
    b, blocks = Builder(machine.features), _Blocks.of(op)
    with module.function(name, kernel_arguments(b), internal=True) as f:
        buffers, sizes, begin, end, _, _ = f.args
        shared = _Shared.of(b, op, machine, buffers, sizes)
        layer, element, task = shared.layer, shared.layer.element, b.alloca(b.i64, SLOTS)
        for slot in Slot:
            set_slot(b, task, slot, b.const(b.i64, 0))
        row_blocks = b.ceildiv(layer.batch, BLOCK_ROWS)
        with b.for_(begin, end) as part:
            line = b.div(part.index, blocks.count)
            block = b.sub(part.index, b.mul(line, blocks.count))
            direction = b.div(line, row_blocks)
            first_row = b.mul(b.sub(line, b.mul(direction, row_blocks)), BLOCK_ROWS)
            rows = b.minimum(b.sub(layer.batch, first_row), BLOCK_ROWS)
            place = layer.place(direction, shared.step)
            states, stride = layer.before(place, first_row)
            panel = b.mul(b.add(b.mul(direction, blocks.count), block), blocks.gates)
            sums = shared.at(b.add(b.mul(part.index, blocks.part), blocks.sums))
            bias = shared.at(b.add(b.mul(panel, PANEL), blocks.bias))
            values: dict[Slot, Value | int] = {
                Slot.ROWS: rows, Slot.COLUMNS: blocks.gates * PANEL, Slot.DEPTH: blocks.units, Slot.LHS: states[0],
                Slot.LHS_ROW: stride, Slot.LHS_DEPTH: 1, Slot.RHS: shared.at(b.mul(panel, blocks.panel)),
                Slot.RHS_DEPTH: PANEL, Slot.RHS_COLUMN: 1, Slot.RHS_PANEL: blocks.panel, Slot.PACKED: 1, Slot.OUT: sums,
                Slot.OUT_ROW: blocks.gates * PANEL, Slot.INIT: bias,
            }  # fmt: skip
            for slot, value in values.items():
                set_slot(b, task, slot, b.const(b.i64, value) if isinstance(value, int) else value)
            b.call(block_name(str(op.operand_dtype())), [task])
            first = b.mul(block, PANEL)
            count = b.minimum(b.sub(blocks.units, first), PANEL)
            with b.for_(0, rows) as row:
                own = b.offset(sums, element, b.mul(row.index, blocks.gates * PANEL))
                products = [b.offset(own, element, gate * PANEL) for gate in range(blocks.gates)]
                layer.emit_cell(place, b.add(first_row, row.index), Units(first, count, products))


__all__ = [
    "BLOCK_ROWS", "LEAST_STEPS", "SharedUnits", "emit_is_shared", "has_two_products", "is_shared", "shared_bytes", "shares_units",
]  # fmt: skip
