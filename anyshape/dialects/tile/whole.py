"""`tile.whole`: a whole op of `dhlo` on whole buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile.ops import BufferType, buffer


@irdl_op_definition
class WholeOp(IRDLOperation):
    """buffers[n:] = op(buffers[:n]), all in row-major order, where op is the region's only one; claimable by a target.

    `site` numbers the error text of an op that checks indices.
    """

    name = "tile.whole"
    buffers = var_operand_def(BufferType)
    site = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator())
    assembly_format = "$buffers (`site` $site^)? attr-dict-with-keyword `:` type($buffers) $body"

    def __init__(self, buffers: Sequence[SSAValue], op: Whole, site: int | None = None) -> None:
        """`op` is copied."""
        block = Block(arg_types=[operand.type for operand in op.operands])
        copy = type(op).create(
            operands=list(block.args),
            result_types=[result.type for result in op.results],
            attributes=dict(op.attributes),
        )
        block.add_op(copy)
        super().__init__(
            operands=[list(buffers)],
            properties={"site": None if site is None else IntegerAttr(site, i64)},
            regions=[Region(block)],
        )

    @property
    def op(self) -> Whole:
        """What is computed."""
        return cast(Whole, self.body.block.first_op)

    def verify_(self) -> None:
        first = self.body.block.first_op
        if not isinstance(first, Whole) or first is not self.body.block.last_op:
            raise VerifyException("tile.whole holds one op that is a kernel by itself")
        if list(first.operands) != list(self.body.block.args):
            raise VerifyException("tile.whole: the op takes the region's arguments in order")
        values: list[SSAValue] = [*first.operands, *first.results]
        expected = [buffer(dtype_of(value.type).scalar, sizes_of(value.type)) for value in values]
        if [each.type for each in self.buffers] != expected:
            raise VerifyException(f"tile.whole: its buffers should be {list(map(str, expected))}")


def is_inside_whole(op: Operation) -> bool:
    """Whether an op is the one that a `tile.whole` stands for."""
    return isinstance(op.parent_op(), WholeOp)


__all__ = ["WholeOp", "is_inside_whole"]
