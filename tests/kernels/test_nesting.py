"""The count of visited points finds what it is for."""

import pytest
from xdsl.ir import Region

from anyshape.dialects.dhlo import Add, BroadcastInDim, Reduce
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.kernels import PlanTable
from anyshape.symbolic import Size
from tests.kernels.nesting import check_nesting

N = Size.symbol("n")


def test_a_row_reduced_for_every_element_is_found() -> None:
    """x[i, j] + Σ_k x[j, k] forced into one kernel visits n³ points; x[i, j] + Σ_k x[i, k] visits n²."""
    for axis, found in ((1, True), (0, False)):
        g = FunctionBuilder()
        x = g.input(N, N)
        row = g(BroadcastInDim, g(Reduce, x, axes=(1,)), dimensions=(axis,), sizes=(N, N))
        func = g.finish(g(Add, x, row))
        block = func.body.detach_block(func.body.block)
        value = block.last_op.operands[0]
        block.erase_op(block.last_op)
        block.add_op(YieldOp(value))
        source = FunctionBuilder().input(N, N)
        fusion = FusionOp("reduce", [source], [value.type], Region(block))
        launch = PlanTable().launch_of(fusion, frozenset())
        if found:
            with pytest.raises(AssertionError, match="s0 × s0 × s0 visits"):
                check_nesting(launch)
        else:
            check_nesting(launch)
