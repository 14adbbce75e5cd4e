"""Groups that read an operand across rows: square tiles, and what is left of them."""

import pytest

from anyshape.dialects.dhlo import Abs, Add, BroadcastInDim, FloorDivide, Multiply, Reduce, Tanh, Transpose
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, DType
from anyshape.symbolic import Size
from tests.kernels.harness import check

B, M, N = (Size.symbol(name) for name in "bmn")
SIZES = [{"b": 2, "m": m, "n": n} for m, n in ((0, 3), (1, 1), (7, 5), (16, 16), (300, 17), (33, 600), (64, 64))]


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, I64, I32, I8, BOOL], ids=str)
def test_copy(dtype: DType) -> None:
    g = FunctionBuilder()
    planned = check(g.finish(g(Transpose, g.input(M, N, dtype=dtype), permutation=(1, 0))), SIZES)
    assert planned.kinds == ["loop"]


def test_in_a_batch_with_operands_that_lie_otherwise() -> None:
    g = FunctionBuilder()
    x, y, row, column = g.input(B, M, N), g.input(B, N, M), g.input(M), g.input(N)
    turned = g(Transpose, x, permutation=(0, 2, 1))
    scale = g(BroadcastInDim, row, dimensions=(2,), sizes=(B, N, M))
    shift = g(BroadcastInDim, column, dimensions=(1,), sizes=(B, N, M))
    planned = check(g.finish(g(Add, g(Multiply, g(Tanh, turned), scale), g(Abs, g(Add, y, shift)))), SIZES)
    assert planned.kinds == ["loop"]


def test_integer_division_in_the_tail_of_a_tile() -> None:
    g = FunctionBuilder()
    x = g.input(M, N, dtype=I32)
    one = g.full(7, N, M, dtype=I32)
    turned = g(Transpose, x, permutation=(1, 0))
    check(g.finish(g(FloorDivide, one, g(Add, turned, g.full(1, N, M, dtype=I32)))), SIZES)


def test_reductions_do_not_take_tiles() -> None:
    g = FunctionBuilder()
    x = g.input(M, N)
    turned = g(Transpose, x, permutation=(1, 0))
    total = g(Reduce, turned, axes=(1,))
    check(g.finish(g(Add, turned, g(BroadcastInDim, total, dimensions=(0,), sizes=(N, M)))), SIZES)


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_three_axes(order: tuple[int, ...]) -> None:
    g = FunctionBuilder()
    check(g.finish(g(Transpose, g.input(B, M, N), permutation=order)), SIZES)
