"""Groups of equal structure share a kernel, others do not."""

from xdsl.ir import Region, SSAValue

from anyshape.dialects.dhlo import Add, BroadcastInDim, Maximum, Multiply, Subtract, Tanh
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.kernels import PlanTable
from anyshape.symbolic import Size


def _plans(*groups: FusionOp) -> int:
    """How many kernels these groups have."""
    table = PlanTable()
    return len({table.launch_of(group, frozenset()).plan.kernel.sym_name.data for group in groups})


def _group(symbol: str, op: type = Add, factor: float = 2.0, *, swapped: bool = False, wide: bool = False) -> FusionOp:
    """op(tanh(x)·factor, y) over [n, 3], or [n, 4]."""
    sizes = (Size.symbol(symbol), Size.const(4 if wide else 3))
    g, outside = FunctionBuilder(), FunctionBuilder()
    x, y = g.input(*sizes), g.input(*sizes)
    scale = g(BroadcastInDim, g.full(factor), dimensions=(), sizes=sizes)
    left: tuple[SSAValue, SSAValue] = (g(Multiply, g(Tanh, x), scale), y)
    result = g(op, *(reversed(left) if swapped else left))
    block = g.finish(result).body.detach_block(0)
    assert block.last_op is not None
    block.erase_op(block.last_op)
    block.add_op(YieldOp(result))
    return FusionOp("loop", [outside.input(*sizes), outside.input(*sizes)], [result.type], Region(block))


def test_names_of_symbols_make_no_difference() -> None:
    assert _plans(_group("n"), _group("m"), _group("n")) == 1


def test_what_makes_another_kernel() -> None:
    group = _group("n")
    others = [_group("n", Maximum), _group("n", factor=3.0), _group("n", wide=True)]
    assert all(_plans(group, other) == 2 for other in others)
    assert _plans(_group("n", Subtract), _group("n", Subtract, swapped=True)) == 2


def test_the_sign_of_zero_makes_another_kernel() -> None:
    assert _plans(_group("n", factor=0.0), _group("n", factor=-0.0)) == 2
    assert _plans(_group("n", factor=-0.0), _group("n", factor=-0.0)) == 1
