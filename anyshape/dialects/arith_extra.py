"""Ops of upstream MLIR's `arith` that xDSL's dialect lacks."""

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """result = lhs − rhs · trunc(lhs / rhs), exact, with the sign of lhs: C's fmod."""

    name = "arith.remf"
    traits = traits_def(Pure())


__all__ = ["RemFOp"]
