"""Every result of a graph has memory of its own, whatever it is: an argument, a weight, the same value twice, two views."""

import numpy as np

from anyshape.dialects.dhlo import BroadcastInDim, ConstantStore, Reshape, Tanh, Transpose, Weight
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.symbolic import Size
from tests.kernels.harness import check

M, N = Size.symbol("m"), Size.symbol("n")


def test_results_that_share_memory() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    x, y = g.input(M, N), g.input()
    weight = g.add(Weight.of_array(np.arange(6, dtype=np.float32).reshape(2, 3), store)).result
    t = g(Tanh, x)
    flat, unit = g(Reshape, t, sizes=(M * N,)), g(Reshape, t, sizes=(M, 1, N))
    results = [
        x, x, t, flat, t, unit, weight, g(Reshape, weight, sizes=(6,)), y, g(Reshape, x, sizes=(M * N,)), g.full(2.0, M),
        g(Transpose, x, permutation=(1, 0)), g(BroadcastInDim, y, dimensions=(), sizes=(N,)), g(Reshape, flat, sizes=(N, M)),
    ]  # fmt: skip
    check(g.finish(*results), [{"m": m, "n": n} for m, n in ((3, 5), (1, 1), (0, 4), (4, 0))], store)
