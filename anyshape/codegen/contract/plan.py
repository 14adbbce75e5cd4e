"""`tile.contract` as a kernel: what its tasks are, and the small function that hands each of them to the block driver.

A task is (batch point, row block, panel of 64 columns), panels running fastest. A launch gives each thread a contiguous
range of tasks, that is whole rows of panels but for its ends, so at one row threads share the panels and at many rows the row blocks.

With a prologue a task has as many panels of its row block as possible, since whoever multiplies a row block computes its rows first: all
of them where there is a row block for each thread, else a part for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from xdsl.ir import BlockArgument, Operation, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.driver import RESULT, SLOTS, Slot, block_name, declare_block_driver, may_crowd
from anyshape.codegen.contract.epilogue import bias_of, emit_tile_epilogue, tile_epilogue_arguments
from anyshape.codegen.contract.prologue import copied_table, kept_scratch, row_bytes, rows_bytes, rows_kernel
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.points import EmittedKernel, emit_kernel
from anyshape.codegen.records import DriverCaller, symbols_of
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, SUM_ELEMENTS, TileShape, tile_shape
from anyshape.dialects.packed_panels import PANEL, packed_depth
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import KernelOp, buffer_of
from anyshape.kernels.cost import ProductWork, grain_of, product_time
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_TASKS_PER_THREAD = 8
_SMALL_BLOCK_ROWS = 24
"""Rows below which a block would read the right-hand side too often for what it multiplies."""
_GROUPS_PER_THREAD = 4
"""Groups of panels that a thread may take of a row block whose rows are few, or of many batch points."""
_FEW_ROWS = 8
"""Rows that may be computed so often by one thread in all, for the sake of smaller tasks."""


def contract_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a product; sizes over the kernel's symbols."""
    layout = _Layout.of(op, machine)
    extent = prod(layout.batch, start=layout.blocks * layout.groups)
    task = _work(op, layout, machine).task
    if op.prologue is not None:
        groups = size_max(1, layout.groups)
        task = replace(task, columns=(layout.panels + (groups - 1)) // groups * PANEL)
    grain = grain_of(product_time(task, machine, footprint=machine.l2), machine)
    return Schedule(extent, grain, layout.rows_scratch + layout.scratch_bytes)


def contract_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a product on one core; see `anyshape.kernels.cost`."""
    return product_time(_work(op, _Layout.of(op, machine), machine), machine)


def _work(op: ContractOp, layout: _Layout, machine: Machine) -> ProductWork:
    shape = layout.shape
    speed = shape.group * shape.lanes / machine.f32_lanes
    return ProductWork.of(op, layout.blocks, (shape.lhs_memory_bytes, shape.element_bytes), shape.sum_bytes, speed)


@dataclass(frozen=True)
class _Layout:
    """A product's sizes and strides, and the parts of a worker's scratch."""

    shape: TileShape
    batch: tuple[Size, ...]
    rows: Size
    columns: Size
    depth: Size
    lhs: tuple[Size, ...]
    rhs: tuple[Size, ...]
    out: tuple[Size, ...]
    packed: bool
    block_rows: int
    """Rows of a row block, at most."""
    wanted_tasks: int
    """Tasks of a launch below which row blocks are made smaller."""
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
    threads: int

    @staticmethod
    def of(op: ContractOp, machine: Machine) -> _Layout:
        lhs, rhs, out = buffer_of(op.lhs), buffer_of(op.rhs), buffer_of(op.out)
        sum_ = op.epilogue.block.args[-1]
        reason = can_contract(op)
        if reason is not None:
            raise CodegenError(
                "this product cannot be claimed",
                where="tile.contract",
                got=reason,
                expected=f"factors of one of {', '.join(SUM_ELEMENTS)}",
                remedy="check `can_contract` first",
            )
        shape = tile_shape(op.factors, machine)
        rows, columns, depth = op.extents.data
        bias, is_plain = bias_of(op)
        in_place = str(out.element_type) == shape.sum_element and out.strides.data[-1].constant_or(None) == 1
        is_plain = is_plain and in_place and out.element_type == sum_.type
        wanted_tasks = _TASKS_PER_THREAD * machine.threads
        return _Layout(
            shape, op.batch.data, rows, columns, depth, lhs.strides.data, rhs.strides.data, out.strides.data,
            op.packed is not None, _block_rows(op, shape, machine), wanted_tasks, in_place, bias if is_plain else None,
            is_plain, None if op.prologue is None else op, kept_scratch(op, machine), machine.threads,
        )  # fmt: skip

    @property
    def panels(self) -> Size:
        return (self.columns + (PANEL - 1)) // PANEL

    @property
    def blocks(self) -> Size:
        """Row blocks: as few as the cache allows, but where panels are few, enough for threads to share evenly."""
        fewest = (self.rows + (self.block_rows - 1)) // self.block_rows
        if self.prologue is not None:
            # A multiple of the threads, or they would not share whole row blocks evenly.
            points = prod(self.batch, start=Size.const(1))
            wanted = self.threads if not self.batch else (points + (self.threads - 1)) // size_max(1, points)
            wanted = (size_max(fewest, wanted) + (self.threads - 1)) // self.threads * self.threads
            return size_max(fewest, size_min(self.rows // _SMALL_BLOCK_ROWS, wanted if not self.batch else fewest))
        tasks = prod(self.batch, start=self.panels)
        wanted = (tasks + (self.wanted_tasks - 1)) // size_max(1, tasks)
        return size_max(fewest, size_min(self.rows // _SMALL_BLOCK_ROWS, wanted))

    @property
    def groups(self) -> Size:
        """Groups of panels into which a row block is cut: one panel each, or as few as give each thread a task."""
        if self.prologue is None:
            return self.panels
        lines = prod(self.batch, start=self.blocks)
        wanted = Size.const(_GROUPS_PER_THREAD)
        if not self.batch:
            wanted = size_max(1, size_min(wanted, Size.const(_FEW_ROWS) // size_max(1, self.rows)))
        wanted = self.threads * wanted
        return size_min(self.panels, (lines + (wanted - 1)) // size_max(1, lines))

    @property
    def rows_scratch(self) -> Size:
        """Bytes for the rows of a block that a prologue computes, and for what it keeps of one row meanwhile."""
        op = self.prologue
        return Size.const(0) if op is None else rows_bytes(op, self.block_rows) + self.kept_scratch

    @property
    def lhs_scratch(self) -> int:
        """Bytes for a copied row block of the left-hand side; none when tiles read it where it lies."""
        in_groups = self.shape.group == 1 or self.depth % self.shape.group == Size.const(0)
        crowds = self.in_place and may_crowd(self.shape, self.rows, self.columns, self.lhs[-2])
        if self.shape.reads_lhs and in_groups and self.lhs[-1].constant_or(None) == 1 and not crowds:
            return 0
        bytes_ = self.block_rows * self.shape.copied_depth(self.shape.depth) * self.shape.lhs_bytes
        return -(-bytes_ // LINE) * LINE

    @property
    def rhs_scratch(self) -> int:
        """Bytes for one packed panel."""
        return 0 if self.packed else self.shape.depth * PANEL * self.shape.element_bytes

    @property
    def out_scratch(self) -> int:
        """Bytes for the sums of one task."""
        return 0 if self.in_place else self.block_rows * PANEL * self.shape.sum_bytes

    @property
    def scratch_bytes(self) -> int:
        return self.lhs_scratch + self.rhs_scratch + self.out_scratch


def _block_rows(op: ContractOp, shape: TileShape, machine: Machine) -> int:
    """Rows of a row block; those that a prologue computes fill at most the second-level cache, all of their depth."""
    rows = shape.block_rows(op.extents.data[2])
    bytes_ = None if op.prologue is None else row_bytes(op).constant_or(None)
    if not bytes_:
        return rows
    return max(MAX_ROWS, min(rows, machine.l2 // bytes_ // MAX_ROWS * MAX_ROWS))


def can_contract(op: ContractOp) -> str | None:
    """None when `emit_contract` takes the product, else the reason why it does not."""
    factors, sum_ = op.factors, str(op.epilogue.block.args[-1].type)
    # Sums of bf16 and f16 reach the epilogue in f32, whether it knows them as such or as values of the narrow type.
    narrow = {factors} - {"i8"}
    if sum_ in {SUM_ELEMENTS.get(factors)} | narrow & SUM_ELEMENTS.keys():
        return None
    lhs, rhs = (str(buffer_of(side).element_type) for side in (op.lhs, op.rhs))
    return f"the product is {lhs} · {rhs} summed in {sum_}; register tiles exist for {', '.join(SUM_ELEMENTS)}"


def emit_contract(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a product. Its block driver is external: link `microkernels.shared_objects`."""
    op = cast(ContractOp, op)
    layout = _Layout.of(op, machine)
    name = kernel.sym_name.data
    b = Builder()
    declare_block_driver(module, b, layout.shape.element)
    tile_epilogue = None if layout.is_plain else emit_tile_epilogue(module, b, kernel, op, machine)
    rows = None if op.prologue is None else emit_kernel(module, rows_kernel(kernel, op), machine).name
    arguments = [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]
    with module.function(name, arguments) as f:
        _KernelBody.begin(b, kernel, op, layout, f.args, tile_epilogue, rows).emit()
    return EmittedKernel(name, contract_schedule(op, machine).scratch_bytes)


@dataclass(frozen=True)
class _Rows:
    """The function that computes rows, and a table of buffers for it whose last entry is where they go."""

    name: str
    buffers: Value


@dataclass
class _KernelBody(DriverCaller):
    """The body of a kernel under construction."""

    b: Builder
    kernel: KernelOp
    op: ContractOp
    layout: _Layout
    args: list[Value]
    symbols: Mapping[str, Value]
    lhs_element: Type
    rhs_element: Type
    sum_element: Type
    task: Value
    context: Value
    rows: _Rows | None

    @staticmethod
    def begin(
        b: Builder, kernel: KernelOp, op: ContractOp, layout: _Layout, args: list[Value], tile_epilogue: str | None,
        rows: str | None,
    ) -> _KernelBody:  # fmt: skip
        task = b.alloca(b.i64, SLOTS)
        context = b.alloca(b.i64, 3 + len(layout.batch))
        symbols = symbols_of(b, args[1], kernel.symbol_names)
        shape = layout.shape
        elements = b.type(shape.lhs_memory), b.type(shape.rhs_memory), b.type(shape.sum_element)
        table = None if rows is None else _Rows(rows, copied_table(b, args[0], len(kernel.body.block.args)))
        body = _KernelBody(b, kernel, op, layout, args, symbols, *elements, task, context, table)
        body._store_fixed_slots(tile_epilogue)
        return body

    def _store_fixed_slots(self, tile_epilogue: str | None) -> None:
        b, layout = self.b, self.layout
        for slot, value in enumerate((self.args[0], self.args[1], self.args[5])):
            b.store(value, b.offset(self.context, b.i64, slot))
        scratch = self.args[4]
        # A packed panel has 64 adjacent columns for each k.
        rhs = (
            (PANEL, 1, PANEL * packed_depth(layout.shape.element, layout.depth))
            if layout.packed
            else (*layout.rhs[-2:], PANEL * layout.rhs[-1])
        )
        self.set(Slot.DEPTH, layout.depth)
        self.set(Slot.LHS_ROW, layout.lhs[-2])
        self.set(Slot.LHS_DEPTH, layout.lhs[-1])
        self.set(Slot.RHS_DEPTH, rhs[0])
        self.set(Slot.RHS_COLUMN, rhs[1])
        self.set(Slot.RHS_PANEL, rhs[2])
        self.set(Slot.PACKED, int(layout.packed))
        self.set(Slot.OUT_ROW, layout.out[-2] if layout.in_place else PANEL)
        if tile_epilogue is None:
            self.set(Slot.EPILOGUE, 0)
        else:
            self.set(Slot.EPILOGUE, b.function_address(tile_epilogue, tile_epilogue_arguments(b)))
        self.set(Slot.CONTEXT, self.context)
        self.set(Slot.GATHER, 0)
        self.set(Slot.LHS_SCRATCH, scratch if layout.lhs_scratch else 0)
        self.set(Slot.RHS_SCRATCH, b.offset(scratch, b.i8, layout.lhs_scratch))

    def emit(self) -> None:
        """For each row of tasks, the part of it that lies in [begin, end)."""
        b, layout = self.b, self.layout
        begin, end = self.args[2], self.args[3]
        rows = self.size(layout.rows)
        blocks, groups = self.size(layout.blocks), self.size(layout.groups)
        with b.for_(b.div(begin, groups), b.ceildiv(end, groups)) as line:
            first = b.maximum(b.sub(begin, b.mul(line.index, groups)), 0)
            last = b.minimum(b.sub(end, b.mul(line.index, groups)), groups)
            batch = b.div(line.index, blocks)
            block = b.sub(line.index, b.mul(batch, blocks))
            first_row = b.div(b.mul(rows, block), blocks)
            last_row = b.div(b.mul(rows, b.add(block, 1)), blocks)
            indices = self._batch_indices(batch)
            self.set(Slot.ROWS, b.sub(last_row, first_row))
            self.set(Slot.FIRST_ROW, first_row)
            if self.rows is None:
                lhs = self._address(self.op.lhs, layout.lhs, [*indices, first_row], self.lhs_element)
            else:
                lhs = self._emit_rows(self.rows, b.mul(batch, rows), first_row, last_row)
                panels = self.size(layout.panels)
                first, last = (b.div(b.mul(panels, number), groups) for number in (first, last))
            self.set(Slot.LHS, lhs)
            if layout.in_place:
                self.set(Slot.LHS_KEPT, 0)
                self._emit_panels(indices, first_row, first, last)
            else:
                with b.for_(first, last) as panel:
                    self.set(Slot.LHS_KEPT, b.convert(b.cmp("sgt", panel.index, first), b.i64, signed=False))
                    self._emit_panels(indices, first_row, panel.index, b.add(panel.index, 1))

    def _emit_rows(self, rows: _Rows, before: Value, first_row: Value, last_row: Value) -> Value:
        """Compute the rows of a block of a batch point that has `before` rows in front of it; where they are."""
        b, layout = self.b, self.layout
        start = b.offset(self.args[4], b.i8, layout.scratch_bytes)
        row_zero = b.offset(start, self.lhs_element, b.neg(b.mul(first_row, self.size(layout.depth))))
        b.store(row_zero, b.offset(rows.buffers, b.i64, len(self.kernel.body.block.args)))
        kept = b.offset(start, b.i8, self.size(rows_bytes(self.op, layout.block_rows)))
        points = [b.add(before, row) for row in (first_row, last_row)]
        b.call(rows.name, [rows.buffers, self.args[1], *points, kept, self.args[5]])
        return start

    def _batch_indices(self, number: Value) -> list[Value]:
        """The batch point of that row-major number; also stored to the epilogue's context."""
        b = self.b
        indices: list[Value] = []
        for axis, size in reversed(list(enumerate(self.layout.batch))):
            if axis == 0:
                index = number
            else:
                extent = self.size(size)
                quotient = b.div(number, extent)
                index = b.sub(number, b.mul(quotient, extent))
                number = quotient
            b.store(index, b.offset(self.context, b.i64, 3 + axis))
            indices.insert(0, index)
        return indices

    def _address(self, buffer: SSAValue, strides: Sequence[Size], indices: Sequence[Value], element: Type) -> Value:
        """The address of buffer[indices, 0…]."""
        b = self.b
        pointer = self.buffer(buffer)
        for stride, index in zip(strides, indices, strict=False):
            pointer = b.offset(pointer, element, b.mul(index, self.size(stride)))
        return pointer

    def _emit_panels(self, indices: list[Value], first_row: Value, first: Value, last: Value) -> None:
        """Call the block driver for the panels [first, last) of a row block."""
        b, layout = self.b, self.layout
        column = b.mul(first, PANEL)
        columns = b.sub(b.minimum(b.mul(last, PANEL), self.size(layout.columns)), column)
        rhs = self.buffer(self.op.rhs)
        if not layout.packed:
            rhs = self._address(self.op.rhs, layout.rhs, indices, self.rhs_element)
        panel_stride = b.load(b.offset(self.task, b.i64, Slot.RHS_PANEL.value), b.i64)
        self.set(Slot.RHS, b.offset(rhs, self.rhs_element, b.mul(first, panel_stride)))
        if layout.in_place:
            out = self._address(self.op.out, layout.out, [*indices, first_row], self.sum_element)
            out = b.offset(out, self.sum_element, column)
        else:
            out = b.offset(self.args[4], b.i8, layout.lhs_scratch + layout.rhs_scratch)
        bias = None if layout.bias is None else (self.buffer(layout.bias), self.sum_element)
        self.set_result(RESULT, column, columns, out, bias)
        b.call(block_name(layout.shape.element), [self.task])
