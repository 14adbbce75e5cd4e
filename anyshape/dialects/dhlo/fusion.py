"""`dhlo.fusion`: a group of ops that becomes one kernel, as an isolated region op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

KINDS = ("loop", "reduce", "scan", "contract", "attend", "update", "whole")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a region with its values."""

    name = "dhlo.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class FusionOp(IRDLOperation):
    """results = body(operands): ops fused into one kernel of this kind.

    `loop`: elementwise and moving ops only; `reduce`: with reductions; `contract`, `attend`: around one product or one
    attention; `update`: parts of tensors that are written in place; `whole`: one op that is a kernel by itself. Operands are dense
    buffers, the region sees them as its arguments.
    """

    name = "dhlo.fusion"
    kind = prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp))
    assembly_format = "$kind `(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body"

    def __init__(self, kind: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region) -> None:
        super().__init__(
            properties={"kind": StringAttr(kind)},
            operands=[list(inputs)],
            result_types=[list(result_types)],
            regions=[body],
        )

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.block.last_op
        assert isinstance(last, YieldOp)
        return last.values

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f"dhlo.fusion: kind {self.kind.data} is not one of {', '.join(KINDS)}")
        if [value.type for value in self.inputs] != [argument.type for argument in self.block.args]:
            raise VerifyException("dhlo.fusion: operands and region arguments must have the same types")
        if [value.type for value in self.yielded] != [result.type for result in self.results]:
            raise VerifyException("dhlo.fusion: yielded values and results must have the same types")
