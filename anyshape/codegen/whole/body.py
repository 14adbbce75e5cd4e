"""The body of a kernel of one whole op under construction: its buffers, sizes, points and ways to report."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import FunctionBuilder, ModuleBuilder, Operand, Type, Value, byte_size
from anyshape.codegen.sizes import emit_size
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.dialects.tile import KernelOp, WholeOp
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

REPORT_INDEX = "ral_report_index"
RUN_PARTS = "ral_run_parts"
_STRIP = 64
"""Elements of a row that are kept in registers, where they fill vectors."""


VectorStep = Callable[[Value, int, Value | None], None]
"""(first element, width, mask): the code of one vector; without a mask all of its lanes are on."""


def kernel_arguments(b: Builder) -> list[Type]:
    """(buffers, sizes, begin, end, scratch, error): what RAL calls a kernel with."""
    return [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]


def emit_vectors(b: Builder, machine: Machine, count: Value, element: Type, step: VectorStep) -> None:
    """`step(first, width, mask)` over `count` elements: whole vectors without a mask, then a masked rest."""
    width = machine.lanes(8 * byte_size(element))
    whole = b.sub(count, b.rem(count, width))
    with b.for_(0, whole, width) as loop:
        step(loop.index, width, None)
    with b.if_(b.cmp("slt", whole, count)).then():
        step(whole, width, b.tail_mask(b.sub(count, whole), width))


@dataclass(frozen=True)
class Strip:
    """Some vectors of a row, from element `first` on: for each a mask, None where all of its lanes are on."""

    first: Value
    width: int
    masks: Sequence[Value | None]

    def places(self, b: Builder) -> Iterator[tuple[Value, Value | None]]:
        """(where a vector begins in the row, its mask)"""
        for number, mask in enumerate(self.masks):
            yield b.add(self.first, number * self.width), mask


class WholeBody:
    """What an emitter of one op works with. Points [begin, end) are this call's part of the schedule's extent.

    Attributes:
        b: appends machine-level code.
        name: the kernel's.
        inputs, outputs: addresses of the op's operands and results, row-major.
        begin, end: the points to compute.
        scratch: the worker's own memory, as much as the schedule asks for.
    """

    def __init__(self, b: Builder, module: ModuleBuilder, kernel: KernelOp, op: WholeOp, function: FunctionBuilder,
                 machine: Machine) -> None:  # fmt: skip
        buffers, sizes, self.begin, self.end, self.scratch, self._error = function.args
        self.b, self.module, self.op, self.machine = b, module, op, machine
        self.name = kernel.sym_name.data
        self._symbols = {name: b.load(sizes, b.i64, number) for number, name in enumerate(kernel.symbol_names)}
        self._sizes: dict[Size, Value] = {}
        pointers = [b.load(buffers, b.ptr, number) for number in range(len(op.buffers))]
        count = len(op.op.operands)
        self.inputs, self.outputs = pointers[:count], pointers[count:]
        # Sizes that are used inside loops are computed here, in the entry block.
        for value in (*op.op.operands, *op.op.results):
            for size in (*sizes_of(value.type), numel(sizes_of(value.type))):
                self.size(size)

    def size(self, size: Size | int) -> Value:
        """The value of a size over the kernel's symbols."""
        expression = Size.of(size)
        if expression not in self._sizes:
            self._sizes[expression] = emit_size(self.b, expression, self._symbols)
        return self._sizes[expression]

    def dtype(self, operand: int) -> DType:
        """The dtype of an operand."""
        return dtype_of(self.op.op.operands[operand].type)

    def element(self, dtype: DType) -> Type:
        """What an element is in memory: a bool is a byte."""
        return self.b.i8 if dtype.is_bool else self.b.type(str(dtype.scalar))

    def report(self, wrong: Value, index: Value, bound: Value) -> None:
        """Where the i1 `wrong` holds, the launch fails with an error naming index and bound."""
        b = self.b
        if self.op.site is None:
            raise CodegenError("an op that checks indices has no site to report them at", where=self.op.op.name)
        self.module.declare(REPORT_INDEX, [b.ptr, b.i64, b.i64, b.i64])
        with b.if_(wrong).then():
            b.call(REPORT_INDEX, [self._error, b.const(b.i64, self.op.site.value.data), index, bound])

    def vectors(self, count: Value, element: Type, step: VectorStep) -> None:
        """`emit_vectors` for this machine."""
        emit_vectors(self.b, self.machine, count, element, step)

    def run_parts(self, name: str, buffers: Value, sizes: Value, extent: Value) -> None:
        """Run a function of the module with a kernel's arguments (`kernel_arguments`) over [0, extent) on all threads that are free."""
        b = self.b
        self.module.declare(RUN_PARTS, [b.ptr, b.ptr, b.ptr, b.ptr, b.i64, b.i64])
        address = b.function_address(name, kernel_arguments(b))
        b.call(RUN_PARTS, [self._error, address, buffers, sizes, extent, b.const(b.i64, 1)])

    @contextmanager
    def strips(self, row: Size, element: Type) -> Generator[Strip]:
        """A loop over the strips of a row of that size; its body is built inside the `with`."""
        b = self.b
        width = self.machine.lanes(8 * byte_size(element))
        known = row.constant_or(None)
        vectors = max(1, _STRIP // width)
        if known is not None and known <= vectors * width:
            vectors = max(1, -(-known // width))
            rest = [known - number * width for number in range(vectors)]
            masks = [None if left >= width else b.tail_mask(b.const(b.i64, left), width) for left in rest]
            yield Strip(b.const(b.i64, 0), width, masks)
            return
        extent = self.size(row)
        with b.for_(0, extent, vectors * width) as loop:
            left = b.sub(extent, loop.index)
            masks = [b.tail_mask(b.sub(left, number * width), width) for number in range(vectors)]
            yield Strip(loop.index, width, masks)

    def copy(self, target: Value, source: Value, element: Type, first: Operand, count: Value) -> None:
        """target[first : first + count] = source[first : first + count]"""
        b = self.b
        bits = b.type(f"i{8 * byte_size(element)}")
        target, source = b.offset(target, bits, first), b.offset(source, bits, first)

        def move(at: Value, width: int, mask: Value | None) -> None:
            b.store(b.load(source, bits, at, width=width, mask=mask), target, at, mask=mask)

        self.vectors(count, bits, move)

    def fill(self, target: Value, value: Value, first: Operand, count: Value) -> None:
        """target[first : first + count] = value"""
        b = self.b
        element = b.element_type(value)
        target = b.offset(target, element, first)

        def put(at: Value, width: int, mask: Value | None) -> None:
            b.store(b.broadcast(value, width), target, at, mask=mask)

        self.vectors(count, element, put)


__all__ = ["WholeBody", "emit_vectors", "kernel_arguments"]
