"""Entry functions: a `tile.kernel`, or a rectangle of a claimed product's epilogue, as a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, Region, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Value
from anyshape.codegen.points.memory import Memory
from anyshape.codegen.points.nest import NestEmitter
from anyshape.codegen.points.scalar import compute_type
from anyshape.codegen.points.schedule import Schedule, nested_ops
from anyshape.codegen.points.streams import streamed_sizes, streams
from anyshape.codegen.points.values import Frame, Points, Uniform, Varying, lane_start
from anyshape.codegen.sizes import element_bytes, emit_sizes
from anyshape.dialects.tile import (
    AxisOp,
    CheckOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    buffer_of,
)
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, SizeLike, size_min

_SCRATCH_ALIGNMENT = 64


@dataclass(frozen=True)
class EmittedKernel:
    """A kernel function of a module: its symbol, and the bytes of scratch that each worker must bring."""

    name: str
    scratch_bytes: Size


Claim = Callable[[ModuleBuilder, KernelOp, Operation, Machine], EmittedKernel]


def emit_kernel(
    module: ModuleBuilder, kernel: KernelOp, machine: Machine, claims: Mapping[type[Operation], Claim] | None = None
) -> EmittedKernel:
    """Define the function of a kernel in an entered module; see the package's page. CodegenError for an outermost op that
    is neither `parallel`, `lanes` without reductions, nor claimed.
    """
    outermost = _outermost(kernel)
    claim = (claims or {}).get(type(outermost))
    if claim is not None:
        return claim(module, kernel, outermost, machine)
    schedule = Schedule(machine)
    b = Builder(machine.features)
    name = kernel.sym_name.data
    jam = schedule.rows(outermost) if isinstance(outermost, ParallelOp) else 1
    pieces, scratch_bytes = _scratch_layout(kernel, outermost, schedule)
    with module.function(name, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as function:
        buffers, sizes, begin, end, scratch, error = function.args
        entry = _Entry(b, module, kernel, buffers, sizes, error)
        offsets = [offset for offset, _ in pieces.values()] + [size for _, size in pieces.values()]
        streamed = streamed_sizes(b, kernel, machine)
        memory = entry.memory(kernel.body.block, [*offsets, *streamed.values()])
        for buffer, bytes_ in streamed.items():
            memory.streams[buffer] = streams(b, memory.sizes(bytes_), machine)
        for piece, (offset, size) in pieces.items():
            first = b.offset(scratch, b.i8, memory.sizes(offset))
            step = memory.sizes(size)
            entry.pointers[piece] = [b.offset(first, b.i8, b.mul(step, row)) if row else first for row in range(jam)]
        nest = NestEmitter(b, memory, schedule)
        for op in kernel.body.block.ops:
            if op is not outermost:
                nest.operation(op, Frame())
        if isinstance(outermost, ParallelOp):
            nest.parallel(outermost, (begin, end))
        elif isinstance(outermost, LanesOp) and not outermost.results:
            nest.lanes(outermost, (begin, end), Frame())
        else:
            raise CodegenError(
                "the outermost op of a kernel cannot be divided among threads",
                where=name,
                got=outermost.name,
                expected="tile.parallel, tile.lanes without reductions, or an op that the target claims",
            )
        for is_on in memory.streams.values():
            with b.if_(is_on).then():
                b.fence()
    return EmittedKernel(name, scratch_bytes)


def emit_rectangle(
    module: ModuleBuilder, kernel: KernelOp, region: Region, out: SSAValue, machine: Machine, name: str
) -> str:
    """Define the function that runs an epilogue region over a rectangle of sums; see the package's page. Returns `name`.

    Args:
        region: takes the batch indices, i, j and the sum; yields the element to store.
        out: the buffer, of rank batch + 2, that the yields go to.
    """
    b = Builder(machine.features)
    block = region.block
    batch, (row, column, sum_) = block.args[:-3], block.args[-3:]
    element = compute_type(b, sum_.type)
    parameters = [b.ptr, b.ptr, b.ptr, *[b.i64] * len(batch), *[b.i64] * 4, b.ptr, b.i64]
    with module.function(name, parameters, internal=True) as function:
        buffers, sizes, error = function.args[:3]
        i0, i1, j0, j1, tile, row_stride = function.args[-6:]
        entry = _Entry(b, module, kernel, buffers, sizes, error)
        schedule = Schedule(machine)
        memory = entry.memory(block, (), (out,))
        nest = NestEmitter(b, memory, schedule)
        for op in kernel.body.block.ops:
            if not op.regions:
                nest.operation(op, Frame())
        for argument, value in zip(batch, function.args[3 : 3 + len(batch)], strict=True):
            nest.values[argument] = Uniform((value,))
        with b.for_(i0, i1, 1) as rows:
            nest.values[row] = Uniform((rows.index,))
            start = b.sub(b.mul(b.sub(rows.index, i0), row_stride), j0)
            sums = b.offset(tile, element, start)

            def load_sum(index: Value, frame: Frame, sums: Value = sums) -> Points:
                own = Uniform((index,), step=1)
                starts = [lane_start(b, own, 0, vector, frame) for vector in range(frame.vectors)]
                loaded = [b.load(sums, element, at, width=frame.width, mask=frame.mask) for at in starts]
                return Varying((tuple(loaded),))

            def store(value: Points, frame: Frame) -> None:
                memory.store(value, out, [nest.values[index] for index in block.args[:-1]], frame)

            nest.columns(block, column, (j0, j1), load_sum, store)
    return name


def _outermost(kernel: KernelOp) -> Operation:
    found = [op for op in kernel.body.block.ops if not isinstance(op, SizeOp) and (op.regions or not op.results)]
    if len(found) != 1:
        raise CodegenError(
            "a kernel has one outermost op", where=kernel.sym_name.data, got=[op.name for op in found], expected="one"
        )
    return found[0]


def scratch_bytes_of(kernel: KernelOp, machine: Machine) -> Size:
    """Bytes of scratch for each worker of a kernel that `emit_kernel` defines without a claim."""
    return _scratch_layout(kernel, _outermost(kernel), Schedule(machine))[1]


def _scratch_layout(
    kernel: KernelOp, outermost: Operation, schedule: Schedule
) -> tuple[dict[SSAValue, tuple[Size, Size]], Size]:
    """For each scratch its offset in bytes and the bytes of one row's piece, then the bytes of all."""
    rows, longest = 1, None
    if isinstance(outermost, ParallelOp):
        # So many are computed side by side, where that is a number only if they have up to `longest` bytes of f32 each.
        rows, longest = schedule.rows(outermost), schedule.jam_bytes(outermost)
    pieces: dict[SSAValue, tuple[Size, Size]] = {}
    total = Size.const(0)
    for op in nested_ops(kernel.body.block):
        if isinstance(op, ScratchOp):
            type_ = buffer_of(op.result)
            size = Size.const(element_bytes(type_.element_type))
            for extent in type_.sizes.data:
                size = size * extent
            size = (size + _SCRATCH_ALIGNMENT - 1) // _SCRATCH_ALIGNMENT * _SCRATCH_ALIGNMENT
            pieces[op.result] = (total, size)
            # A row in as many elements of eight bytes each is twice as long.
            others = size if longest is None else size_min(size, 2 * longest)
            total = total + size + others * (rows - 1)
    return pieces, total


@dataclass
class _Entry:
    """The beginning of a function: buffer pointers and sizes that the plan uses, read from the launch's tables."""

    builder: Builder
    module: ModuleBuilder
    kernel: KernelOp
    buffers: Value
    size_table: Value
    error: Value

    def __post_init__(self) -> None:
        self.pointers: dict[SSAValue, Sequence[Value]] = {}

    def memory(self, block: Block, sizes: Iterable[Size] = (), used: Iterable[SSAValue] = ()) -> Memory:
        """Emit the reads and the size arithmetic for the ops of a block."""
        b = self.builder
        ops = [*self.kernel.body.block.ops, *nested_ops(block)]
        accessed = dict.fromkeys([*used, *(op.buffer for op in ops if isinstance(op, LoadOp | StoreOp))])
        for buffer in accessed:
            if isinstance(buffer.owner, Block):
                position = self.kernel.body.block.args.index(buffer)
                self.pointers[buffer] = [b.load(self.buffers, b.ptr, position)]
        wanted = dict.fromkeys([*sizes, *_sizes_of(self.kernel.body.block, block), *_strides(accessed)])
        names = sorted(frozenset[str]().union(*(size.symbols for size in wanted)))
        table = {name: self._symbol(name) for name in names}
        values = emit_sizes(b, wanted, table)

        def size_value(size: Size) -> Value:
            if size.is_constant:
                return b.const(b.i64, size.value)
            return values[size]

        return Memory(b, self.module, self.pointers, size_value, self.error)

    def _symbol(self, name: str) -> Value:
        symbols = self.kernel.symbol_names
        if name not in symbols:
            raise CodegenError(
                "a kernel uses a size symbol that is not among its own",
                where=self.kernel.sym_name.data,
                got=name,
                expected=", ".join(symbols),
            )
        return self.builder.load(self.size_table, self.builder.i64, symbols.index(name))


def _strides(buffers: Iterable[SSAValue]) -> Iterator[Size]:
    for buffer in buffers:
        yield from buffer_of(buffer).strides.data


def _sizes_of(*blocks: Block) -> Iterator[Size]:
    """Sizes that the ops of blocks name."""
    for block in blocks:
        for op in nested_ops(block):
            match op:
                case AxisOp() | DotOp():
                    yield op.size
                case ParallelOp():
                    total: SizeLike = 1
                    for extent in op.extents.data:
                        yield extent
                        total = total * extent
                    yield Size.of(total)
                case SizeOp():
                    yield op.expression
                case CheckOp():
                    yield op.bound.data[0]
                case _:
                    pass


__all__ = ["Claim", "EmittedKernel", "emit_kernel", "emit_rectangle", "scratch_bytes_of"]
