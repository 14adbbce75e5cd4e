"""The kernel of a convolution as a product: its tasks, and what it hands to the block driver of `codegen.contract`.

A task is (group, row block of filters, span of panels of 64 columns), spans running fastest, or slowest where the filters of several groups
stay in the second-level cache, so that where a panel lies is written down once for all groups. A span is one panel, but several where they
are many and the filters do not stay in that cache, so that a depth block of them meets all panels of the span. Columns are the
places of all results of the batch one after another, so that small images share panels.

The sums of a task stay in scratch; of each tile just stored the epilogue makes results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.driver import (
    RESULT,
    SLOTS,
    Slot,
    block_name,
    declare_block_driver,
    gathered_at,
    may_crowd,
)
from anyshape.codegen.contract.epilogue import tile_epilogue_arguments
from anyshape.codegen.contract.plan import can_contract
from anyshape.codegen.convolve.gather import Context, emit_gather, gather_arguments
from anyshape.codegen.convolve.runs import MAX_LANES, Runs, emit_points, emit_runs
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.points import EmittedKernel, emit_rectangle
from anyshape.codegen.records import DriverCaller, symbols_of
from anyshape.codegen.sizes import emit_size
from anyshape.codegen.tiles.dot_tiles import FEW_COLUMNS
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, TileShape, tile_shape
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import KernelOp, buffer_of
from anyshape.dialects.tile.window import WindowAttr
from anyshape.kernels.cost import ProductWork, grain_of, product_time
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_TASKS_PER_THREAD = 4
_SPAN = 4
"""Panels of a span, at most."""
_SMALL_BLOCK_ROWS = 24
"""Rows below which a block would gather its panels too often for what it multiplies."""


def gathered_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a convolution; sizes over the kernel's symbols."""
    layout = _Layout.of(op, machine)
    grain = grain_of(product_time(_work(op, layout, machine).task, machine, footprint=machine.l2), machine)
    return Schedule(layout.groups * layout.blocks * layout.spans, grain, Size.const(layout.scratch_bytes))


def gathered_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a convolution on one core."""
    return product_time(_work(op, _Layout.of(op, machine), machine), machine)


def _work(op: ContractOp, layout: _Layout, machine: Machine) -> ProductWork:
    shape = layout.shape
    speed = shape.group * shape.lanes / machine.f32_lanes
    bytes_ = (shape.lhs_memory_bytes, shape.element_bytes)
    return ProductWork(
        Size.const(layout.groups), layout.rows, layout.columns, op.extents.data[2], layout.blocks, bytes_, shape.sum_bytes, speed,
        packed=False,
    )  # fmt: skip


@dataclass(frozen=True)
class _Layout:
    """The sizes of a convolution as a product, and the parts of a worker's scratch.

    Args:
        rows: filters of a group.
        columns: of all batch points.
        line: columns of one batch point.
        threads: tasks of a launch of few columns below which row blocks are made smaller.
        wanted_tasks: of one of more.
        keeps_panels: panels run slowest.
        span: panels of a span, at most.
    """

    shape: TileShape
    runs: Runs
    groups: int
    rows: Size
    columns: Size
    line: Size
    depth: Size
    block_rows: int
    threads: int
    wanted_tasks: int
    keeps_panels: bool
    span: int

    @staticmethod
    def of(op: ContractOp, machine: Machine) -> _Layout:
        reason = can_contract(op)
        if reason is not None or op.window is None:
            raise CodegenError("this convolution cannot be claimed", where="tile.contract", got=reason)
        shape = tile_shape(op.factors, machine)
        window: WindowAttr = op.window
        groups = window.groups.data
        rows, line, depth = op.extents.data
        (batch,) = op.batch.data
        lanes = min(MAX_LANES, machine.lanes(8 * shape.element_bytes))
        runs = Runs(window, buffer_of(op.rhs), lanes)
        tasks = _TASKS_PER_THREAD * machine.threads
        filters = (rows * depth * shape.lhs_memory_bytes).constant_or(machine.l2)
        keeps = groups > 1 and filters <= machine.l2 // 2
        span = _SPAN if groups == 1 and filters > machine.l2 // 2 else 1
        return _Layout(
            shape, runs, groups, rows // groups, batch * line, line, depth, shape.block_rows(depth), machine.threads, tasks, keeps,
            span,
        )  # fmt: skip

    @property
    def panels(self) -> Size:
        return (self.columns + (PANEL - 1)) // PANEL

    @property
    def fewest_blocks(self) -> Size:
        """Row blocks of a group that the cache allows."""
        return (self.rows + (self.block_rows - 1)) // self.block_rows

    @property
    def own_panels(self) -> Size:
        """Panels of a span: as many as leave threads tasks enough."""
        return size_max(1, size_min(self.span, self.panels * self.fewest_blocks // self.wanted_tasks))

    @property
    def spans(self) -> Size:
        return (self.panels + (self.own_panels - 1)) // self.own_panels

    @property
    def blocks(self) -> Size:
        """Row blocks of a group: as few as the cache allows, but where panels are few, enough for threads to share evenly."""
        tasks = self.groups * self.spans
        # Each block gathers its panels again. Of few columns that takes about as long as multiplying: a block for each thread is enough.
        is_wide = size_max(0, size_min(1, self.columns - PANEL // 2))
        most = self.threads + (self.wanted_tasks - self.threads) * is_wide
        wanted = (tasks + (most - 1)) // size_max(1, tasks)
        return size_max(self.fewest_blocks, size_min(self.rows // _SMALL_BLOCK_ROWS, wanted))

    @property
    def lhs_scratch(self) -> int:
        """Bytes for a copied row block of the filters; none when tiles read them where they lie."""
        in_groups = self.shape.group == 1 or self.depth % self.shape.group == Size.const(0)
        crowds = may_crowd(self.shape, self.rows, Size.const(self.span * PANEL), self.depth)
        if self.shape.reads_lhs and in_groups and not crowds:
            return 0
        return _whole_lines(self.block_rows * self.shape.copied_depth(self.shape.depth) * self.shape.lhs_bytes)

    @property
    def rhs_scratch(self) -> int:
        """Bytes for a packed panel, and for one as it is gathered where that has another form, or the copy of few columns."""
        panel = gathered_at(self.shape)
        other = FEW_COLUMNS * self.shape.depth if self.shape.is_wide else panel
        return _whole_lines((panel + other) * self.shape.element_bytes)

    @property
    def out_scratch(self) -> int:
        return self.block_rows * self.span * PANEL * self.shape.sum_bytes

    @property
    def scratch_bytes(self) -> int:
        return self.lhs_scratch + self.rhs_scratch + self.out_scratch + self.span * self.runs.bytes


def _whole_lines(bytes_: int) -> int:
    return -(-bytes_ // LINE) * LINE


def emit_gathered(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a convolution. Its block driver is external: link `microkernels.shared_objects`."""
    op = cast(ContractOp, op)
    layout = _Layout.of(op, machine)
    name, symbols = kernel.sym_name.data, kernel.symbol_names
    b = Builder()
    declare_block_driver(module, b, layout.shape.element)
    emit_points(module, f"{name}_points", symbols, layout.runs)
    emit_runs(module, f"{name}_runs", symbols, layout.runs)
    # Elements of 16 bits are moved as integers: no machine needs to know them as numbers.
    moved = "i16" if layout.shape.element_bytes == 2 else layout.shape.rhs_memory
    gather = emit_gather(module, layout.runs, moved)
    emit_rectangle(module, kernel, op.epilogue, op.out, machine, f"{name}_epilogue")
    _emit_tile_epilogue(module, b, kernel, layout)
    arguments = [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]
    with module.function(name, arguments) as f:
        _KernelBody.begin(b, kernel, op, layout, f.args, gather).emit()
    return EmittedKernel(name, gathered_schedule(op, machine).scratch_bytes)


def _emit_tile_epilogue(module: ModuleBuilder, b: Builder, kernel: KernelOp, layout: _Layout) -> None:
    """The epilogue in the block driver's form (`Slot.EPILOGUE`): columns are cut where a batch point ends."""
    name = kernel.sym_name.data
    with module.function(f"{name}_tile", tile_epilogue_arguments(b), internal=True) as f:
        context, row, rows, column, columns, tile, stride = f.args
        fixed = [
            b.load(b.offset(context, b.i64, slot.value), b.ptr)
            for slot in (Context.BUFFERS, Context.SIZES, Context.ERROR)
        ]
        line = emit_size(b, layout.line, symbols_of(b, fixed[1], kernel.symbol_names))
        batch = b.div(column, line)
        first = b.sub(column, b.mul(batch, line))
        end = b.add(first, columns)
        with b.for_(0, b.ceildiv(end, line)) as part:
            before = b.mul(part.index, line)
            start = b.maximum(b.sub(first, before), 0)
            stop = b.minimum(b.sub(end, before), line)
            done = b.maximum(b.sub(before, first), 0)
            sums = b.offset(tile, b.type(layout.shape.sum_element), done)
            box = [row, b.add(row, rows), start, stop]
            b.call(f"{name}_epilogue", [*fixed, b.add(batch, part.index), *box, sums, stride])


@dataclass
class _KernelBody(DriverCaller):
    """The body of a kernel under construction."""

    b: Builder
    name: str
    gather: str
    op: ContractOp
    layout: _Layout
    args: list[Value]
    symbols: Mapping[str, Value]
    factor_element: Type
    task: Value
    context: Value
    tables: Value

    @staticmethod
    def begin(
        b: Builder, kernel: KernelOp, op: ContractOp, layout: _Layout, args: list[Value], gather: str
    ) -> _KernelBody:
        task, context = b.alloca(b.i64, SLOTS), b.alloca(b.i64, len(Context))
        symbols = symbols_of(b, args[1], kernel.symbol_names)
        tables = b.offset(args[4], b.i8, layout.scratch_bytes - layout.span * layout.runs.bytes)
        element = b.type(layout.shape.lhs_memory)
        name = kernel.sym_name.data
        body = _KernelBody(b, name, gather, op, layout, args, symbols, element, task, context, tables)
        body._store_fixed_slots()
        return body

    def _store_fixed_slots(self) -> None:
        b, layout, name = self.b, self.layout, self.name
        fixed = {
            Context.BUFFERS: self.args[0], Context.SIZES: self.args[1], Context.ERROR: self.args[5], Context.TABLES: self.tables,
            Context.CHANNEL: self.size(buffer_of(self.op.rhs).strides.data[1]),
        }  # fmt: skip
        for slot, value in fixed.items():
            b.store(value, b.offset(self.context, b.i64, slot.value))
        scratch = self.args[4]
        values: dict[Slot, Value | Size | int] = {
            Slot.DEPTH: layout.depth, Slot.LHS_ROW: buffer_of(self.op.lhs).strides.data[1], Slot.LHS_DEPTH: 1,
            Slot.RHS: scratch, Slot.RHS_DEPTH: 0, Slot.RHS_COLUMN: 0, Slot.RHS_PANEL: 0, Slot.PACKED: 0,
            Slot.OUT_ROW: layout.span * PANEL,
            Slot.EPILOGUE: b.function_address(f"{name}_tile", tile_epilogue_arguments(b)), Slot.CONTEXT: self.context,
            Slot.LHS_SCRATCH: scratch if layout.lhs_scratch else 0, Slot.RHS_SCRATCH: b.offset(scratch, b.i8, layout.lhs_scratch),
            Slot.GATHER: b.function_address(self.gather, gather_arguments(b)),
        }  # fmt: skip
        for slot, value in values.items():
            self.set(slot, value)
        for panel in range(layout.span):
            b.call(f"{name}_points", [self.args[1], b.offset(self.tables, b.i8, panel * layout.runs.bytes)])

    def emit(self) -> None:
        """For each row of tasks, the part of it that lies in [begin, end)."""
        b, layout = self.b, self.layout
        begin, end = self.args[2], self.args[3]
        blocks, spans = self.size(layout.blocks), self.size(layout.spans)
        width = b.mul(blocks, layout.groups) if layout.keeps_panels else spans
        with b.for_(b.div(begin, width), b.ceildiv(end, width)) as line:
            first = b.maximum(b.sub(begin, b.mul(line.index, width)), 0)
            last = b.minimum(b.sub(end, b.mul(line.index, width)), width)
            (self._begin_span if layout.keeps_panels else self._begin_rows)(line.index)
            with b.for_(first, last) as task:
                is_copied = b.const(b.i1, 0) if layout.keeps_panels else b.cmp("sgt", task.index, first)
                self.set(Slot.LHS_KEPT, b.convert(is_copied, b.i64, signed=False))
                (self._begin_rows if layout.keeps_panels else self._begin_span)(task.index)
                b.call(block_name(layout.shape.element), [self.task])

    def _begin_rows(self, number: Value) -> None:
        """Tasks from here on are of row block `number`, groups one after another."""
        b, layout = self.b, self.layout
        filters, image = buffer_of(self.op.lhs), buffer_of(self.op.rhs)
        rows, blocks = self.size(layout.rows), self.size(layout.blocks)
        group = b.div(number, blocks)
        block = b.sub(number, b.mul(group, blocks))
        start = b.mul(group, rows)
        first_row = b.add(start, b.div(b.mul(rows, block), blocks))
        last_row = b.add(start, b.div(b.mul(rows, b.add(block, 1)), blocks))
        self.set(Slot.ROWS, b.sub(last_row, first_row))
        self.set(Slot.FIRST_ROW, first_row)
        row = b.mul(first_row, self.size(filters.strides.data[1]))
        self.set(Slot.LHS, b.offset(self.buffer(self.op.lhs), self.factor_element, row))
        channels = b.mul(group, self.size(layout.depth // layout.runs.points * image.strides.data[1]))
        own = b.offset(self.buffer(self.op.rhs), self.factor_element, channels)
        b.store(own, b.offset(self.context, b.i64, Context.IMAGE.value))

    def _begin_span(self, number: Value) -> None:
        """Tasks from here on are of the panels of that span."""
        b, layout = self.b, self.layout
        own = b.mul(self.size(layout.own_panels), PANEL)
        column = b.mul(number, own)
        columns = b.minimum(b.sub(self.size(layout.columns), column), own)
        self.set_result(RESULT, column, columns, b.offset(self.args[4], b.i8, layout.lhs_scratch + layout.rhs_scratch))
        b.store(columns, b.offset(self.context, b.i64, Context.COLUMNS.value))
        with b.for_(0, b.ceildiv(columns, PANEL)) as panel:
            first = b.mul(panel.index, PANEL)
            tables = b.offset(self.tables, b.i8, b.mul(panel.index, layout.runs.bytes))
            count = b.minimum(b.sub(columns, first), PANEL)
            b.call(f"{self.name}_runs", [self.args[1], tables, b.add(column, first), count])


__all__ = ["emit_gathered", "gathered_schedule", "gathered_time"]
