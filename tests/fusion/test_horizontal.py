"""Independent groups over the same points become one kernel, dependent ones do not."""

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    BroadcastInDim,
    Convert,
    DotGeneral,
    Multiply,
    Negate,
    Reduce,
    Tanh,
    Transpose,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import F32, I64
from anyshape.symbolic import Size
from tests.kernels.harness import check

M, N, K = (Size.symbol(name) for name in "mnk")
SIZES = [{"m": m, "n": n, "k": 3} for m, n in ((0, 3), (1, 1), (7, 5), (3, 40))]


def test_preparations_from_arguments() -> None:
    g = FunctionBuilder()
    x, y = g.input(M, N), g.input(M, N, dtype=I64)
    results = [g(Tanh, x), g(Convert, y, dtype=F32), g.iota(1, M, N), g(Negate, g.input(M, K))]
    assert check(g.finish(*results), SIZES).kinds == ["loop", "loop"], "[m, n] and [m, k]"


def test_readers_of_one_value() -> None:
    g = FunctionBuilder()
    h = g(DotGeneral, g.input(M, K), g.input(K, N), lhs_contract=(1,), rhs_contract=(0,))
    results = [g(Abs, h), g(Negate, h), g(Tanh, h)]
    assert check(g.finish(*results), SIZES).kinds == ["contract", "loop"]


def test_reductions_of_one_value_read_it_once() -> None:
    g = FunctionBuilder()
    x = g.input(M, N)
    top = g(Reduce, x, axes=(0,), kind="max")
    planned = check(g.finish(top, g(Reduce, g(Multiply, x, x), axes=(0,))), SIZES)
    assert planned.kinds == ["reduce", "reduce"], "both over chunks, then both of what they gave"


def test_one_behind_the_other_stay_apart() -> None:
    g = FunctionBuilder()
    x, row = g.input(M, M), g.input(M, M)
    product = g(DotGeneral, g(Tanh, x), row, lhs_contract=(1,), rhs_contract=(0,))
    turned = g(Transpose, product, permutation=(1, 0))
    assert check(g.finish(g(Add, turned, x), g(Tanh, x)), SIZES).kinds.count("loop") == 2


def test_a_broadcast_that_both_have_does_not_hide_a_dependence() -> None:
    g = FunctionBuilder()
    x = g.input(M, N)
    row = g(Tanh, g(Reduce, x, axes=(1,), kind="max"))
    wide = g(BroadcastInDim, row, dimensions=(0,), sizes=(M, N))
    turned = g(Transpose, g(Add, x, wide), permutation=(1, 0))
    check(g.finish(row, g(Multiply, x, wide), turned, g(Negate, x)), SIZES)
