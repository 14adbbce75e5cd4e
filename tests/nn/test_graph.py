"""Graphs that are written down with `anyshape.nn`, compiled and compared with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import nn
from anyshape.dialects.dhlo import ArrayType
from anyshape.driver.graphs import compile_graph
from anyshape.support.errors import ArgumentError, GuardError, VerifyError
from anyshape.support.options import Options

OPTIONS = Options(threads=1, verify=True)
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_small_model_at_several_sizes() -> None:
    table, gain, head, bias = normal(11, 8), normal(8), normal(5, 8), normal(5)
    g = nn.Graph()
    b, s = g.sizes("b", "s")
    tokens = g.input("tokens", (b, s), "i64")
    x = nn.rms_norm(nn.embedding(tokens, g.weight("table", ArrayType.of(table))), g.array(gain), epsilon=1e-5)
    y = nn.linear(nn.silu(x) + 2.0 * x, g.array(head), g.array(bias))
    f = compile_graph(g.finish(y), {"table": table}, OPTIONS)
    for shape in ((1, 1), (2, 7), (3, 0)):
        ids = RNG.integers(0, 11, shape)
        rows = table[ids].astype(np.float64)
        rows = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * gain
        expected = (rows / (1 + np.exp(-rows)) + 2 * rows) @ head.T + bias
        np.testing.assert_allclose(f(ids)[0], expected, rtol=1e-5, atol=1e-5)


def test_arithmetic_broadcasts_as_numpy_does() -> None:
    g = nn.Graph()
    m, n = g.sizes("m", "n")
    x, row = g.input("x", (m, n)), g.input("row", (n,))
    f = compile_graph(g.finish((1.0 - x) * row / 4 - row, nn.where(nn.convert(x, "bool"), x, 3.0)), options=OPTIONS)
    a, r = normal(3, 5), normal(5)
    a[0] = 0.0
    product, chosen = f(a, r)
    np.testing.assert_allclose(product, (1 - a) * r / 4 - r, rtol=1e-6)
    np.testing.assert_array_equal(chosen, np.where(a != 0, a, np.float32(3)))


def test_rotations_keep_lengths_and_depend_on_distance_only() -> None:
    g = nn.Graph()
    (s,) = g.sizes("s")
    x = g.input("x", (1, s, 1, 8))
    past = g.size_input("p")
    tables = nn.rotary_tables(nn.positions(g, s, past), 100.0 ** (-np.arange(4) / 4))
    f = compile_graph(g.finish(nn.rotate(x, tables)), options=OPTIONS)
    a = normal(1, 6, 1, 8)
    here, there = (f(a, past)[0][0, :, 0].astype(np.float64) for past in (0, 1000))
    np.testing.assert_allclose(here @ here.T, there @ there.T, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose((here**2).sum(-1), (a[0, :, 0] ** 2).sum(-1), rtol=1e-5)
    assert np.abs(here - there).max() > 0.1


def grown(in_place: bool) -> Any:
    """Writes 2·x behind p rows of a cache."""
    g = nn.Graph()
    s, c = g.sizes("s", "c")
    x, cache = g.input("x", (2, s, 3)), g.input("cache", (2, c, 3))
    past = g.size_input("p")
    g.require((past + s).le(c))
    written = nn.update(cache, 2.0 * x, (0, past, 0))
    total = nn.slice_axis(written, 1, 0, past + s) * 1.5
    finished = g.finish(total, updates=[(written, cache)]) if in_place else g.finish(total, written)
    return compile_graph(finished, options=OPTIONS)


def test_updates_in_place_write_the_part_only_and_into_the_callers_memory() -> None:
    f, cache, x = grown(True), normal(2, 9, 3), normal(2, 4, 3)
    expected = cache.copy()
    expected[:, 3:7] = 2 * x
    results = f(x, cache, 3)
    assert len(results) == 1
    np.testing.assert_array_equal(cache, expected)
    np.testing.assert_allclose(results[0], expected[:, :7] * 1.5, rtol=1e-6)
    assert f.summary.launches["k0_update"] == 1


def test_the_same_update_not_in_place_leaves_the_argument_alone() -> None:
    f, cache, x = grown(False), normal(2, 9, 3), normal(2, 4, 3)
    before = cache.copy()
    total, written = f(x, cache, 3)
    np.testing.assert_array_equal(cache, before)
    np.testing.assert_array_equal(written[:, 3:7], 2 * x)
    np.testing.assert_allclose(total, written[:, :7] * 1.5, rtol=1e-6)


def test_no_room_and_strided_memory_are_refused() -> None:
    f, x = grown(True), normal(2, 4, 3)
    with pytest.raises(GuardError, match="p"):
        f(x, normal(2, 9, 3), 6)
    with pytest.raises(ArgumentError, match="cache is updated in place"):
        f(x, normal(2, 3, 9).transpose(0, 2, 1), 3)


def test_reading_what_was_updated_is_refused() -> None:
    g = nn.Graph()
    (c,) = g.sizes("c")
    cache, x = g.input("cache", (c, 3)), g.input("x", (1, 3))
    g.require(c.ge(1))
    written = nn.update(cache, x, (0, 0))
    with pytest.raises(Exception, match="read after it was updated") as caught:
        compile_graph(g.finish(nn.silu(cache), updates=[(written, cache)]), options=OPTIONS)
    assert isinstance(caught.value.__cause__, VerifyError)


def test_mistakes_are_named() -> None:
    g = nn.Graph()
    m, n = g.sizes("m", "n")
    x, y = g.input("x", (m,)), g.input("y", (n,))
    with pytest.raises(ArgumentError, match="sizes do not agree"):
        _ = x + y
    with pytest.raises(ArgumentError, match="name already"):
        g.input("x", (m,))
    with pytest.raises(ArgumentError, match="different graphs"):
        _ = x + nn.Graph().input("z", (m,))
    with g.scope("here"), pytest.raises(ArgumentError, match=r"dhlo\.dot_general cannot be built(.|\n)*here"):
        nn.linear(x, y.reshape(1, n))
