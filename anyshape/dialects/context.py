"""The context in which every text of this compiler parses."""

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math

from anyshape.dialects.arith_extra import RemFOp
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.dialect import Dhlo
from anyshape.dialects.host import Host
from anyshape.dialects.tile import Tile


def new_context() -> Context:
    """A fresh context with every dialect that programs of any stage use."""
    context = Context()
    for dialect in (Builtin, Func, Arith, Math, Dhlo, Tile, Host):
        context.load_dialect(dialect)
    for op in (RemFOp, *DhloOp.OPS.values()):  # ops of `dhlo` that were defined outside this package too
        if context.get_optional_op(op.name) is None:
            context.load_op(op)
    return context


__all__ = ["new_context"]
