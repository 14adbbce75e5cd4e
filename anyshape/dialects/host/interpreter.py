"""Slow reference of host programs: numpy memory, kernels run point by point, no arena.

Fresh memory is poisoned, so that a read before a write shows in the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from anyshape.dialects.dtypes import dtype_of_type
from anyshape.dialects.host.ops import (
    AllocateOp,
    BindOp,
    CheckOp,
    ConstantOp,
    DenseOp,
    GuardAxisOp,
    GuardOp,
    InPlaceOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReadOp,
    ViewOp,
    root_of,
)
from anyshape.dialects.messages import filled
from anyshape.dialects.tile import KernelOp, buffer_of
from anyshape.dialects.tile.interpreter import IndexFault, run_kernel
from anyshape.support.errors import (
    DATA_ERRORS,
    ArgumentError,
    GuardError,
    IndexOutOfRange,
    MemoryLimit,
    error_from_text,
)

Array: TypeAlias = NDArray[Any]


class RunKernel(Protocol):
    """Runs the points [begin, end) of a kernel on flat memory, appending the checks that failed to `errors`."""

    def __call__(
        self,
        kernel: KernelOp,
        buffers: Sequence[Array],
        sizes: Mapping[str, int],
        *,
        begin: int,
        end: int,
        errors: list[IndexFault],
    ) -> None: ...


_POISON = 0xA5


def run_program(
    program: ProgramOp,
    kernels: Mapping[str, KernelOp],
    inputs: Sequence[Array],
    constants: Sequence[Array],
    *,
    run: RunKernel = run_kernel,
) -> list[Array]:
    """The outputs of the program for these inputs (any strides) and constants (in the order of its table).

    Raises:
        GuardError: a guard does not hold, or a check of data; the text is the message of the op.
        MemoryLimit: a tensor would have a negative size.
        IndexOutOfRange: a kernel met an index out of range; the text is that of its site.
    """
    call = _Call(program, kernels, inputs, constants, run)
    ops = list(program.body.block.ops)
    known = next((place for place, op in enumerate(ops) if isinstance(op, ReadOp)), len(ops))
    for op in ops[:known]:
        call.check(op)
    for place, op in enumerate(ops):
        if place > known:
            call.check(op)
        call.step(op)
    return [call.outputs[index] for index in range(len(call.outputs))]


class _Call:
    """The state of one call: the values of symbols, and flat memory for each buffer."""

    def __init__(
        self,
        program: ProgramOp,
        kernels: Mapping[str, KernelOp],
        inputs: Sequence[Array],
        constants: Sequence[Array],
        run: RunKernel,
    ) -> None:
        self._sites = program.sites.data
        self._kernels, self._inputs, self._constants, self._run = kernels, inputs, constants, run
        self._symbols: dict[str, int] = {}
        self._memory: dict[SSAValue, Array] = {}
        self.outputs: dict[int, Array] = {}

    def _input(self, argument: SSAValue) -> Array:
        assert isinstance(argument, BlockArgument)
        return self._inputs[argument.index]

    def check(self, op: Operation) -> None:
        """Binds a symbol, or checks a guard."""
        if isinstance(op, BindOp):
            self._symbols[op.symbol.data] = self._input(op.argument).shape[op.axis.value.data]
        elif isinstance(op, GuardAxisOp):
            got = self._input(op.argument).shape[op.axis.value.data]
            wanted = op.size.data[0].evaluate(self._symbols)
            if got != wanted:
                raise GuardError(filled(op.message.data, [got, wanted]))
        elif isinstance(op, GuardOp) and not op.relation.data.evaluate(self._symbols):
            raise GuardError(filled(op.message.data, [size.evaluate(self._symbols) for size in op.shown.data]))

    def step(self, op: Operation) -> None:
        """Makes a buffer, or runs a kernel."""
        if isinstance(op, DenseOp):
            self._memory[op.result] = _flat(self._input(op.argument), buffer_of(op.result).element_type)
        elif isinstance(op, InPlaceOp):
            array = self._input(op.argument)
            if not array.flags.c_contiguous:
                raise ArgumentError(filled(op.message.data, []))
            self._memory[op.result] = array.reshape(-1).view(dtype_of_type(buffer_of(op.result).element_type).numpy)
        elif isinstance(op, ConstantOp):
            constant = self._constants[op.index.value.data]
            self._memory[op.result] = _flat(constant, buffer_of(op.result).element_type)
        elif isinstance(op, AllocateOp):
            self._memory[op.result] = self._poisoned(op.result).reshape(-1)
        elif isinstance(op, OutputOp):
            output = self.outputs[op.index.value.data] = self._poisoned(op.result)
            self._memory[op.result] = output.reshape(-1)
        elif isinstance(op, ViewOp):
            self._memory[op.result] = self._memory[op.source][op.offset.data[0].evaluate(self._symbols) :]
        elif isinstance(op, LaunchOp):
            self._launch(op)
        elif isinstance(op, ReadOp):
            self._symbols[op.symbol.data] = int(self._memory[op.source][0])
        elif isinstance(op, CheckOp) and self._memory[op.value][0] != 0:
            shown = [int(self._memory[value][0]) for value in op.shown]
            raise error_from_text(DATA_ERRORS[op.error.data], filled(op.message.data, shown))

    def _launch(self, op: LaunchOp) -> None:
        extent = op.extent.data[0].evaluate(self._symbols)
        if extent <= 0 or op.condition.evaluate(self._symbols) == 0:
            return
        kernel = self._kernels[op.kernel_name]
        sizes = [size.evaluate(self._symbols) for size in op.sizes.data]
        named = dict(zip(kernel.symbol_names, sizes, strict=True))
        faults: list[IndexFault] = []
        self._run(kernel, [self._memory[value] for value in op.buffers], named, begin=0, end=extent, errors=faults)
        if faults:
            raise IndexOutOfRange(filled(self._sites[faults[0].site].data, [faults[0].index, faults[0].bound]))

    def _poisoned(self, value: SSAValue) -> Array:
        type = buffer_of(value)
        shape = [size.evaluate(self._symbols) for size in type.sizes.data]
        if min(shape, default=0) < 0:
            raise MemoryLimit("a tensor of this call would have a negative size", got=shape)
        array = np.empty(shape, dtype_of_type(type.element_type).numpy)
        array.reshape(-1).view(np.uint8)[:] = _POISON
        return array


def _flat(array: Array, element: Attribute) -> Array:
    """The elements in row-major order as the buffer's element type, which has the same width (kernels are signless)."""
    return np.ascontiguousarray(array).reshape(-1).view(dtype_of_type(element).numpy)


def peak_live_bytes(program: ProgramOp, shapes: Sequence[Sequence[int]], *, strided: Collection[int] = ()) -> int:
    """The most bytes of arena buffers alive at once: no arena can be smaller.

    An `allocate` is alive from the first to the last step that uses it or a view of it; a `dense` is alive from
    itself on when its argument is one of `strided`, and takes no memory otherwise.

    Args:
        shapes: the shape of each input.
        strided: numbers of the inputs whose elements are not in row-major order.
    """
    symbols = {
        op.symbol.data: shapes[op.argument.index][op.axis.value.data]
        for op in program.body.block.ops
        if isinstance(op, BindOp) and isinstance(op.argument, BlockArgument)
    }
    steps = [op for op in program.body.block.ops if isinstance(op, DenseOp | LaunchOp | ReadOp | CheckOp)]
    users: dict[SSAValue, list[int]] = {}
    for number, op in enumerate(steps):
        if isinstance(op, DenseOp):
            assert isinstance(op.argument, BlockArgument)
            used = {op.result} if op.argument.index in strided else set[SSAValue]()
        else:
            used = {root for root in map(root_of, op.operands) if isinstance(root.owner, AllocateOp) or root in users}
        for value in used:
            users.setdefault(value, []).append(number)
    live = [0] * len(steps)
    for value, numbers in users.items():
        type = buffer_of(value)
        count = dtype_of_type(type.element_type).bytes
        for size in type.sizes.data:
            count *= size.evaluate(symbols)
        for number in range(min(numbers), max(numbers) + 1):
            live[number] += count
    return max(live, default=0)


__all__ = ["RunKernel", "peak_live_bytes", "run_program"]
