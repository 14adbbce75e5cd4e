"""`tile.prefix`: what the points of an axis so far fold to."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.tile.ops import PREFIX_KINDS, AxisOp


@irdl_op_definition
class PrefixOp(IRDLOperation):
    """result(k) = value(0) ∘ … ∘ value(k), k the index of the axis whose region this is in, ∘ the fold of `kind`.

    The identity of a sum of floats is −0 here, so that the first result is the first value.
    """

    name = "tile.prefix"
    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    assembly_format = "$kind $value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, kind: str, value: SSAValue) -> None:
        super().__init__(properties={"kind": StringAttr(kind)}, operands=[value], result_types=[value.type])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), AxisOp):
            raise VerifyException("tile.prefix is directly inside no tile.lanes or tile.loop")
        if self.kind.data not in PREFIX_KINDS:
            raise VerifyException(
                f"tile.prefix: unknown reduction {self.kind.data}; known are {', '.join(PREFIX_KINDS)}"
            )
        value: Attribute = self.value.type
        if self.kind.data in ("umax", "umin") and not isinstance(value, IntegerType):
            raise VerifyException(f"tile.prefix: {self.kind.data} is of integers, not of {value}")
        if self.kind.data == "logaddexp" and not isinstance(value, AnyFloat):
            raise VerifyException(f"tile.prefix: logaddexp is of floats, not of {value}")
        if value != self.result.type:
            raise VerifyException(f"tile.prefix: its result is {self.result.type}, its value {value}")


__all__ = ["PrefixOp"]
