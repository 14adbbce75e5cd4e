"""Attention of queries that stand behind a past, over all of it or over a window: what a cache of keys and values is read by."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape import nn
from anyshape.driver.graphs import GraphFunction, compile_graph
from anyshape.support.options import Options

CAPACITY = 2600


@cache
def program(window: int, heads: int, kv_heads: int, head: int, cached: str = "f32") -> GraphFunction:
    """(q [b, h, s, d], p, k and v [b, hk, c, d], scales of i8 [b, hk, c]) -> attention to the first p + s keys of c."""
    g = nn.Graph()
    b, s, c = g.sizes("b", "s", "c")
    query = g.input("q", (b, heads, s, head))
    past = g.size_input("p")
    keys, values = (g.input(name, (b, kv_heads, c, head), cached) for name in "kv")
    scales = [g.input(f"scales of {name}", (b, kv_heads, c)) for name in "kv"] if cached == "i8" else []
    g.require((past + s).le(c))
    key, value, *rest = (nn.slice_axis(each, 2, 0, past + s) for each in (keys, values, *scales))
    named = dict(zip(("key_scale", "value_scale"), rest, strict=bool(rest)))
    result = nn.attention(query, key, value, causal=True, window=window, **named)
    return compile_graph(g.finish(result), options=Options(threads=2))


def reference(q: Any, k: Any, v: Any, past: int, window: int) -> Any:
    """Row by row, in f64."""
    _, heads, length, head = q.shape
    group = heads // k.shape[1]
    result = np.zeros_like(q, np.float64)
    for h in range(heads):
        for i in range(length):
            last = past + i + 1
            first = max(0, last - window) if window else 0
            scores = k[0, h // group, first:last].astype(np.float64) @ q[0, h, i] / np.sqrt(head)
            weights = np.exp(scores - scores.max())
            result[0, h, i] = weights @ v[0, h // group, first:last] / weights.sum()
    return result


@pytest.mark.parametrize("window", [0, 1, 7, 16, 100, 1500])
@pytest.mark.parametrize(
    ("past", "length"), [(0, 1), (0, 5), (3, 1), (16, 1), (40, 2), (9, 3), (100, 33), (1990, 1), (1500, 300), (2599, 1)]
)
def test_queries_behind_a_past(window: int, past: int, length: int) -> None:
    rng = np.random.default_rng(past + length)
    q = rng.standard_normal((1, 6, length, 64)).astype(np.float32)
    k, v = (rng.standard_normal((1, 2, CAPACITY, 64)).astype(np.float32) for _ in range(2))
    k[:, :, past + length :] = v[:, :, past + length :] = np.nan  # nothing behind the queries is read
    if window:
        k[:, :, : max(0, past + 1 - window)] += 30.0  # what a window hides would win
    (got,) = program(window, 6, 2, 64)(q, past, k, v)
    np.testing.assert_allclose(got, reference(q, k, v, past, window), rtol=2e-4, atol=2e-5)


def test_heads_of_odd_width() -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 3, 37, 20)).astype(np.float32)
    k, v = (rng.standard_normal((1, 3, 80, 20)).astype(np.float32) for _ in range(2))
    (got,) = program(11, 3, 3, 20)(q, 43, k, v)
    np.testing.assert_allclose(got, reference(q, k, v, 43, 11), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("cached", ["f16", "i8"])
@pytest.mark.parametrize("window", [0, 100])
@pytest.mark.parametrize("heads, kv_heads, head", [(6, 2, 64), (8, 1, 256), (3, 3, 20), (14, 2, 16)])
def test_narrow_keys_and_values(heads: int, kv_heads: int, head: int, window: int, cached: str) -> None:
    """Against f64 on the numbers as they are stored: what is left is the rounding of f32."""
    rng = np.random.default_rng(heads)
    dtype = {"f16": np.float16, "i8": np.int8}[cached]
    k, v = ((rng.standard_normal((1, kv_heads, CAPACITY, head)) * 30).astype(dtype) for _ in range(2))
    scales = [rng.uniform(0.01, 0.06, (1, kv_heads, CAPACITY)).astype(np.float32) for _ in range(2)]
    wide = [each.astype(np.float64) / 30 for each in (k, v)]
    if cached == "i8":
        wide = [each.astype(np.float64) * scale[..., None] for each, scale in zip((k, v), scales, strict=True)]
    else:
        k, v = (wide_.astype(dtype) for wide_ in wide)
        wide, scales = [each.astype(np.float64) for each in (k, v)], []
    for past, length in ((0, 1), (7, 1), (63, 2), (0, 40), (1400, 1), (1300, 17), (CAPACITY - 1, 1)):
        q = rng.standard_normal((1, heads, length, head)).astype(np.float32)
        # Nothing behind the queries is read.
        behind = np.arange(CAPACITY) >= past + length
        read = [np.where(behind, np.float32(np.nan), scale) for scale in scales]
        (got,) = program(window, heads, kv_heads, head, cached)(q, past, k, v, *read)
        np.testing.assert_allclose(got, reference(q, *wide, past, window), rtol=2e-4, atol=2e-5)
