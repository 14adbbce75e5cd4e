"""What a pool may compute for itself of what it reads, and that no window is written to memory."""

from anyshape.dialects.dhlo import Exponential, Relu
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


def test_large_windows_are_a_reduction() -> None:
    g = FunctionBuilder()
    x = g.input("b", "n", "n")
    assert plan(g.finish(g(AvgPool, g(Relu, x), **LARGE))).kinds == ["reduce"]


def test_adaptive_windows_are_a_reduction() -> None:
    g = FunctionBuilder()
    kinds = plan(g.finish(g(AdaptiveAvgPool, g.input("b", "n", "n"), sizes=(7, 5)))).kinds
    assert kinds.count("reduce") == 1
