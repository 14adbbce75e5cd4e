"""Last axes of few points, which are written out and woven, and rows with borders, whose middle is walked in lanes."""

from __future__ import annotations

import pytest

from anyshape.dialects.dhlo import Add, BroadcastInDim, Concatenate, Multiply, Pad, Slice, Tanh, Transpose
from anyshape.dialects.dhlo.border import BorderPad
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, BOOL, F32, F64, I8, DType
from anyshape.dialects.sizes import sizes_of
from anyshape.symbolic import Size
from tests.kernels.harness import check

M, N = Size.symbol("m"), Size.symbol("n")
ENVS = [{"m": m, "n": n} for m, n in ((2, 1), (0, 3), (3, 0), (1, 7), (2, 16), (3, 33), (1, 150))]


@pytest.mark.parametrize("points", [2, 3, 4])
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, BOOL], ids=str)
def test_planes_become_neighbours(points: int, dtype: DType) -> None:
    g = FunctionBuilder()
    x = g.input(points, M, N, dtype=dtype)
    planned = check(g.finish(g(Transpose, x, permutation=(1, 2, 0))), ENVS)
    (kernel,) = planned.kernels.values()
    assert str(kernel).count("tile.store") == points


def test_parts_become_neighbours_with_what_follows() -> None:
    """Shifted parts of one tensor, joined along a new last axis, and a number for each: two results."""
    g = FunctionBuilder()
    x = g.input(M, N + 1)
    parts = [
        g(
            BroadcastInDim,
            g(Slice, x, starts=(0, start), sizes=(M, N), strides=(1, 1)),
            dimensions=(0, 1),
            sizes=(M, N, 1),
        )
        for start in range(2)
    ]
    joined = g(Concatenate, *parts, axis=2)
    factors = g(Multiply, g.input(M, N, 2), g(BroadcastInDim, g.input(2), dimensions=(2,), sizes=(M, N, 2)))
    sums = g(Add, joined, factors)
    check(g.finish(g(Tanh, sums), g(Multiply, sums, sums)), ENVS)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("low", "high"), [((1, 1), (1, 1)), ((0, 2), (1, 0)), ((2, 0), (0, 3))], ids=str)
def test_borders(mode: str, low: tuple[int, int], high: tuple[int, int]) -> None:
    g = FunctionBuilder()
    padded = g(BorderPad, g.input(2, M, N), mode=mode, low=(0, *low), high=(0, *high))
    result = g(Add, g(Tanh, padded), g.input(*sizes_of(padded.type)))
    envs = [{"m": m, "n": n} for m, n in ((4, 4), (5, 16), (4, 33), (7, 100))]
    check(g.finish(result), envs)


@pytest.mark.parametrize(
    ("low", "high"), [((1, 1), (1, 1)), ((0, 3), (0, 0)), ((0, -1), (0, 2)), ((0, 9), (0, 1))], ids=str
)
def test_pads(low: tuple[int, int], high: tuple[int, int]) -> None:
    g = FunctionBuilder()
    padded = g(Pad, g(Tanh, g.input(M, N)), g.full(2.5), low=low, high=high)
    check(g.finish(g(Multiply, padded, g.input(*sizes_of(padded.type)))), [env for env in ENVS if env["n"]])


def test_several_pads_that_differ() -> None:
    """The middle of one is no middle of the other."""
    g = FunctionBuilder()
    x, y = (g(Pad, g.input(M, N), g.full(1.0), low=(0, low), high=(0, 2 - low)) for low in (0, 2))
    check(g.finish(g(Add, x, y)), ENVS)
