"""The `host` dialect: what happens in one call, from the caller's tensors to the last launch.

| op | meaning |
|---|---|
| `program` | the whole call; its arguments are the caller's tensors, with any strides |
| `bind "s" = arg axis` | gives a size symbol its value; a later use of the same axis is guarded, not bound again |
| `guard` | a relation between sizes that must hold, or the call fails with the message and these sizes |
| `dense arg` | the argument's elements in row-major order: itself, or a copy in the arena when it is strided |
| `constant` | a buffer from the program's constant table |
| `allocate` | an arena buffer; it lives from its first to its last use |
| `output i` | a buffer that the caller allocates for result i |
| `view` | the same memory, or a part of it, with other sizes and strides |
| `launch @k` | runs a kernel over its points |
| `read "s" = buffer` | gives a size symbol the value of an i64 that launches have computed |
| `check buffer` | an i64 that launches have computed must be 0, or the call fails with the message and numbers like it |
| `return` | ends the call |

Invariants (verified): every symbol is bound before an expression uses it; a launch passes as many buffers and sizes as
its kernel takes; each output is allocated once; arena buffers are written before they are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Block, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, SymbolOpInterface

from anyshape.dialects.dtypes import dtype_of_type
from anyshape.dialects.sizes import DimsAttr, RelationAttr
from anyshape.dialects.tile import BufferType, buffer, dims_attr
from anyshape.symbolic import Relation, Size, SizeLike


@irdl_attr_definition
class ArgumentType(ParametrizedAttribute, TypeAttribute):
    """A tensor of the caller: `!host.argument<f32, #dhlo.dims<[b, 384]>>`, strides unknown until the call."""

    name = "host.argument"
    element_type: Attribute
    sizes: DimsAttr


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """The host program. `names` are the arguments as errors call them, `constants` the table's entries in order."""

    name = "host.program"
    sym_name = prop_def(StringAttr)
    names = prop_def(ArrayAttr[StringAttr])
    constants = prop_def(ArrayAttr[StringAttr])
    sites = prop_def(ArrayAttr[StringAttr])
    """Text of each error site that kernels refer to by number."""
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())
    assembly_format = "$sym_name `names` $names `constants` $constants `sites` $sites attr-dict-with-keyword $body"

    def __init__(
        self,
        name: str,
        arguments: Sequence[tuple[str, Attribute, Sequence[SizeLike]]],
        constants: Sequence[str] = (),
        sites: Sequence[str] = (),
    ) -> None:
        types = [ArgumentType(element, dims_attr(sizes)) for _, element, sizes in arguments]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "names": _strings([argument for argument, _, _ in arguments]),
                "constants": _strings(constants),
                "sites": _strings(sites),
            },
            regions=[Region(Block(arg_types=types))],
        )


def _strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])


@irdl_op_definition
class BindOp(IRDLOperation):
    """symbol = size of the argument's axis."""

    name = "host.bind"
    argument = operand_def(ArgumentType)
    axis = prop_def(IntegerAttr)
    symbol = prop_def(StringAttr)
    assembly_format = "$symbol `=` $argument `axis` $axis attr-dict `:` type($argument)"

    def __init__(self, symbol: str, argument: SSAValue, axis: int) -> None:
        super().__init__(operands=[argument], properties={"symbol": StringAttr(symbol), "axis": IntegerAttr(axis, i64)})


@irdl_op_definition
class GuardAxisOp(IRDLOperation):
    """The size of the argument's axis must be `size`; else the call fails with `message`, a format for got, wanted."""

    name = "host.guard_axis"
    argument = operand_def(ArgumentType)
    axis = prop_def(IntegerAttr)
    size = prop_def(DimsAttr)
    message = prop_def(StringAttr)
    assembly_format = "$argument `axis` $axis `is` $size `else` $message attr-dict `:` type($argument)"

    def __init__(self, argument: SSAValue, axis: int, size: SizeLike, message: str) -> None:
        super().__init__(
            operands=[argument],
            properties={
                "axis": IntegerAttr(axis, i64),
                "size": dims_attr([size]),
                "message": StringAttr(message),
            },
        )


@irdl_op_definition
class GuardOp(IRDLOperation):
    """`relation` must hold; else the call fails with `message`, a format for the values of `shown` (at most four)."""

    name = "host.guard"
    relation = prop_def(RelationAttr)
    shown = prop_def(DimsAttr)
    message = prop_def(StringAttr)
    assembly_format = "$relation `else` $message $shown attr-dict"

    def __init__(self, relation: Relation, message: str, shown: Sequence[SizeLike]) -> None:
        super().__init__(
            properties={
                "relation": RelationAttr(relation),
                "shown": dims_attr(shown),
                "message": StringAttr(message),
            }
        )


@irdl_op_definition
class DenseOp(IRDLOperation):
    """The argument in row-major order: its own memory, or an arena copy when its strides differ."""

    name = "host.dense"
    argument = operand_def(ArgumentType)
    result = result_def(BufferType)
    assembly_format = "$argument attr-dict `:` type($argument) `->` type($result)"

    def __init__(self, argument: SSAValue) -> None:
        type = argument.type
        assert isinstance(type, ArgumentType)
        element = dtype_of_type(type.element_type).scalar
        super().__init__(operands=[argument], result_types=[buffer(element, type.sizes.data)])


@irdl_op_definition
class InPlaceOp(IRDLOperation):
    """The argument's own memory, which launches write; unless it is in row-major order, the call fails with `message`."""

    name = "host.in_place"
    argument = operand_def(ArgumentType)
    message = prop_def(StringAttr)
    result = result_def(BufferType)
    assembly_format = "$argument `else` $message attr-dict `:` type($argument) `->` type($result)"

    def __init__(self, argument: SSAValue, message: str) -> None:
        type = argument.type
        assert isinstance(type, ArgumentType)
        element = dtype_of_type(type.element_type).scalar
        super().__init__(
            operands=[argument],
            properties={"message": StringAttr(message)},
            result_types=[buffer(element, type.sizes.data)],
        )


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """Entry `index` of the constant table."""

    name = "host.constant"
    index = prop_def(IntegerAttr)
    result = result_def(BufferType)
    assembly_format = "$index attr-dict `:` type($result)"

    def __init__(self, index: int, type: BufferType) -> None:
        super().__init__(properties={"index": IntegerAttr(index, i64)}, result_types=[type])


@irdl_op_definition
class AllocateOp(IRDLOperation):
    """A buffer in the arena."""

    name = "host.allocate"
    result = result_def(BufferType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: BufferType) -> None:
        super().__init__(result_types=[type])


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The caller's buffer for result `index`, row-major with the type's sizes."""

    name = "host.output"
    index = prop_def(IntegerAttr)
    result = result_def(BufferType)
    assembly_format = "$index attr-dict `:` type($result)"

    def __init__(self, index: int, type: BufferType) -> None:
        super().__init__(properties={"index": IntegerAttr(index, i64)}, result_types=[type])


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same memory from element `offset` on, with other sizes and strides."""

    name = "host.view"
    source = operand_def(BufferType)
    offset = prop_def(DimsAttr)
    result = result_def(BufferType)
    assembly_format = "$source `from` $offset attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, type: BufferType, offset: SizeLike = 0) -> None:
        super().__init__(operands=[source], properties={"offset": dims_attr([offset])}, result_types=[type])


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Runs `kernel` over `extent` points, at least `grain` of them a thread; the last `outputs` buffers are written.

    With `when`, which is 0 or 1, only where that is 1.
    """

    name = "host.launch"
    kernel = prop_def(SymbolRefAttr)
    buffers = var_operand_def(BufferType)
    sizes = prop_def(DimsAttr)
    extent = prop_def(DimsAttr)
    grain = prop_def(DimsAttr)
    scratch = prop_def(DimsAttr)
    outputs = prop_def(IntegerAttr)
    when = opt_prop_def(DimsAttr)
    assembly_format = (
        "$kernel `(` $buffers `)` `sizes` $sizes `extent` $extent `grain` $grain `scratch` $scratch `outputs` $outputs "
        "(`when` $when^)? attr-dict `:` type($buffers)"
    )

    def __init__(
        self,
        kernel: str,
        buffers: Sequence[SSAValue],
        sizes: Sequence[SizeLike],
        *,
        extent: SizeLike,
        grain: SizeLike,
        scratch: SizeLike,
        outputs: int,
        when: SizeLike = 1,
    ) -> None:
        sometimes = Size.of(when) != Size.const(1)
        super().__init__(
            operands=[list(buffers)],
            properties={
                "kernel": SymbolRefAttr(kernel),
                "sizes": dims_attr(sizes),
                "extent": dims_attr([extent]),
                "grain": dims_attr([grain]),
                "scratch": dims_attr([scratch]),
                "outputs": IntegerAttr(outputs, i64),
                "when": dims_attr([when]) if sometimes else None,
            },
        )

    @property
    def kernel_name(self) -> str:
        return self.kernel.root_reference.data

    @property
    def condition(self) -> Size:
        """1 where the kernel runs, else 0."""
        return Size.const(1) if self.when is None else self.when.data[0]

    @property
    def written(self) -> Sequence[SSAValue]:
        return self.buffers[len(self.buffers) - self.outputs.value.data :]

    @property
    def read(self) -> Sequence[SSAValue]:
        return self.buffers[: len(self.buffers) - self.outputs.value.data]


@irdl_op_definition
class ReadOp(IRDLOperation):
    """symbol = the element of a buffer of one i64. A negative one is a negative size, which is an error."""

    name = "host.read"
    source = operand_def(BufferType)
    symbol = prop_def(StringAttr)
    assembly_format = "$symbol `=` $source attr-dict `:` type($source)"

    def __init__(self, symbol: str, source: SSAValue) -> None:
        super().__init__(operands=[source], properties={"symbol": StringAttr(symbol)})


@irdl_op_definition
class CheckOp(IRDLOperation):
    """The element of `value`, a buffer of one i64, must be 0; else the call fails with an error of the kind `error` (`DATA_ERRORS`).

    `message` is a format for the elements of `shown`, buffers of one i64 too (at most four).
    """

    name = "host.check"
    value = operand_def(BufferType)
    shown = var_operand_def(BufferType)
    error = prop_def(StringAttr)
    message = prop_def(StringAttr)
    assembly_format = (
        "$value `is` `zero` `else` $error $message `(` $shown `)` attr-dict `:` type($value) `,` `(` type($shown) `)`"
    )

    def __init__(self, value: SSAValue, error: str, message: str, shown: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[value, list(shown)], properties={"error": StringAttr(error), "message": StringAttr(message)}
        )


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends the call."""

    name = "host.return"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


def root_of(value: SSAValue) -> SSAValue:
    """The buffer whose memory a value names: through views."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value


Host = Dialect(
    "host",
    [
        ProgramOp,
        BindOp,
        GuardAxisOp,
        GuardOp,
        DenseOp,
        InPlaceOp,
        ConstantOp,
        AllocateOp,
        OutputOp,
        ViewOp,
        LaunchOp,
        ReadOp,
        CheckOp,
        ReturnOp,
    ],
    [ArgumentType],
)
