"""`dhlo.fusion`: a group of ops that becomes one kernel, as an isolated region op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.sizes import DimsAttr
from anyshape.symbolic import Size

KINDS = ("loop", "flat", "reduce", "scan", "contract", "attend", "update", "whole")


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

    `loop`: elementwise and moving ops only; `flat`: the same, for rows that are fewer than threads or longer than caches, so that a
    launch divides them, too; `reduce`: with reductions; `contract`, `attend`: around one product or one
    attention; `update`: parts of tensors that are written in place; `whole`: one op that is a kernel by itself. Operands are dense
    buffers, the region sees them as its arguments.

    The results may have two forms: where the size `when`, which is 0 or 1, is 1, they are computed by the fusions of the second
    region, which takes and yields the same.
    """

    name = "dhlo.fusion"
    kind = prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    when = opt_prop_def(DimsAttr)
    body = region_def("single_block")
    other = opt_region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp))
    assembly_format = "$kind `(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body (`when` $when^ $other)?"

    def __init__(self, kind: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region) -> None:
        super().__init__(
            properties={"kind": StringAttr(kind)},
            operands=[list(inputs)],
            result_types=[list(result_types)],
            regions=[body, []],
        )

    def add_other_form(self, when: Size, block: Block) -> None:
        """Let the fusions of `block` compute the results where `when` is 1."""
        self.properties["when"] = DimsAttr((when,))
        self.add_region(Region(block))

    def become_flat(self) -> None:
        """Let a launch divide the rows of a `loop`, too."""
        self.kind = StringAttr("flat")

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.block.last_op
        assert isinstance(last, YieldOp)
        return last.values

    @property
    def condition(self) -> Size:
        """The size that is 1 where the second region computes the results, and 0 elsewhere."""
        return Size.const(0) if self.when is None else self.when.data[0]

    @property
    def fusions(self) -> Sequence[FusionOp]:
        """This fusion, and those of its second region."""
        others = () if self.other is None else self.other.block.ops
        return [self, *(op for op in others if isinstance(op, FusionOp))]

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f"dhlo.fusion: kind {self.kind.data} is not one of {', '.join(KINDS)}")
        if [value.type for value in self.inputs] != [argument.type for argument in self.block.args]:
            raise VerifyException("dhlo.fusion: operands and region arguments must have the same types")
        if [value.type for value in self.yielded] != [result.type for result in self.results]:
            raise VerifyException("dhlo.fusion: yielded values and results must have the same types")
        if (self.when is None) != (self.other is None) or (self.when is not None and len(self.when.data) != 1):
            raise VerifyException("dhlo.fusion: a second region goes with one size that says when it is used")
        if self.other is not None:
            _verify_other(self, self.other.block)


def _verify_other(fusion: FusionOp, block: Block) -> None:
    last = block.last_op
    if [argument.type for argument in block.args] != [argument.type for argument in fusion.block.args]:
        raise VerifyException("dhlo.fusion: both regions must have the same arguments")
    if not isinstance(last, YieldOp) or [value.type for value in last.values] != [each.type for each in fusion.results]:
        raise VerifyException("dhlo.fusion: both regions must yield the results")
