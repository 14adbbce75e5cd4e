"""What a pool may compute for itself of what it reads, and that no window is written to memory."""

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Convolution, Exponential, Logistic, Multiply, Relu
from anyshape.dialects.dhlo.adaptive import AdaptiveAvgPool
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.pooling import AvgPool, MaxPool
from anyshape.symbolic import Size
from tests.kernels.harness import plan

N = Size.symbol("n")
SMALL = {"window": (3, 3), "strides": (2, 2), "dilation": (1, 1), "low": (1, 1), "sizes": ((N + 1) // 2, (N + 1) // 2)}
LARGE = {"window": (7, 7), "strides": (7, 7), "dilation": (1, 1), "low": (0, 0), "sizes": (N // 7, N // 7)}


def test_what_is_cheap_is_computed_at_every_place() -> None:
    g = FunctionBuilder()
    pooled = g(MaxPool, g(Relu, g.input("b", "n", "n")), **SMALL)
    assert plan(g.finish(g(Relu, pooled))).kinds == ["loop"]


def test_what_is_dear_is_written_first() -> None:
    g = FunctionBuilder()
    pooled = g(MaxPool, g(Exponential, g.input("b", "n", "n")), **SMALL)
    assert plan(g.finish(pooled)).kinds == ["loop", "loop"]


def convolved(g: FunctionBuilder) -> SSAValue:
    same = {
        "window_strides": (1, 1),
        "padding": (1, 1),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "sizes": (N, N),
    }
    return g(Convolution, g.input("b", 8, "n", "n"), g.input(16, 8, 3, 3), **same)


def test_what_follows_a_product_is_computed_once() -> None:
    g = FunctionBuilder()
    pooled = g(MaxPool, g(Relu, convolved(g)), **SMALL)
    planned = plan(g.finish(pooled))
    assert planned.kinds == ["contract", "loop"]
    product, _ = planned.fusions
    assert any(isinstance(op, Relu) for op in product.walk())


def test_what_follows_a_product_on_two_ways_is_computed_once() -> None:
    g = FunctionBuilder()
    x = convolved(g)
    pooled = g(MaxPool, g(Multiply, x, g(Logistic, x)), **SMALL)
    assert plan(g.finish(pooled)).kinds == ["contract", "loop"]


def test_large_windows_are_a_reduction() -> None:
    g = FunctionBuilder()
    x = g.input("b", "n", "n")
    assert plan(g.finish(g(AvgPool, g(Relu, x), **LARGE))).kinds == ["reduce"]


def test_adaptive_windows_are_a_reduction() -> None:
    g = FunctionBuilder()
    kinds = plan(g.finish(g(AdaptiveAvgPool, g.input("b", "n", "n"), sizes=(7, 5)))).kinds
    assert kinds.count("reduce") == 1
