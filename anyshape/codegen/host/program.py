"""The host function of a program: straight-line code with one exit.

In order: sizes are read and symbols bound, guards checked, every size of the program computed, one arena laid out for
all buffers in it, then outputs allocated, strided arguments copied and kernels launched as the program says. A step
that fails leaves its error in the context and its code is returned.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce

from xdsl.ir import BlockArgument, Operation, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.host.descriptor import ArgumentEntry, ProgramEntry, emit_descriptor
from anyshape.codegen.host.lifetimes import ArenaBuffer, arena_buffers
from anyshape.codegen.host.sizes import HostSizes
from anyshape.codegen.mlir import Block, FunctionBuilder, ModuleBuilder, Type, Value, cf, llvm
from anyshape.codegen.sizes import element_bytes
from anyshape.dialects.dtypes import dtype_of_type
from anyshape.dialects.host import (
    AllocateOp,
    ArgumentType,
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
    ReturnOp,
    ViewOp,
)
from anyshape.dialects.messages import SHOWN
from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import BufferType, buffer_of
from anyshape.runtime.abi import Code
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size

MAIN = "anyshape_main"
"""The symbol of the host function."""

# Layouts of ral.h in slots of 8 bytes: ral_tensor {data, sizes, strides, rank and dtype}, ral_call {inputs, count,
# allocate, user}.
_TENSOR_SLOTS, _TENSOR_DATA, _TENSOR_SIZES = 4, 0, 1
_CALL_INPUTS, _CALL_ALLOCATE, _CALL_USER = 0, 2, 3
_CODES = {"guard": Code.GUARD, "singular": Code.SINGULAR}  # of the kinds of error that checks have
_PREDICATES = {"==": "eq", "!=": "ne", "<=": "sle", "<": "slt"}
_OVERFLOW = "the sizes of this call are too large: a product of them does not fit 64 bits"
_NEGATIVE = "a tensor of this call would have the size %lld along an axis; the program is not defined there"
_NO_OUTPUT = "output %lld: the caller could not allocate %lld bytes"


def emit_program(
    module: ModuleBuilder,
    program: ProgramOp,
    *,
    outputs: Sequence[tuple[int, int]],
    constants: Sequence[tuple[int, int]],
) -> None:
    """Defines the host function and the descriptor in the entered module.

    Args:
        program: a verified program.
        outputs: (code of `enum ral_dtype`, rank) of each output.
        constants: (bytes, offset in the constants file) of each entry of the program's constant table.

    Raises:
        CodegenError: the outputs or constants do not fit the program, or an op is unknown.
    """
    _check_counts(program, len(outputs), len(constants))
    b = Builder()
    arguments = [b.ptr, b.ptr, b.ptr]
    _declare_services(module, b)
    with module.function(MAIN, arguments, [b.i32]) as function:
        _MainFunction(module, b, function, [dtype for dtype, _ in outputs]).emit(program)
    entry = ProgramEntry(
        [
            ArgumentEntry(name.data, dtype_of_type(type.element_type).runtime_code, len(type.sizes.data))
            for name, type in zip(program.names, _argument_types(program), strict=True)
        ],
        [ArgumentEntry(f"output {index}", int(dtype), rank) for index, (dtype, rank) in enumerate(outputs)],
        constants,
        [site.data for site in program.sites],
    )
    emit_descriptor(module, entry, MAIN, arguments, b.i32)


def _check_counts(program: ProgramOp, outputs: int, constants: int) -> None:
    wanted = sum(isinstance(op, OutputOp) for op in program.body.block.ops)
    for what, got, expected in (("outputs", outputs, wanted), ("constants", constants, len(program.constants))):
        if got != expected:
            raise CodegenError(
                f"the {what} do not fit the host program", where=program.sym_name.data, got=got, expected=expected
            )


def _argument_types(program: ProgramOp) -> list[ArgumentType]:
    types: list[ArgumentType] = []
    for argument in program.body.block.args:
        assert isinstance(argument.type, ArgumentType)
        types.append(argument.type)
    return types


def _declare_services(module: ModuleBuilder, b: Builder) -> None:
    module.declare("ral_fail", [b.ptr, b.i32, b.ptr, *[b.i64] * SHOWN], [b.i32])
    module.declare("ral_is_contiguous", [b.ptr], [b.i32])
    module.declare("ral_contiguous", [b.ptr, b.ptr, b.i64, b.ptr], [b.i32])
    module.declare("ral_plan_arena", [b.ptr, b.i32, *[b.ptr] * 5], [b.i32])
    module.declare("ral_arena", [b.ptr, b.i64], [b.ptr])
    module.declare("ral_arena_part", [b.ptr, b.i32, b.i64], [b.ptr])
    module.declare("ral_launch", [b.ptr, b.ptr, b.ptr, b.ptr, b.i64, b.i64, b.i64], [b.i32])


def _byte_count(type: BufferType) -> Size:
    return numel(type.sizes.data) * element_bytes(type.element_type)


def _is_size_of_input(size: Size, read: frozenset[str]) -> bool:
    """Whether the size is a constant or the symbol of an input's axis: those are not negative, the runtime checks the sizes of inputs."""
    symbol = size.as_symbol()
    return size.is_constant or (symbol is not None and symbol not in read)


def _parts(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The program cut behind each op that reads a size: what follows may use it."""
    parts: list[list[Operation]] = [[]]
    for op in ops:
        parts[-1].append(op)
        if isinstance(op, ReadOp):
            parts.append([])
    return parts


class _Slots:
    """An array on the stack that calls read; a store is left out where the slot holds the value already."""

    def __init__(self, b: Builder, element: Type, count: int) -> None:
        self._b = b
        self.address: Value = b.alloca(element, max(count, 1), alignment=8)
        self._held: dict[int, Value] = {}

    @contextmanager
    def sometimes(self) -> Generator[None]:
        """Stores inside may not be carried out: afterwards only those slots are known that hold what they held before."""
        before = dict(self._held)
        yield
        self._held = {slot: value for slot, value in before.items() if self._held.get(slot) is value}

    def fill(self, values: Iterable[Value]) -> Value:
        """Stores the values from slot 0 on and returns the address."""
        for slot, value in enumerate(values):
            if self._held.get(slot) is not value:
                self._b.store(value, self.address, slot)
                self._held[slot] = value
        return self.address


class _MainFunction:
    """Emits the body of the host function: a chain of blocks, each left for `exit` when its step fails."""

    def __init__(
        self, module: ModuleBuilder, b: Builder, function: FunctionBuilder, output_dtypes: Sequence[int]
    ) -> None:
        self._module = module
        self._b = b
        self._function = function
        self._output_dtypes = output_dtypes
        self._context, self._call, self._constants = function.args
        self._exit = function.block(b.i32)
        with b.at_end(self._exit):
            function.return_(self._exit.arguments[0])
        self._chain = ExitStack()
        self._sizes = HostSizes(b)
        self._inputs: Value = b.load(self._call, b.ptr, _CALL_INPUTS)
        self._input_sizes: dict[SSAValue, Value] = {}
        self._kernels: dict[str, Value] = {}
        self._buffers: dict[SSAValue, Value] = {}
        self._contiguous: dict[SSAValue, Value] = {}

    def emit(self, program: ProgramOp) -> None:
        ops = list(program.body.block.ops)
        launches = [op for op in ops if isinstance(op, LaunchOp)]
        outputs = [op for op in ops if isinstance(op, OutputOp)]
        self._buffer_slots = _Slots(self._b, self._b.ptr, max((len(op.buffers) for op in launches), default=0))
        self._size_slots = _Slots(self._b, self._b.i64, max((len(op.sizes.data) for op in launches), default=0))
        rank = max((buffer_of(op.result).rank for op in outputs), default=0)
        self._output_sizes = _Slots(self._b, self._b.i64, rank)
        self._output_strides = _Slots(self._b, self._b.i64, rank)
        arena = arena_buffers(program)
        self._read_symbols = frozenset(op.symbol.data for op in ops if isinstance(op, ReadOp))
        # Stack memory is claimed in the entry block only: elsewhere it would move the stack pointer.
        counts = (max(len(arena), 1), max(len(arena), 1), 1)
        arena_slots = [self._b.alloca(self._b.i64, count, alignment=8) for count in counts]
        with self._chain:
            for number, part in enumerate(_parts(ops)):
                self._emit_part(number, part, arena, arena_slots)
            self._b.branch(self._exit, self._b.const(self._b.i32, Code.OK))

    def _emit_part(
        self, number: int, ops: Sequence[Operation], arena: Sequence[ArenaBuffer], slots: Sequence[Value]
    ) -> None:
        """Ops whose sizes are all known when the first of them runs: conditions, sizes, memory, steps."""
        for op in ops:
            self._emit_condition(op)
        self._compute_sizes(ops)
        own = [buffer for buffer in arena if buffer.value.owner in ops]
        if own:
            self._lay_out_arena(number, own, *slots)
        for op in ops:
            self._emit_step(op)

    # ---- the chain of blocks -------------------------------------------------------------------------------------

    def _continue_in(self, block: Block) -> None:
        self._chain.enter_context(self._b.at_end(block))

    def _stop_unless_ok(self, code: Value) -> None:
        following = self._function.block()
        cf.CondBranchOp(self._b.cmp("eq", code, Code.OK), [], [code], following, self._exit)
        self._continue_in(following)

    def _fail_unless(self, condition: Value, code: Code, message: str, shown: Sequence[Value] = ()) -> None:
        b = self._b
        following, failed = self._function.block(), self._function.block()
        b.cond_branch(condition, following, failed)
        with b.at_end(failed):
            text = b.address_of(self._module.constant_string(message))
            values = [*shown, *[b.const(b.i64, 0)] * (SHOWN - len(shown))]
            b.branch(self._exit, *b.call("ral_fail", [self._context, b.const(b.i32, code), text, *values], [b.i32]))
        self._continue_in(following)

    # ---- sizes and guards ----------------------------------------------------------------------------------------

    def _tensor(self, argument: SSAValue) -> Value:
        """The address of the argument's `ral_tensor`."""
        assert isinstance(argument, BlockArgument)
        return self._b.offset(self._inputs, self._b.i64, argument.index * _TENSOR_SLOTS)

    def _axis(self, argument: SSAValue, axis: int) -> Value:
        if argument not in self._input_sizes:
            self._input_sizes[argument] = self._b.load(self._tensor(argument), self._b.ptr, _TENSOR_SIZES)
        return self._b.load(self._input_sizes[argument], self._b.i64, axis)

    def _emit_condition(self, op: Operation) -> None:
        if isinstance(op, BindOp):
            self._sizes.bind(op.symbol.data, self._axis(op.argument, op.axis.value.data))
        elif isinstance(op, GuardAxisOp):
            got, wanted = self._axis(op.argument, op.axis.value.data), self._sizes[op.size.data[0]]
            self._fail_unless(self._b.cmp("eq", got, wanted), Code.GUARD, op.message.data, [got, wanted])
        elif isinstance(op, GuardOp):
            relation = op.relation.data
            # The values shown are computed here and not where the guard fails, so that later code may use them too.
            shown = [self._sizes[size] for size in op.shown.data]
            lhs, rhs = self._sizes[relation.lhs], self._sizes[relation.rhs]
            holds = self._b.cmp(_PREDICATES[relation.op], lhs, rhs)
            self._fail_unless(holds, Code.GUARD, op.message.data, shown)
        elif isinstance(op, InPlaceOp):
            (contiguous,) = self._b.call("ral_is_contiguous", [self._tensor(op.argument)], [self._b.i32])
            self._fail_unless(self._b.cmp("ne", contiguous, 0), Code.ARGUMENT, op.message.data)

    def _compute_sizes(self, ops: Sequence[Operation]) -> None:
        """Every size of the program: what follows may rely on 0 <= extent of tensors, and on no overflow so far."""
        extents: dict[Size, None] = {}
        for op in ops:
            if isinstance(op, LaunchOp):
                for size in (*op.sizes.data, *op.extent.data, *op.grain.data, *op.scratch.data, op.condition):
                    _ = self._sizes[size]
            elif isinstance(op, ViewOp):
                _ = self._sizes[op.offset.data[0]]
            elif isinstance(op, AllocateOp | DenseOp | InPlaceOp | OutputOp):
                type = buffer_of(op.result)
                extents |= dict.fromkeys(type.sizes.data)
                strides = type.strides.data if isinstance(op, OutputOp) else ()
                for size in (_byte_count(type), *type.sizes.data, *strides):
                    _ = self._sizes[size]
        b = self._b
        self._fail_unless(b.xor(self._sizes.overflowed, 1), Code.MEMORY, _OVERFLOW)
        unsure = [size for size in extents if not _is_size_of_input(size, self._read_symbols)]
        if unsure:
            least = reduce(b.minimum, (self._sizes[size] for size in unsure))
            self._fail_unless(b.cmp("sge", least, 0), Code.MEMORY, _NEGATIVE, [least])

    # ---- memory --------------------------------------------------------------------------------------------------

    def _lay_out_arena(
        self, part: int, buffers: Sequence[ArenaBuffer], sizes: Value, offsets: Value, total: Value
    ) -> None:
        """Places the buffers that a part of the program allocates.

        Args:
            sizes, offsets, total: stack memory to plan in, one element for each buffer, and one for the total.
        """
        b = self._b
        count = len(buffers)
        for index, buffer in enumerate(buffers):
            b.store(self._arena_bytes(buffer.value), sizes, index)
        first, last = (
            b.address_of(self._module.constant_bytes(struct.pack(f"<{count}i", *steps)))
            for steps in ([buffer.first for buffer in buffers], [buffer.last for buffer in buffers])
        )
        arguments = [self._context, b.const(b.i32, count), sizes, first, last, offsets, total]
        self._stop_unless_ok(*b.call("ral_plan_arena", arguments, [b.i32]))
        bytes_ = b.load(total, b.i64)
        if part == 0:
            (arena,) = b.call("ral_arena", [self._context, bytes_], [b.ptr])
        else:  # what lies in the parts before stays where it is
            (arena,) = b.call("ral_arena_part", [self._context, b.const(b.i32, part), bytes_], [b.ptr])
        missing = b.cmp("eq", _address(b, arena), 0)
        self._stop_unless_ok(b.select(missing, b.const(b.i32, Code.MEMORY), Code.OK))
        for index, buffer in enumerate(buffers):
            self._buffers[buffer.value] = b.offset(arena, b.i8, b.load(offsets, b.i64, index))

    def _arena_bytes(self, value: SSAValue) -> Value:
        count = self._sizes[_byte_count(buffer_of(value))]
        if not isinstance(value.owner, DenseOp):
            return count
        (contiguous,) = self._b.call("ral_is_contiguous", [self._tensor(value.owner.argument)], [self._b.i32])
        self._contiguous[value] = self._b.cmp("ne", contiguous, 0)
        return self._b.select(self._contiguous[value], 0, count)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _emit_step(self, op: Operation) -> None:
        match op:
            case BindOp() | GuardAxisOp() | GuardOp() | AllocateOp() | ReturnOp():
                pass
            case DenseOp():
                self._emit_dense(op)
            case InPlaceOp():
                self._buffers[op.result] = self._b.load(self._tensor(op.argument), self._b.ptr, _TENSOR_DATA)
            case ConstantOp():
                self._buffers[op.result] = self._b.load(self._constants, self._b.ptr, op.index.value.data)
            case OutputOp():
                self._emit_output(op)
            case ViewOp():
                # A buffer that no launch uses has no place, and neither have its views.
                if op.source in self._buffers:
                    self._buffers[op.result] = self._viewed(op)
            case LaunchOp():
                self._emit_launch(op)
            case ReadOp():
                self._sizes.bind(op.symbol.data, self._number(op.source))
            case CheckOp():
                holds = self._b.cmp("eq", self._number(op.value), 0)
                shown = [self._number(value) for value in op.shown]
                self._fail_unless(holds, _CODES[op.error.data], op.message.data, shown)
            case _:
                raise CodegenError("a host program cannot hold this op", got=op.name, expected="an op of `host`")

    def _number(self, buffer: SSAValue) -> Value:
        """The element of a buffer of one i64."""
        return self._b.load(self._buffers[buffer], self._b.i64)

    def _viewed(self, op: ViewOp) -> Value:
        source, (offset,) = self._buffers[op.source], op.offset.data
        if offset.constant_or(None) == 0:
            return source
        item = element_bytes(buffer_of(op.source).element_type)
        return self._b.offset(source, self._b.i8, self._b.mul(self._sizes[offset], item))

    def _emit_dense(self, op: DenseOp) -> None:
        b = self._b
        tensor, copy = self._tensor(op.argument), self._buffers[op.result]
        copying, following = self._function.block(), self._function.block(b.ptr)
        own = b.load(tensor, b.ptr, _TENSOR_DATA)
        cf.CondBranchOp(self._contiguous[op.result], [own], [], following, copying)
        self._continue_in(copying)
        size = b.const(b.i64, element_bytes(buffer_of(op.result).element_type))
        self._stop_unless_ok(*b.call("ral_contiguous", [self._context, tensor, size, copy], [b.i32]))
        b.branch(following, copy)
        self._continue_in(following)
        self._buffers[op.result] = following.arguments[0]

    def _emit_output(self, op: OutputOp) -> None:
        b = self._b
        index, type = op.index.value.data, buffer_of(op.result)
        sizes = self._output_sizes.fill(self._sizes[size] for size in type.sizes.data)
        strides = self._output_strides.fill(self._sizes[stride] for stride in type.strides.data)
        numbers = [b.const(b.i32, number) for number in (index, self._output_dtypes[index], type.rank)]
        user = b.load(self._call, b.ptr, _CALL_USER)
        allocate = b.load(self._call, b.ptr, _CALL_ALLOCATE)
        data = b.call_pointer(allocate, [user, *numbers, sizes, strides], b.ptr)
        count = self._sizes[_byte_count(type)]
        allocated = b.or_(b.cmp("ne", _address(b, data), 0), b.cmp("eq", count, 0))
        self._fail_unless(allocated, Code.MEMORY, _NO_OUTPUT, [b.const(b.i64, index), count])
        self._buffers[op.result] = data

    def _emit_launch(self, op: LaunchOp) -> None:
        b, kernel = self._b, self._kernel(op.kernel_name)
        if op.when is None:
            self._emit_call(op, kernel)
            return
        running, following = self._function.block(), self._function.block()
        b.cond_branch(b.cmp("ne", self._sizes[op.condition], 0), running, following)
        self._continue_in(running)
        with self._buffer_slots.sometimes(), self._size_slots.sometimes():
            self._emit_call(op, kernel)
        b.branch(following)
        self._continue_in(following)

    def _emit_call(self, op: LaunchOp, kernel: Value) -> None:
        b = self._b
        buffers = self._buffer_slots.fill(self._buffers[value] for value in op.buffers)
        sizes = self._size_slots.fill(self._sizes[size] for size in op.sizes.data)
        numbers = [self._sizes[size.data[0]] for size in (op.extent, op.grain, op.scratch)]
        arguments = [self._context, kernel, buffers, sizes, *numbers]
        self._stop_unless_ok(*b.call("ral_launch", arguments, [b.i32]))

    def _kernel(self, name: str) -> Value:
        if name not in self._kernels:
            b = self._b
            signature = [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]
            self._module.declare(name, signature)
            self._kernels[name] = b.function_address(name, signature)
        return self._kernels[name]


def _address(b: Builder, pointer: Value) -> Value:
    return llvm.ptrtoint(b.i64, pointer)
