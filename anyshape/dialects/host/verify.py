"""The verifier of host programs.

| invariant |
|---|
| the program holds ops of `host` only and ends with its one `return` |
| a value is defined before it is used |
| a symbol is bound once, and before an expression uses it |
| each axis of an argument that a launch reads is bound or guarded |
| a message has a place for at most the values that it is given |
| the outputs 0, 1, … are each allocated once; a constant's index is in the table |
| `allocate` and `output` are row-major |
| a view has its source's element type and, where both are constant, its number of elements |
| a launch names a known kernel and passes as many buffers, of the same element types, and as many sizes as it takes |
| a launch writes arena buffers, outputs and arguments `in_place` only, and reads none of what it writes |
| a size or a number to check is read from a buffer of one i64; a check's error is of a known kind |
| a buffer is written before it is read, and every output is written |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dtypes import dtype_of_type
from anyshape.dialects.host.ops import (
    AllocateOp,
    ArgumentType,
    BindOp,
    CheckOp,
    ConstantOp,
    DenseOp,
    GuardAxisOp,
    GuardOp,
    Host,
    InPlaceOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReadOp,
    ReturnOp,
    ViewOp,
    root_of,
)
from anyshape.dialects.messages import SHOWN, places_in
from anyshape.dialects.printing import op_with_neighbours
from anyshape.dialects.sizes import numel, row_major_strides
from anyshape.dialects.tile import KernelOp, buffer_of
from anyshape.support.errors import DATA_ERRORS, VerifyError
from anyshape.symbolic import Size

_CONTEXT = 2  # ops shown on either side of the fault


def verify_program(program: ProgramOp, kernels: Mapping[str, KernelOp]) -> None:
    """Raises VerifyError, with the ops around the fault, when an invariant of the module's list does not hold."""
    try:
        program.verify()
    except VerifyException as error:
        raise VerifyError("the host program is not well formed", where=program.sym_name.data, got=error) from error
    _Verifier(program, kernels).run()


@dataclass
class _Verifier:
    program: ProgramOp
    kernels: Mapping[str, KernelOp]
    bound: set[str] = field(default_factory=set[str])
    axes: dict[SSAValue, set[int]] = field(default_factory=dict[SSAValue, set[int]])
    defined: set[SSAValue] = field(default_factory=set[SSAValue])
    written: set[SSAValue] = field(default_factory=set[SSAValue])
    outputs: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    def run(self) -> None:
        block = self.program.body.block
        if len(self.program.names) != len(block.args):
            raise VerifyError(
                "a host program needs one name for each argument",
                where=self.program.sym_name.data,
                got=len(self.program.names),
                expected=len(block.args),
            )
        for argument in block.args:
            if not isinstance(argument.type, ArgumentType):
                raise VerifyError(
                    "an argument of a host program has another type",
                    where=self._name(argument),
                    got=argument.type,
                    expected=ArgumentType.name,
                )
        self.defined.update(block.args)
        ops = list(block.ops)
        for op in ops:
            self._check_op(op)
            self.defined.update(op.results)
        if not ops or not isinstance(ops[-1], ReturnOp):
            where = self._around(ops[-1]) if ops else self.program.sym_name.data
            raise VerifyError("a host program must end with host.return", where=where)
        self._check_outputs(ops[-1])

    # ---- faults --------------------------------------------------------------------------------------------------

    def _fault(self, op: Operation, message: str, *, got: object, expected: object) -> VerifyError:
        return VerifyError(message, where=self._around(op), got=got, expected=expected)

    def _around(self, op: Operation) -> str:
        ops = list(self.program.body.block.ops)
        position = ops.index(op)
        return f"@{self.program.sym_name.data}, op {position}\n{op_with_neighbours(ops, position, _CONTEXT)}"

    def _name(self, argument: SSAValue) -> str:
        assert isinstance(argument, BlockArgument)
        return f"'{self.program.names.data[argument.index].data}'"

    # ---- ops -----------------------------------------------------------------------------------------------------

    def _check_op(self, op: Operation) -> None:
        if type(op) not in Host.operations:
            raise self._fault(op, "a host program cannot hold this op", got=op.name, expected="an op of `host`")
        for operand in op.operands:
            if operand not in self.defined:
                raise self._fault(op, "a value is used before its definition", got=operand, expected="dominance")
        match op:
            case BindOp() | GuardAxisOp():
                self._check_axis(op)
            case GuardOp():
                relation = op.relation.data
                self._check_symbols(op, (relation.lhs, relation.rhs, *op.shown.data))
                self._check_message(op, op.message, len(op.shown.data))
            case ConstantOp():
                self._check_index(op, op.index.value.data, len(self.program.constants))
            case DenseOp() | InPlaceOp() | AllocateOp() | OutputOp() | ViewOp():
                self._check_buffer(op)
            case LaunchOp():
                self._check_launch(op)
            case ReadOp():
                self._check_read(op)
            case CheckOp():
                self._check_check(op)
            case _:  # a return, which xDSL knows to be last
                pass

    def _check_axis(self, op: BindOp | GuardAxisOp) -> None:
        axis, type = op.axis.value.data, op.argument.type
        assert isinstance(type, ArgumentType)
        self._check_index(op, axis, len(type.sizes.data))
        self.axes.setdefault(op.argument, set()).add(axis)
        if isinstance(op, GuardAxisOp):
            self._check_symbols(op, op.size.data)
            self._check_message(op, op.message, 2)
        elif op.symbol.data in self.bound:
            raise self._fault(op, "a symbol is bound twice", got=op.symbol.data, expected="host.guard_axis")
        else:
            self.bound.add(op.symbol.data)

    def _check_read(self, op: ReadOp) -> None:
        self._check_number(op, op.source)
        if op.symbol.data in self.bound:
            raise self._fault(op, "a symbol is bound twice", got=op.symbol.data, expected="another symbol")
        self.bound.add(op.symbol.data)

    def _check_check(self, op: CheckOp) -> None:
        for value in op.operands:
            self._check_number(op, value)
        self._check_message(op, op.message, len(op.shown))
        if op.error.data not in DATA_ERRORS:
            raise self._fault(op, "no such kind of error", got=op.error.data, expected=", ".join(DATA_ERRORS))

    def _check_number(self, op: Operation, value: SSAValue) -> None:
        type, root = buffer_of(value), root_of(value)
        if type.element_type != IntegerType(64) or numel(type.sizes.data) != Size.const(1):
            raise self._fault(op, "a number is read from another buffer", got=type, expected="a buffer of one i64")
        if isinstance(root.owner, AllocateOp | OutputOp) and root not in self.written:
            raise self._fault(op, "a buffer is read before it is written", got=root, expected="an earlier launch")

    def _check_index(self, op: Operation, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise self._fault(op, f"{op.name}: the index is out of range", got=index, expected=f"0 <= index < {count}")

    def _check_symbols(self, op: Operation, sizes: Iterable[Size]) -> None:
        for size in sizes:
            unbound = size.symbols - self.bound
            if unbound:
                names = ", ".join(sorted(unbound))
                bound = ", ".join(sorted(self.bound)) or "no symbol is bound"
                raise self._fault(op, f"size '{size}' uses unbound symbols", got=names, expected=bound)

    def _check_message(self, op: Operation, message: StringAttr, shown: int) -> None:
        if shown > SHOWN:
            raise self._fault(op, "a message shows too many values", got=shown, expected=f"at most {SHOWN}")
        places = places_in(message.data)
        if places > shown:
            raise self._fault(op, "a message has more places than values", got=places, expected=f"at most {shown}")

    def _check_buffer(self, op: DenseOp | InPlaceOp | AllocateOp | OutputOp | ViewOp) -> None:
        type = buffer_of(op.result)
        self._check_symbols(op, (*type.sizes.data, *type.strides.data))
        if isinstance(op, AllocateOp | OutputOp) and type.strides.data != row_major_strides(type.sizes.data):
            wanted = ", ".join(map(str, row_major_strides(type.sizes.data)))
            raise self._fault(op, f"{op.name} must be row-major", got=type.strides, expected=wanted)
        if isinstance(op, OutputOp):
            if op.index.value.data in self.outputs:
                raise self._fault(op, "an output is allocated twice", got=op.index.value.data, expected="once")
            self.outputs[op.index.value.data] = op.result
        elif isinstance(op, ViewOp):
            self._check_view(op)
        elif isinstance(op, DenseOp | InPlaceOp):
            self._check_dense(op)

    def _check_view(self, op: ViewOp) -> None:
        source, result = buffer_of(op.source), buffer_of(op.result)
        if source.element_type != result.element_type:
            raise self._fault(op, "a view changes the type", got=result.element_type, expected=source.element_type)
        self._check_symbols(op, op.offset.data)
        before, after = numel(source.sizes.data), numel(result.sizes.data)
        whole = op.offset.data == (Size.const(0),) and result.strides.data == row_major_strides(result.sizes.data)
        # With symbols the equality may follow from facts that the program does not carry.
        if whole and before.is_constant and after.is_constant and before != after:
            raise self._fault(op, "a view changes the number of elements", got=after, expected=before)

    def _check_dense(self, op: DenseOp | InPlaceOp) -> None:
        type = op.argument.type
        assert isinstance(type, ArgumentType)
        if buffer_of(op.result).sizes != type.sizes:
            raise self._fault(op, f"{op.name} changes the sizes", got=buffer_of(op.result).sizes, expected=type.sizes)
        missing = set(range(len(type.sizes.data))) - self.axes.get(op.argument, set())
        if missing:
            raise self._fault(
                op,
                f"argument {self._name(op.argument)} has axes whose size nothing checks",
                got=", ".join(map(str, sorted(missing))),
                expected="host.bind or host.guard_axis of each axis",
            )

    def _check_launch(self, op: LaunchOp) -> None:
        kernel = self.kernels.get(op.kernel_name)
        if kernel is None:
            raise self._fault(op, "no such kernel", got=op.kernel_name, expected=", ".join(self.kernels) or "no kernel")
        parameters = kernel.body.block.args
        outputs = op.outputs.value.data
        for what, got, expected in (
            ("buffers", len(op.buffers), len(parameters)),
            ("sizes", len(op.sizes.data), len(kernel.symbols)),
            ("extents", len(op.extent.data), 1),
            ("grains", len(op.grain.data), 1),
            ("scratches", len(op.scratch.data), 1),
            ("conditions", 1 if op.when is None else len(op.when.data), 1),
            ("outputs", outputs, min(max(outputs, 0), len(op.buffers))),
        ):
            if got != expected:
                raise self._fault(op, f"a launch has too few or many {what}", got=got, expected=expected)
        for position, (value, parameter) in enumerate(zip(op.buffers, parameters, strict=True)):
            element = dtype_of_type(buffer_of(value).element_type).scalar  # kernels are signless
            wanted = buffer_of(parameter).element_type
            if element != wanted:
                raise self._fault(op, f"buffer {position} has another element type", got=element, expected=wanted)
        self._check_symbols(op, (*op.sizes.data, *op.extent.data, *op.grain.data, *op.scratch.data, op.condition))
        self._check_accesses(op)

    def _check_accesses(self, op: LaunchOp) -> None:
        read = {root_of(value) for value in op.read}
        written = [root_of(value) for value in op.written]
        for root in read:
            if isinstance(root.owner, AllocateOp | OutputOp) and root not in self.written:
                raise self._fault(op, "a buffer is read before it is written", got=root, expected="an earlier launch")
        for position, root in enumerate(written):
            if not isinstance(root.owner, AllocateOp | OutputOp | InPlaceOp):
                expected = "the result of host.allocate, host.output or host.in_place"
                raise self._fault(op, "a launch writes memory that is not the program's", got=root, expected=expected)
            if root in read or root in written[:position]:
                raise self._fault(op, "a launch writes a buffer that it also uses", got=root, expected="two buffers")
        self.written.update(written)

    def _check_outputs(self, last: Operation) -> None:
        if sorted(self.outputs) != list(range(len(self.outputs))):
            raise self._fault(last, "outputs are missing", got=sorted(self.outputs), expected="0, 1, …")
        for index, value in self.outputs.items():
            if value not in self.written:
                raise self._fault(last, f"output {index} is never written", got=value, expected="a launch")


__all__ = ["verify_program"]
