"""A product's epilogue that reads one position of a longer tensor: the axis of size 1 that is left was missing among its indices."""

import numpy as np

from anyshape import nn
from anyshape.driver.graphs import compile_graph
from anyshape.nn import Graph
from anyshape.support.options import Options


def test_a_product_plus_the_last_position() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((32, 64)).astype(np.float32)
    g = Graph()
    b, s = g.sizes("b", "s")
    x, y = g.input("x", (b, s, 32)), g.input("y", (b, 1, 64))
    run = compile_graph(
        g.finish(nn.linear(y, g.array(weight)) + nn.slice_axis(x, 1, s - 1, 1)), options=Options(cache=None)
    )
    for batch, length in ((2, 3), (1, 1), (3, 7)):
        rows = rng.standard_normal((batch, length, 32)).astype(np.float32)
        factor = rng.standard_normal((batch, 1, 64)).astype(np.float32)
        expected = factor.astype(np.float64) @ weight.T.astype(np.float64) + rows[:, -1:]
        np.testing.assert_allclose(run(rows, factor)[0], expected, rtol=0, atol=1e-4)
