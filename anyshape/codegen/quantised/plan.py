"""A `tile.contract` over block-quantised weights as a kernel: what its tasks are, and the function that hands them to the driver.

A task is (row block, run of 64 columns each), columns running fastest. Whoever begins a row block rounds its rows first, so a task has
as many columns as leave one for each thread; where rows are few, and rounding them costs nothing, it has 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.ir import BlockArgument, Operation, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.epilogue import bias_of, emit_tile_epilogue, tile_epilogue_arguments
from anyshape.codegen.mlir import ModuleBuilder, Value
from anyshape.codegen.points import EmittedKernel
from anyshape.codegen.quantised.driver import COLUMNS, SLOTS, Slot, declare_driver, driver_name
from anyshape.codegen.quantised.shape import Activations, BlockShape, Method, block_shape
from anyshape.codegen.sizes import emit_size
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.dialects.packed_blocks import PANEL_ROWS, TILE_COLUMNS
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import KernelOp, buffer_of
from anyshape.kernels.cost import grain_of, operation_ticks, transfer_time
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_FEW_ROWS = 8
_SMALL_BLOCK_ROWS = 24
"""Rows below which a block would read the weights too often for what it multiplies."""
_MAX_BLOCK_ROWS = 256
_SPEED: Mapping[Method, float] = {"bytes": 2.8, "pairs": 0.8, "plain": 0.2}
"""Multiply-adds in the time of one of f32, for each plane of activations."""
_LINE = 64


def shape_of(op: ContractOp, machine: Machine) -> BlockShape:
    """The tiles of a product with blocks."""
    assert op.blocks is not None and op.activations is not None
    return block_shape(op.blocks.data, cast(Activations, op.activations.data), machine)


def quantised_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a product; sizes over the kernel's symbols."""
    layout = _Layout.of(op, machine)
    blocks, runs = size_max(1, layout.blocks), size_max(1, layout.runs)
    rows = (layout.rows + (blocks - 1)) // blocks
    columns = (layout.groups + (runs - 1)) // runs * COLUMNS
    task = _time(layout, rows, columns, Size.const(1), machine, machine.last_level_cache)
    return Schedule(layout.blocks * layout.runs, grain_of(task, machine), Size.const(layout.scratch_bytes))


def quantised_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a product on one core; see `anyshape.kernels.cost`."""
    layout = _Layout.of(op, machine)
    return _time(layout, layout.rows, layout.columns, layout.blocks, machine, None)


def _time(layout: _Layout, rows: Size, columns: Size, blocks: Size, machine: Machine, footprint: int | None) -> Size:
    """Ticks of a product of these sizes: multiply-adds, or weights read once for each row block."""
    shape = layout.shape
    speed = _SPEED[shape.method] / shape.planes
    multiply = operation_ticks(rows * columns * layout.depth, 2 / (machine.rates.fma * speed))
    weights = (columns + (PANEL_ROWS - 1)) // PANEL_ROWS * shape.layout.panel_bytes(layout.depth)
    read = transfer_time(weights * blocks, weights if footprint is None else footprint, machine)
    return size_max(multiply, read)


@dataclass(frozen=True)
class _Layout:
    """A product's sizes, and the parts of a worker's scratch."""

    shape: BlockShape
    rows: Size
    columns: Size
    depth: int
    lhs_row: Size
    out_row: Size
    block_rows: int
    """Rows of a row block, at most."""
    threads: int
    in_place: bool
    """Sums go straight to `out`; otherwise to scratch, from where the epilogue takes them."""
    bias: BlockArgument | None
    """A buffer whose row starts the sums, when adding it is all that the epilogue does."""
    is_plain: bool
    """The epilogue does nothing else."""

    @staticmethod
    def of(op: ContractOp, machine: Machine) -> _Layout:
        shape, out = shape_of(op, machine), buffer_of(op.out)
        rows, columns, depth = op.extents.data
        bias, is_plain = bias_of(op)
        in_place = str(out.element_type) == "f32" and out.strides.data[-1].constant_or(None) == 1
        is_plain = is_plain and in_place
        block_rows = machine.l2 // 2 // max(1, depth.value // TILE_COLUMNS * shape.row_bytes)
        block_rows = max(shape.max_rows, min(_MAX_BLOCK_ROWS, block_rows // shape.max_rows * shape.max_rows))
        return _Layout(
            shape, rows, columns, depth.value, buffer_of(op.lhs).strides.data[0], out.strides.data[0], block_rows,
            machine.threads, in_place, bias if is_plain else None, is_plain,
        )  # fmt: skip

    @property
    def groups(self) -> Size:
        """Groups of 64 columns."""
        return (self.columns + (COLUMNS - 1)) // COLUMNS

    @property
    def blocks(self) -> Size:
        """Row blocks: as few as the cache allows, and a multiple of the threads unless they would be small."""
        fewest = (self.rows + (self.block_rows - 1)) // self.block_rows
        even = (size_max(fewest, 1) + (self.threads - 1)) // self.threads * self.threads
        return size_max(fewest, size_min(self.rows // _SMALL_BLOCK_ROWS, even))

    @property
    def runs(self) -> Size:
        """Runs of columns into which a row block is cut."""
        few = size_max(0, size_min(1, _FEW_ROWS + 1 - self.rows))
        shared = (self.threads + (self.blocks - 1)) // size_max(1, self.blocks)
        return size_min(self.groups, size_max(few * self.groups, shared))

    @property
    def rounded_bytes(self) -> int:
        """Bytes for the rounded rows of a block."""
        bytes_ = self.block_rows * (self.depth // TILE_COLUMNS) * self.shape.row_bytes
        return -(-bytes_ // _LINE) * _LINE

    @property
    def scratch_bytes(self) -> int:
        return self.rounded_bytes + (0 if self.in_place else self.block_rows * COLUMNS * 4)


def emit_quantised(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a product with blocks. Its driver is external: link the part `quantised` of the micro-kernels."""
    op = cast(ContractOp, op)
    layout = _Layout.of(op, machine)
    b = Builder()
    declare_driver(module, b, layout.shape)
    epilogue = None if layout.is_plain else emit_tile_epilogue(module, b, kernel, op, machine)
    with module.function(kernel.sym_name.data, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as f:
        _KernelBody.begin(b, kernel, op, layout, f.args, epilogue).emit()
    return EmittedKernel(kernel.sym_name.data, Size.const(layout.scratch_bytes))


@dataclass
class _KernelBody:
    """The body of a kernel under construction."""

    b: Builder
    op: ContractOp
    layout: _Layout
    args: list[Value]
    symbols: Mapping[str, Value]
    task: Value

    @staticmethod
    def begin(
        b: Builder, kernel: KernelOp, op: ContractOp, layout: _Layout, args: list[Value], epilogue: str | None
    ) -> _KernelBody:
        task, context = b.alloca(b.i64, SLOTS), b.alloca(b.i64, 3)
        symbols = {name: b.load(args[1], b.i64, number) for number, name in enumerate(kernel.symbol_names)}
        body = _KernelBody(b, op, layout, args, symbols, task)
        for slot, value in enumerate((args[0], args[1], args[5])):
            b.store(value, b.offset(context, b.i64, slot))
        body.set(Slot.UNITS, layout.depth // layout.shape.layout.format.elements)
        body.set(Slot.LHS_ROW, layout.lhs_row)
        body.set(Slot.OUT_ROW, layout.out_row if layout.in_place else COLUMNS)
        body.set(Slot.EPILOGUE, 0 if epilogue is None else b.function_address(epilogue, tile_epilogue_arguments(b)))
        body.set(Slot.CONTEXT, context)
        body.set(Slot.SCRATCH, args[4])
        return body

    def set(self, slot: Slot, value: Value | Size | int) -> None:
        """Store a slot of the task record."""
        b = self.b
        if isinstance(value, int):
            value = b.const(b.i64, value)
        elif isinstance(value, Size):
            value = self._size(value)
        b.store(value, b.offset(self.task, b.i64, slot.value))

    def _size(self, size: Size) -> Value:
        return emit_size(self.b, size, self.symbols)

    def emit(self) -> None:
        """For each row block, the runs of it that lie in [begin, end)."""
        b, layout = self.b, self.layout
        begin, end = self.args[2], self.args[3]
        sizes = (layout.rows, layout.blocks, layout.groups, layout.runs)
        rows, blocks, groups, runs = (self._size(size) for size in sizes)
        with b.for_(b.div(begin, runs), b.ceildiv(end, runs)) as block:
            first_run = b.maximum(b.sub(begin, b.mul(block.index, runs)), 0)
            last_run = b.minimum(b.sub(end, b.mul(block.index, runs)), runs)
            first, last = (b.div(b.mul(groups, run), runs) for run in (first_run, last_run))
            first_row = b.div(b.mul(rows, block.index), blocks)
            self.set(Slot.ROWS, b.sub(b.div(b.mul(rows, b.add(block.index, 1)), blocks), first_row))
            self.set(Slot.FIRST_ROW, first_row)
            lhs = b.offset(self._buffer(self.op.lhs), b.f32, b.mul(first_row, self._size(layout.lhs_row)))
            self.set(Slot.LHS, lhs)
            if layout.in_place:
                self.set(Slot.ROUNDED, 0)
                self._emit_groups(first_row, first, last)
            else:
                with b.for_(first, last) as group:
                    self.set(Slot.ROUNDED, b.convert(b.cmp("sgt", group.index, first), b.i64, signed=False))
                    self._emit_groups(first_row, group.index, b.add(group.index, 1))

    def _buffer(self, buffer: SSAValue) -> Value:
        assert isinstance(buffer, BlockArgument)
        return self.b.load(self.b.offset(self.args[0], self.b.i64, buffer.index), self.b.ptr)

    def _emit_groups(self, first_row: Value, first: Value, last: Value) -> None:
        """Call the driver for the groups [first, last) of a row block."""
        b, layout = self.b, self.layout
        column = b.mul(first, COLUMNS)
        self.set(Slot.FIRST_COLUMN, column)
        self.set(Slot.COLUMNS, b.sub(b.minimum(b.mul(last, COLUMNS), self._size(layout.columns)), column))
        group_bytes = COLUMNS // PANEL_ROWS * layout.shape.layout.panel_bytes(layout.depth)
        self.set(Slot.RHS, b.offset(self._buffer(self.op.rhs), b.i8, b.mul(first, group_bytes)))
        if layout.in_place:
            place = b.add(b.mul(first_row, self._size(layout.out_row)), column)
            self.set(Slot.OUT, b.offset(self._buffer(self.op.out), b.f32, place))
        else:
            self.set(Slot.OUT, b.offset(self.args[4], b.i8, layout.rounded_bytes))
        if layout.bias is None:
            self.set(Slot.INIT, 0)
        else:
            self.set(Slot.INIT, b.offset(self._buffer(layout.bias), b.f32, column))
        b.call(driver_name(layout.shape), [self.task])


__all__ = ["emit_quantised", "quantised_schedule", "quantised_time", "shape_of"]
