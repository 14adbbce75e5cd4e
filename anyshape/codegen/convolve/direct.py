"""The kernel of a convolution whose filters share little: a plane of results at a time, its windows read where a strip holds them.

A task is (batch point, filter, block of rows, block of columns), columns running fastest. Each channel of the filter's group is
copied to a strip with the zeros of its padding (`strips`), tiles of rows and vectors sum its windows (`planes`), and the epilogue makes
results of the block's sums. Sums of a row lie behind those of the row before, so a tile may store whole vectors: what it
stores beyond its row's end is overwritten by the rows behind, and columns are walked from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.plan import can_contract
from anyshape.codegen.convolve.planes import PlaneShape, emit_plane_tile
from anyshape.codegen.convolve.strips import emit_strip, widened
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.points import EmittedKernel, emit_rectangle
from anyshape.codegen.records import KernelBody, symbols_of
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import LINE, SUM_ELEMENTS
from anyshape.dialects.dhlo.convolution import MAX_DIRECT_FILTERS, MAX_DIRECT_PRODUCTS, MAX_REACH
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import KernelOp, buffer_of
from anyshape.dialects.tile.window import WindowAttr
from anyshape.kernels.cost import grain_of, operation_ticks
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_min

_COPIES = 6
"""Vector operations for a vector of results beside its multiply-adds: copied, stored, taken up and stored again."""


def direct_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a convolution over planes; sizes over the kernel's symbols."""
    layout = _Layout.of(op, machine)
    grain = grain_of(layout.time(layout.block_rows, layout.block_columns, machine), machine)
    return Schedule(layout.tasks, grain, Size.const(layout.scratch_bytes))


def direct_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a convolution over planes on one core."""
    layout = _Layout.of(op, machine)
    return layout.batch * layout.filters * layout.time(layout.rows, layout.columns, machine)


def reads_planes(op: ContractOp) -> bool:
    """Whether so few filters share a window, and are so small, that gathering windows for them would not pay."""
    window, (filters, _, products) = op.window, op.extents.data
    if window is None or window.spatial > 2 or not (filters.is_constant and products.is_constant):
        return False
    reaches = [
        (extent - 1) * apart
        for extent, apart in zip(window.extents.get_values(), window.dilation.get_values(), strict=True)
    ]
    few = filters.value <= MAX_DIRECT_FILTERS * window.groups.data
    return few and window.points > 1 and 0 < products.value <= MAX_DIRECT_PRODUCTS and max(reaches) <= MAX_REACH


@dataclass(frozen=True)
class _Layout:
    """Sizes of a convolution over planes.

    Args:
        filters: of all groups.
        depth: channels of a group.
        rows, columns: of a plane of results.
    """

    shape: PlaneShape
    window: WindowAttr
    element: str
    batch: Size
    filters: Size
    depth: int
    rows: Size
    columns: Size

    @staticmethod
    def of(op: ContractOp, machine: Machine) -> _Layout:
        reason = can_contract(op)
        window = op.window
        if reason is not None or window is None:
            raise CodegenError("this convolution cannot be claimed", where="tile.contract", got=reason)
        shape = PlaneShape.of(SUM_ELEMENTS[op.factors], machine, window)
        filters, _, products = op.extents.data
        (batch,) = op.batch.data
        sizes = (Size.const(1), *window.sizes.data)[-2:]
        return _Layout(shape, window, op.factors, batch, filters, products.value // shape.points, sizes[0], sizes[1])

    @property
    def filters_of_group(self) -> int:
        return max(1, self.filters.value // max(1, self.window.groups.data))

    @property
    def row_blocks(self) -> Size:
        return (self.rows + (self.shape.block[0] - 1)) // self.shape.block[0]

    @property
    def column_blocks(self) -> Size:
        return (self.columns + (self.shape.block[1] - 1)) // self.shape.block[1]

    @property
    def tasks(self) -> Size:
        return self.batch * self.filters * self.row_blocks * self.column_blocks

    @property
    def block_rows(self) -> Size:
        return size_min(self.rows, self.shape.block[0])

    @property
    def block_columns(self) -> Size:
        return size_min(self.columns, self.shape.block[1])

    def time(self, rows: Size, columns: Size, machine: Machine) -> Size:
        """Ticks for so many rows and columns of one filter."""
        vectors = rows * ((columns + (self.shape.lanes - 1)) // self.shape.lanes)
        speed = machine.rates.fma * self.shape.lanes / machine.f32_lanes
        multiply = operation_ticks(vectors * (self.depth * self.shape.points), 2 * self.shape.lanes / speed)
        return multiply + operation_ticks(vectors * (self.depth * _COPIES), machine.rates.simple)

    @property
    def weight_bytes(self) -> int:
        """Bytes for the weights of a filter in the type of sums, none where they are in it."""
        count = 0 if self.element == self.shape.element else self.depth * self.shape.points
        return -(-count * self.shape.element_bytes // LINE) * LINE

    @property
    def scratch_bytes(self) -> int:
        return self.shape.strip_bytes + self.shape.out_bytes + self.weight_bytes


def emit_direct(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a convolution over planes."""
    op = cast(ContractOp, op)
    layout = _Layout.of(op, machine)
    name, b = kernel.sym_name.data, Builder()
    emit_strip(module, f"{name}_strip", layout.shape, layout.element)
    for rows in layout.shape.rows:
        for vectors, lanes in layout.shape.widths:
            emit_plane_tile(module, _tile_name(name, rows, vectors * lanes), layout.shape, rows, vectors, lanes)
    emit_rectangle(module, kernel, op.epilogue, op.out, machine, f"{name}_epilogue")
    with module.function(name, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as f:
        _KernelBody.begin(b, kernel, op, layout, f.args).emit()
    return EmittedKernel(name, Size.const(layout.scratch_bytes))


def _tile_name(kernel: str, rows: int, columns: int) -> str:
    return f"{kernel}_tile_{rows}x{columns}"


@dataclass(frozen=True)
class _Block:
    """A task: its batch point, its filter, its first row and column, and how many of them; elements from one row of sums to the next."""

    batch: Value
    filter: Value
    row: Value
    column: Value
    rows: Value
    columns: Value
    out_row: Value


@dataclass(frozen=True)
class _Part:
    """A channel's part of a block's sums.

    Args:
        y: the plane's line that the strip begins at.
        height: lines of the plane.
        goes_on: whether channels came before.
    """

    block: _Block
    y: Value
    height: Value
    weights: Value
    goes_on: Value


@dataclass
class _KernelBody(KernelBody):
    """The body of a kernel under construction."""

    b: Builder
    name: str
    op: ContractOp
    layout: _Layout
    args: list[Value]
    symbols: Mapping[str, Value]
    strip: Value
    out: Value
    weights: Value
    element: Type

    @staticmethod
    def begin(b: Builder, kernel: KernelOp, op: ContractOp, layout: _Layout, args: list[Value]) -> _KernelBody:
        symbols, scratch = symbols_of(b, args[1], kernel.symbol_names), args[4]
        out = b.offset(scratch, b.i8, layout.shape.strip_bytes)
        weights = b.offset(out, b.i8, layout.shape.out_bytes)
        element = b.type(layout.shape.element)
        return _KernelBody(b, kernel.sym_name.data, op, layout, args, symbols, scratch, out, weights, element)

    def emit(self) -> None:
        """All tasks in [begin, end)."""
        b, layout = self.b, self.layout
        rows, columns, filters = (self.size(size) for size in (layout.rows, layout.columns, layout.filters))
        row_blocks, column_blocks = (self.size(size) for size in (layout.row_blocks, layout.column_blocks))
        image, weights = self._image(), self._filters()
        counts = (column_blocks, row_blocks, filters)
        with b.for_(self.args[2], self.args[3], 1, self._first_task(counts)) as task:
            column_block, row_block, filter_, batch = task.args
            row, column = b.mul(row_block, layout.shape.block[0]), b.mul(column_block, layout.shape.block[1])
            height = b.minimum(b.sub(rows, row), layout.shape.block[0])
            width = b.minimum(b.sub(columns, column), layout.shape.block[1])
            block = _Block(batch, filter_, row, column, height, width, self._out_row(width))
            self._emit_sums(block, image, weights(filter_))
            self._emit_epilogue(block, columns)
            task.yield_(*self._next_task(task.args, counts))

    def _first_task(self, counts: Sequence[Value]) -> list[Value]:
        """The numbers of the first task along the axes of tasks, fastest first; of so many there are along each but the last."""
        b, number = self.b, self.args[2]
        places: list[Value] = []
        for count in counts:
            quotient = b.div(number, b.maximum(count, 1))
            places.append(b.sub(number, b.mul(quotient, count)))
            number = quotient
        return [*places, number]

    def _next_task(self, places: Sequence[Value], counts: Sequence[Value]) -> list[Value]:
        """The numbers of the task behind: planes are often small, and divisions would take as long as they."""
        b = self.b
        following: list[Value] = []
        carry = b.const(b.i64, 1)
        for place, count in zip(places, counts, strict=False):
            moved = b.add(place, carry)
            ends = b.cmp("sge", moved, count)
            following.append(b.select(ends, 0, moved))
            carry = b.convert(ends, b.i64, signed=False)
        return [*following, b.add(places[-1], carry)]

    def _out_row(self, columns: Value) -> Value:
        """Sums that further channels are added to must stay as they are, so that their rows end with whole vectors."""
        b, (vectors, lanes) = self.b, self.layout.shape.widths[-1]
        return columns if self.layout.depth == 1 else b.mul(b.ceildiv(columns, vectors * lanes), vectors * lanes)

    def _filters(self) -> Callable[[Value], Value]:
        """Where the weights of a filter are, in the type of sums."""
        b, layout = self.b, self.layout
        memory = b.i16 if layout.element in ("bf16", "f16") else self.element
        first, stride = self.buffer(self.op.lhs), self.size(buffer_of(self.op.lhs).strides.data[1])

        def of(filter_: Value) -> Value:
            own = b.offset(first, memory, b.mul(filter_, stride))
            if memory == self.element:
                return own
            with b.for_(0, layout.depth * layout.shape.points) as k:
                weight = widened(b, b.load(own, memory, k.index), layout.element, layout.shape.element)
                b.store(weight, self.weights, k.index)
            return self.weights

        return of

    def _image(self) -> _Image:
        b, layout, image = self.b, self.layout, buffer_of(self.op.rhs)
        strides = [self.size(stride) for stride in image.strides.data[:-1]]
        sizes = [self.size(size) for size in image.sizes.data[2:]]
        if len(sizes) == 1:
            strides, sizes = [*strides, b.const(b.i64, 0)], [b.const(b.i64, 1), *sizes]
        memory = b.i16 if layout.element in ("bf16", "f16") else self.element
        return _Image(self.buffer(self.op.rhs), memory, *strides, *sizes)

    def _emit_sums(self, block: _Block, image: _Image, weights: Value) -> None:
        """The sums of a block's windows over all channels of its group, to scratch."""
        b, layout, shape = self.b, self.layout, self.layout.shape
        group = b.div(block.filter, layout.filters_of_group)
        y, x = (
            b.sub(b.mul(first, stride), before)
            for first, stride, before in zip((block.row, block.column), shape.strides, shape.padding, strict=True)
        )
        lines = b.add(b.mul(b.sub(block.rows, 1), shape.strides[0]), shape.reach(1))
        columns = b.add(block.columns, shape.further_columns)
        plane = b.add(b.mul(block.batch, image.batch), b.mul(b.mul(group, layout.depth), image.channel))
        with b.for_(0, layout.depth) as channel:
            first = b.offset(image.first, image.element, b.add(plane, b.mul(channel.index, image.channel)))
            b.call(
                f"{self.name}_strip", [first, image.line, image.height, image.width, y, x, lines, columns, self.strip]
            )
            own = b.offset(weights, self.element, b.mul(channel.index, shape.points))
            self._emit_tiles(_Part(block, y, image.height, own, b.cmp("sgt", channel.index, 0)))

    def _emit_tiles(self, part: _Part) -> None:
        """Rows in the larger tiles as long as they fill them, columns from the last to the first."""
        b, shape, count = self.b, self.layout.shape, part.block.rows
        if len(shape.rows) == 1:
            with b.for_(0, count, shape.rows[0]) as row:
                self._emit_row_of_tiles(part, shape.rows[0], row.index)
            return
        high, low = shape.rows
        left = b.rem(count, high)
        large = b.add(b.div(count, high), b.convert(b.cmp("sgt", left, low), b.i64, signed=False))
        if 2 * low > high:  # two smaller tiles take what is one row too many for a larger one
            halves = b.and_(b.cmp("eq", left, 2 * low - high), b.cmp("sgt", count, high))
            large = b.sub(large, b.convert(halves, b.i64, signed=False))
        large = b.mul(large, high)
        with b.for_(0, large, high) as row:
            self._emit_row_of_tiles(part, high, row.index)
        with b.for_(large, count, low) as row:
            self._emit_row_of_tiles(part, low, row.index)

    def _emit_row_of_tiles(self, part: _Part, rows: int, row: Value) -> None:
        b, shape, block = self.b, self.layout.shape, part.block
        widths = [vectors * lanes for vectors, lanes in shape.widths]
        units = b.ceildiv(block.columns, widths[-1])
        line = b.mul(row, shape.strides[0])
        top = b.add(part.y, line)
        ends = [
            b.cmp("sgt", b.add(top, shape.border), 0),
            b.cmp("slt", b.add(top, shape.reach(rows) - shape.border), part.height),
        ]
        start = b.mul(row, block.out_row)

        def emit(width: int, column: Value) -> None:
            source = b.offset(self.strip, self.element, b.add(b.mul(line, shape.line), column))
            target = b.offset(self.out, self.element, b.add(start, column))
            known = [source, part.weights, target, block.out_row, part.goes_on]
            b.call(_tile_name(self.name, rows, width), [*known, *ends])

        end = units
        for number, width in enumerate(reversed(widths[1:])):
            is_there = b.cmp("ne", b.and_(units, 1 << number), 0)
            end = b.sub(end, b.and_(units, 1 << number))
            with b.if_(is_there).then():
                emit(width, b.mul(end, widths[-1]))
        whole = b.div(end, widths[0] // widths[-1])
        with b.for_(0, whole) as tile:
            emit(widths[0], b.mul(b.sub(b.sub(whole, 1), tile.index), widths[0]))

    def _emit_epilogue(self, block: _Block, columns: Value) -> None:
        """Results of a block's sums: at once where they lie in memory as results do, else row by row."""
        b = self.b
        first = b.add(b.mul(block.row, columns), block.column)
        is_dense = b.cmp("eq", block.out_row, columns)
        count = b.select(is_dense, b.mul(block.rows, columns), block.columns)
        with b.for_(0, b.select(is_dense, 1, block.rows)) as row:
            start = b.add(first, b.mul(row.index, columns))
            sums = b.offset(self.out, self.element, b.mul(row.index, block.out_row))
            box = [block.filter, b.add(block.filter, 1), start, b.add(start, count)]
            known = [self.args[0], self.args[1], self.args[5]]
            b.call(f"{self.name}_epilogue", [*known, block.batch, *box, sums, b.const(b.i64, 0)])


@dataclass(frozen=True)
class _Image:
    """The image: its first element, elements' type in memory, strides of batch, channels and lines, the size of a plane."""

    first: Value
    element: Type
    batch: Value
    channel: Value
    line: Value
    height: Value
    width: Value


__all__ = ["direct_schedule", "direct_time", "emit_direct", "reads_planes"]
