"""Give every result of the graph memory of its own."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from anyshape.dialects.dhlo import Reshape
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp


def copy_shared_results(func: FuncOp) -> None:
    """Copy results that share memory with an argument, a weight or an earlier result (a `loop` fusion that yields its input)."""
    returned = func.body.block.last_op
    assert isinstance(returned, ReturnOp)
    taken: set[SSAValue] = set()
    for index, value in enumerate(returned.operands):
        root = viewed(value)
        if isinstance(root.owner, FusionOp) and root not in taken:
            taken.add(root)
            continue
        block = Block(arg_types=[value.type])
        block.add_op(YieldOp(block.args[0]))
        copy = FusionOp("loop", [value], [value.type], Region(block))
        Rewriter.insert_op(copy, InsertPoint.before(returned))
        returned.operands[index] = copy.results[0]
        taken.add(copy.results[0])


def viewed(value: SSAValue) -> SSAValue:
    """The value whose memory a value shares: through reshapes."""
    while isinstance(value.owner, Reshape):
        value = value.owner.operands[0]
    return value
