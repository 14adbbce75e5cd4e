"""A `tile.contract` over block-quantised weights as a kernel: what its tasks are, and the function that hands them to the driver.

A task is (row block, run of 64 columns each), columns running fastest. Whoever begins a row block rounds its rows first, so a task has
as many columns as leave one for each thread; where rows are few, and rounding them costs nothing, it has 64. Where it computes them too
(a prologue), that costs something at few rows also: there are then `_RUNS_PER_THREAD` tasks for each thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.ir import BlockArgument, Operation

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.epilogue import bias_of, emit_tile_epilogue, tile_epilogue_arguments
from anyshape.codegen.contract.prologue import copied_table, kept_scratch, rows_kernel
from anyshape.codegen.mlir import ModuleBuilder, Value
from anyshape.codegen.points import EmittedKernel, emit_kernel
from anyshape.codegen.quantised.driver import (
    COLUMNS,
    RESULT,
    SLOTS,
    Slot,
    declare_driver,
    driver_name,
    prologue_arguments,
)
from anyshape.codegen.quantised.shape import Activations, BlockShape, Method, block_shape
from anyshape.codegen.records import DriverCaller, symbols_of
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
_RUNS_PER_THREAD = 2
"""Tasks of a thread where rows are few and each task computes them."""
_SPEED: Mapping[Method, float] = {"bytes": 2.8, "shorts": 1.6, "pairs": 0.8, "plain": 0.2}
"""Multiply-adds in the time of one of f32, for each plane of activations."""
_LINE = 64
_CONTEXT = 4
"""Slots of the context of prologue and epilogue: buffers, sizes, the error cell, scratch of the prologue."""


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
    return Schedule(layout.blocks * layout.runs, grain_of(task, machine), layout.scratch_bytes)


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
    prologue: ContractOp | None
    """The product itself, if it computes its left-hand side."""
    kept_scratch: Size
    """Bytes that the function of a prologue's rows wants for itself."""

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
            machine.threads, in_place, bias if is_plain else None, is_plain, None if op.prologue is None else op,
            kept_scratch(op, machine),
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
        most = self.groups if self.prologue is None else Size.const(self.threads * _RUNS_PER_THREAD)
        return size_min(self.groups, size_max(few * most, shared))

    @property
    def rounded_bytes(self) -> int:
        """Bytes for the rounded rows of a block."""
        bytes_ = self.block_rows * (self.depth // TILE_COLUMNS) * self.shape.row_bytes
        return -(-bytes_ // _LINE) * _LINE

    @property
    def rows_place(self) -> int:
        """Where the rows of a tile that a prologue computes lie in scratch, behind the rounded ones and the sums of a task."""
        return self.rounded_bytes + (0 if self.in_place else self.block_rows * COLUMNS * 4)

    @property
    def kept_place(self) -> int:
        """Where the function of the rows has its own scratch."""
        return self.rows_place + (
            0 if self.prologue is None else -(-self.shape.max_rows * self.depth * 4 // _LINE) * _LINE
        )

    @property
    def scratch_bytes(self) -> Size:
        return self.kept_scratch + self.kept_place


def emit_quantised(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a product with blocks. Its driver is external: link the part `quantised` of the micro-kernels."""
    op = cast(ContractOp, op)
    layout = _Layout.of(op, machine)
    b = Builder()
    declare_driver(module, b, layout.shape)
    epilogue = None if layout.is_plain else emit_tile_epilogue(module, b, kernel, op, machine)
    prologue = None if op.prologue is None else _emit_prologue(module, kernel, op, machine)
    with module.function(kernel.sym_name.data, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as f:
        _KernelBody.begin(b, kernel, op, layout, f.args, epilogue, prologue).emit()
    return EmittedKernel(kernel.sym_name.data, layout.scratch_bytes)


def _emit_prologue(module: ModuleBuilder, kernel: KernelOp, op: ContractOp, machine: Machine) -> str:
    """Define the function of `Slot.PROLOGUE`; returns its symbol. Its context is that of the epilogue, and the rows' own scratch."""
    b, count = Builder(), len(kernel.body.block.args)
    rows = emit_kernel(module, rows_kernel(kernel, op), machine).name
    name = f"{kernel.sym_name.data}_prologue"
    with module.function(name, prologue_arguments(b), internal=True) as f:
        context, first, number, where = f.args
        buffers, sizes, error, scratch = (b.load(b.offset(context, b.i64, slot), b.ptr) for slot in range(_CONTEXT))
        table = copied_table(b, buffers, count)
        # The rows' function counts rows of the whole left-hand side.
        before = b.mul(first, emit_size(b, -op.extents.data[2], {}))
        b.store(b.offset(where, b.f32, before), b.offset(table, b.i64, count))
        b.call(rows, [table, sizes, first, b.add(first, number), scratch, error])
    return name


@dataclass
class _KernelBody(DriverCaller):
    """The body of a kernel under construction."""

    b: Builder
    op: ContractOp
    layout: _Layout
    args: list[Value]
    symbols: Mapping[str, Value]
    task: Value

    @staticmethod
    def begin(
        b: Builder, kernel: KernelOp, op: ContractOp, layout: _Layout, args: list[Value], epilogue: str | None,
        prologue: str | None,
    ) -> _KernelBody:  # fmt: skip
        task, context = b.alloca(b.i64, SLOTS), b.alloca(b.i64, _CONTEXT)
        symbols = symbols_of(b, args[1], kernel.symbol_names)
        body = _KernelBody(b, op, layout, args, symbols, task)
        for slot, value in enumerate((args[0], args[1], args[5], b.offset(args[4], b.i8, layout.kept_place))):
            b.store(value, b.offset(context, b.i64, slot))
        body.set(Slot.UNITS, layout.depth // layout.shape.layout.format.elements)
        body.set(Slot.LHS_ROW, layout.lhs_row)
        body.set(Slot.OUT_ROW, layout.out_row if layout.in_place else COLUMNS)
        body.set(Slot.EPILOGUE, 0 if epilogue is None else b.function_address(epilogue, tile_epilogue_arguments(b)))
        body.set(Slot.PROLOGUE, 0 if prologue is None else b.function_address(prologue, prologue_arguments(b)))
        body.set(Slot.CONTEXT, context)
        body.set(Slot.SCRATCH, args[4])
        return body

    def emit(self) -> None:
        """For each row block, the runs of it that lie in [begin, end)."""
        b, layout = self.b, self.layout
        begin, end = self.args[2], self.args[3]
        sizes = (layout.rows, layout.blocks, layout.groups, layout.runs)
        rows, blocks, groups, runs = (self.size(size) for size in sizes)
        with b.for_(b.div(begin, runs), b.ceildiv(end, runs)) as block:
            first_run = b.maximum(b.sub(begin, b.mul(block.index, runs)), 0)
            last_run = b.minimum(b.sub(end, b.mul(block.index, runs)), runs)
            first, last = (b.div(b.mul(groups, run), runs) for run in (first_run, last_run))
            first_row = b.div(b.mul(rows, block.index), blocks)
            self.set(Slot.ROWS, b.sub(b.div(b.mul(rows, b.add(block.index, 1)), blocks), first_row))
            self.set(Slot.FIRST_ROW, first_row)
            self.set(Slot.LHS, self._left(first_row))
            if layout.in_place:
                self.set(Slot.ROUNDED, 0)
                self._emit_groups(first_row, first, last)
            else:
                with b.for_(first, last) as group:
                    self.set(Slot.ROUNDED, b.convert(b.cmp("sgt", group.index, first), b.i64, signed=False))
                    self._emit_groups(first_row, group.index, b.add(group.index, 1))

    def _left(self, first_row: Value) -> Value:
        """What `Slot.LHS` is for a row block."""
        b, layout = self.b, self.layout
        if layout.prologue is not None:
            return b.offset(self.args[4], b.i8, layout.rows_place)
        return b.offset(self.buffer(self.op.lhs), b.f32, b.mul(first_row, self.size(layout.lhs_row)))

    def _emit_groups(self, first_row: Value, first: Value, last: Value) -> None:
        """Call the driver for the groups [first, last) of a row block."""
        b, layout = self.b, self.layout
        column = b.mul(first, COLUMNS)
        group_bytes = COLUMNS // PANEL_ROWS * layout.shape.layout.panel_bytes(layout.depth)
        self.set(Slot.RHS, b.offset(self.buffer(self.op.rhs), b.i8, b.mul(first, group_bytes)))
        columns = b.sub(b.minimum(b.mul(last, COLUMNS), self.size(layout.columns)), column)
        if layout.in_place:
            place = b.add(b.mul(first_row, self.size(layout.out_row)), column)
            out = b.offset(self.buffer(self.op.out), b.f32, place)
        else:
            out = b.offset(self.args[4], b.i8, layout.rounded_bytes)
        bias = None if layout.bias is None else (self.buffer(layout.bias), b.f32)
        self.set_result(RESULT, column, columns, out, bias)
        b.call(driver_name(layout.shape), [self.task])


__all__ = ["emit_quantised", "quantised_schedule", "quantised_time", "shape_of"]
