"""Compiled plans against the numpy interpreter, at sizes with 0, 1, odd, one vector, several vectors."""

from __future__ import annotations

import itertools

import numpy as np
import points_access_plans
import points_harness
import points_plans
import pytest
from points_harness import Compiled, check_plan

from anyshape.dialects.dtypes import BY_NAME
from anyshape.dialects.tile.interpreter import IndexFault
from anyshape.support.machine import Machine

WIDTHS = (0, 1, 2, 7, 15, 16, 17, 33, 64, 65, 300)
ROWS = (0, 1, 3, 8)
TOLERANCE = {"f64": 1e-12, "f16": 2e-3, "bf16": 2e-2}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(int(np.prod(shape))).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.full(int(np.prod(shape)), 77.0, np.float32)


def values(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    """Numbers of a dtype; floats with few NaNs and infinities are made by the tests that want them."""
    dtype = BY_NAME["bool" if name == "i1" else name]
    if dtype.is_bool:
        return rng.random(count) < 0.5
    if dtype.is_float:
        return rng.standard_normal(count).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, count, dtype=dtype.numpy, endpoint=True)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("name", ["bias_relu", "bias_gelu"])
def test_bias_and_activation(compiled: Compiled, rng: np.random.Generator, name: str, n: int) -> None:
    for b in ROWS:
        check_plan(compiled, name, [floats(rng, b, n), floats(rng, n), zeros(b, n)], {"b": b, "n": n}, b)


@pytest.mark.parametrize("n", WIDTHS)
def test_softmax_and_layer_norm(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    for b, s in ((0, 3), (1, 1), (2, 5)):
        data = [floats(rng, b, s, n), floats(rng, s, n), zeros(b, s, n)]
        check_plan(compiled, "masked_softmax", data, {"b": b, "s": s, "n": n}, b * s)
    for b in ROWS:
        data = [floats(rng, b, n), floats(rng, n), floats(rng, n), zeros(b, n)]
        check_plan(compiled, "layer_norm", data, {"b": b, "n": n}, b)


def test_relu_keeps_nan(compiled: Compiled) -> None:
    x = np.array([np.nan, -1, 2, np.inf, -np.inf] * 7, np.float32)
    out = check_plan(compiled, "bias_relu", [x, np.zeros(35, np.float32), zeros(35)], {"b": 1, "n": 35}, 1)[2]
    assert np.isnan(out[0::5]).all() and (out[1::5] == 0).all()


@pytest.mark.parametrize("n", WIDTHS)
def test_accesses(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    check_plan(compiled, "scatter_columns", [floats(rng, n), zeros(2 * n + 1)], {"n": n}, n)
    for b in ROWS:
        sizes = {"b": b, "n": n}
        check_plan(compiled, "column_sum", [floats(rng, b, n), zeros(n)], sizes, n)
        check_plan(compiled, "transpose", [floats(rng, n, b), zeros(b, n)], sizes, b)
        check_plan(compiled, "pad", [floats(rng, b, n), zeros(b + 2, n + 3)], sizes, b + 2)
        check_plan(compiled, "iota", [np.full(b * n, 5)], sizes, b)
        check_plan(compiled, "uniform_in_empty_lanes", [floats(rng, b, n), zeros(b, n)], sizes, b)
        check_plan(compiled, "scalar_points", [floats(rng, b, n), zeros(b, n)], {"b": b, "m": n}, b * n)
        check_plan(compiled, "reversed_rows", [floats(rng, b, n), zeros(b, n)], sizes, b)
        data = [floats(rng, b, 3, n), floats(rng, 3), floats(rng, b), zeros(b, 3, n)]
        check_plan(compiled, "nested_rows", data, {"b": b, "m": 3, "n": n}, b)
        for step in (0, 1, 3):
            data = [floats(rng, b * (step * n + 1)), zeros(b, n)]
            check_plan(compiled, "strided_input", data, {"b": b, "n": n, "m": step}, b)
        check_plan(compiled, "row_dot", [floats(rng, b, n), floats(rng, n), zeros(b)], {"b": b, "k": n}, b, atol=1e-4)
        data = [floats(rng, b, 3, n), zeros(3)]
        check_plan(compiled, "channel_sum", data, {"b": b, "m": 3, "n": n}, 3, atol=1e-4)


@pytest.mark.parametrize(("b", "n"), [(1, 1), (3, 1), (1, 40), (3, 40), (3, 0), (0, 40)])
def test_open_broadcast(compiled: Compiled, rng: np.random.Generator, b: int, n: int) -> None:
    for m, k in itertools.product({1, b}, {1, n}):
        data = [floats(rng, b, n), floats(rng, m, k), zeros(b, n)]
        check_plan(compiled, "open_broadcast", data, {"b": b, "n": n, "m": m, "k": k}, b)


@pytest.mark.parametrize("name", points_access_plans.ELEMENTS)
def test_element_types(compiled: Compiled, rng: np.random.Generator, name: str) -> None:
    tolerance = TOLERANCE.get(name, 0.0)
    for n in WIDTHS:
        data = [values(rng, name, 3 * n) for _ in range(3)]
        check_plan(compiled, f"map_{name}", data, {"b": 3, "n": n}, 3, rtol=tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("name", ["f32", *points_access_plans.ELEMENTS])
def test_reductions(compiled: Compiled, rng: np.random.Generator, name: str) -> None:
    tolerance = TOLERANCE.get(name, 2e-5)
    kinds = len(points_access_plans.kinds_of(name))
    for n, b in itertools.product(WIDTHS, (0, 1, 5)):
        data = values(rng, name, b * n)
        for kernel, length, total in ((f"rows_{name}", b, b), (f"columns_{name}", n, n)):
            out = values(rng, name, kinds * length)
            check_plan(compiled, kernel, [data, out], {"b": b, "n": n}, total, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("n", [1, 5, 16, 17, 64, 100])
def test_nan_wins_in_reductions(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    for place in {0, n // 2, n - 1}:
        x = floats(rng, n)
        x[place] = np.nan
        out = check_plan(compiled, "rows_f32", [x, zeros(4)], {"b": 1, "n": n}, 1)[1]
        assert np.isnan(out).all()
        out = check_plan(compiled, "columns_f32", [x, zeros(4)], {"b": n, "n": 1}, 1)[1]
        assert np.isnan(out).all()


def test_long_sums_keep_their_accuracy(compiled: Compiled) -> None:
    """A float32 sum of 300,000 tenths taken one by one is off by 1e-3; in blocks it is not."""
    n = 300_000
    x = np.full(n, 0.1, np.float32)
    exact = x.astype(np.float64).sum()
    out = np.zeros(4, np.float32)
    compiled.run("rows_f32", [x, out], {"b": 1, "n": n}, 0, 1)
    assert out[0] == pytest.approx(exact, rel=5e-6)
    compiled.run("columns_f32", [x, out], {"b": n, "n": 1}, 0, 1)
    assert out[0] == pytest.approx(exact, rel=2e-5)


def test_infinities_are_no_nan(compiled: Compiled) -> None:
    x = np.array([np.inf, -np.inf, 1.0] * 11, np.float32)
    out = check_plan(compiled, "rows_f32", [x, zeros(4)], {"b": 1, "n": 33}, 1)[1]
    assert out[1] == np.inf and out[2] == -np.inf


def test_maximum_of_two(compiled: Compiled, rng: np.random.Generator) -> None:
    for n in WIDTHS:
        x, y = floats(rng, n), floats(rng, n)
        x[::3] = np.nan
        y[1::4] = np.nan
        check_plan(compiled, "maximum", [x, y, zeros(n), zeros(n)], {"n": n}, n)


@pytest.mark.parametrize("n", WIDTHS)
def test_integer_division_and_comparison(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    x = rng.integers(-100, 100, n, dtype=np.int32)
    y = rng.integers(1, 9, n, dtype=np.int32) * rng.choice(np.array([-1, 1], np.int32), n)
    check_plan(compiled, "divide_integers", [x, y, x.copy(), x.copy()], {"n": n}, n)
    data = [floats(rng, n), floats(rng, n), rng.random(n) < 0.5, np.zeros(n, bool)]
    check_plan(compiled, "compare", data, {"n": n}, n)


@pytest.mark.parametrize("name", points_access_plans.NARROW)
def test_narrow_softmax(compiled: Compiled, rng: np.random.Generator, name: str) -> None:
    for n in WIDTHS:
        data = [values(rng, name, 2 * n), values(rng, name, 2 * n)]
        check_plan(compiled, f"softmax_{name}", data, {"b": 2, "n": n}, 2, rtol=4 * TOLERANCE[name], atol=1e-6)


@pytest.mark.parametrize("name", points_access_plans.NARROW)
def test_casts_are_exact(compiled: Compiled, rng: np.random.Generator, name: str) -> None:
    """Every bit pattern of the narrow type, and f32 values between its neighbours; NaNs stay NaNs."""
    narrow = BY_NAME[name].numpy
    every = np.arange(65536, dtype=np.uint16).view(narrow)
    wide = np.zeros(65536, np.float32)
    compiled.run(f"from_{name}", [every, wide], {"n": 65536}, 0, 65536)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    bits = rng.integers(0, 2**32, 40000, dtype=np.uint32)
    middle = wide.view(np.uint32)[:20000] + rng.integers(-1, 2, 20000).astype(np.uint32) * np.uint32(0x8000)
    x = np.concatenate([bits, middle]).view(np.float32)
    out = np.zeros(x.size, narrow)
    compiled.run(f"to_{name}", [x, out], {"n": x.size}, 0, x.size)
    with np.errstate(all="ignore"):
        expected = x.astype(narrow)
    nan = np.isnan(x)
    assert np.isnan(out[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(out[~nan].view(np.uint16), expected[~nan].view(np.uint16))


@pytest.mark.parametrize("extent", points_access_plans.FIXED)
def test_constant_extents(compiled: Compiled, rng: np.random.Generator, extent: int) -> None:
    for b in ROWS:
        data = [floats(rng, b, extent), zeros(b, extent), zeros(b)]
        check_plan(compiled, f"fixed_row_{extent}", data, {"b": b}, b)


@pytest.mark.parametrize("n", [0, 1, 17, 64, 150])
def test_products(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    for b, m, k in ((1, 1, 1), (2, 6, 5), (2, 7, 33), (1, 13, 0), (0, 3, 3)):
        sizes = {"b": b, "m": m, "n": n, "k": k}
        data = [floats(rng, b, m, k), floats(rng, b, k, n), floats(rng, n), zeros(b, m, n)]
        check_plan(compiled, "product", data, sizes, b * m, atol=1e-4)
        integers = [rng.integers(-9, 9, each.size, dtype=np.int32) for each in data]
        check_plan(compiled, "product_i32", integers, sizes, b * m)


@pytest.mark.parametrize("n", [0, 1, 17, 64, 150])
def test_convolution(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    for b, m, k in ((1, 1, 1), (2, 6, 5), (1, 7, 20), (1, 4, 0), (0, 3, 3)):
        data = [floats(rng, b, m, k), floats(rng, 3, k, n), zeros(b, m, n)]
        check_plan(compiled, "convolution", data, {"b": b, "m": m, "n": n, "k": k}, b * m, atol=1e-4)


def spans_of(total: int) -> list[tuple[int, int]]:
    cuts = sorted({0, total // 3, total // 3 + 1, total - total // 4, total} & set(range(total + 1)))
    return list(itertools.pairwise(cuts))


@pytest.mark.parametrize(
    ("name", "shapes", "sizes", "total"),
    [
        ("bias_gelu", [(9, 70), (70,), (9, 70)], {"b": 9, "n": 70}, 9),
        ("masked_softmax", [(3, 4, 50), (4, 50), (3, 4, 50)], {"b": 3, "s": 4, "n": 50}, 12),
        ("column_sum", [(20, 150), (150,)], {"b": 20, "n": 150}, 150),
        ("product", [(2, 13, 20), (2, 20, 70), (70,), (2, 13, 70)], {"b": 2, "m": 13, "n": 70, "k": 20}, 26),
        ("scalar_points", [(5, 7), (5, 7)], {"b": 5, "m": 7}, 35),
        ("scatter_columns", [(90,), (181,)], {"n": 90}, 90),
    ],
)
def test_parts_equal_the_whole(
    compiled: Compiled, rng: np.random.Generator, name: str, shapes: list[tuple[int, ...]], sizes: dict[str, int], total: int
) -> None:  # fmt: skip
    data = [floats(rng, *shape) for shape in shapes]
    whole = check_plan(compiled, name, data, sizes, total, atol=1e-4)
    parts = check_plan(compiled, name, data, sizes, total, spans=spans_of(total), atol=1e-4)
    single = check_plan(compiled, name, data, sizes, total, spans=[(p, p + 1) for p in range(total)], atol=1e-4)
    for all_, some, one in zip(whole, parts, single, strict=True):
        assert all_.tobytes() == some.tobytes() == one.tobytes()


@pytest.mark.parametrize("name", ["embedding", "embedding_inside"])
def test_checked_rows(compiled: Compiled, rng: np.random.Generator, name: str) -> None:
    sizes = {"b": 4, "m": 5, "n": 20}
    data = [floats(rng, 5, 20), np.array([0, 4, 2, 2]), zeros(4, 20)]
    compiled.reports.clear()
    check_plan(compiled, name, data, sizes, 4)
    assert compiled.reports == []
    for bad in (-1, 5, 2**40):
        data[1][2] = bad
        compiled.reports.clear()
        check_plan(compiled, name, data, sizes, 4)
        assert compiled.reports == [IndexFault(7, bad, 5)]


@pytest.mark.parametrize("n", [1, 5, 16, 31, 100])
def test_checked_lanes(compiled: Compiled, rng: np.random.Generator, n: int) -> None:
    ids = rng.integers(0, 9, n, dtype=np.int32)
    compiled.reports.clear()
    check_plan(compiled, "take", [floats(rng, 9), ids, zeros(n)], {"m": 9, "n": n}, n)
    assert compiled.reports == []
    ids[n // 2 :] = -3
    ids[n - 1] = 9 if n > 1 else -3
    check_plan(compiled, "take", [floats(rng, 9), ids, zeros(n)], {"m": 9, "n": n}, n)
    assert compiled.reports[0] == IndexFault(3, -3, 9)


@pytest.mark.parametrize(
    "machine",
    [
        Machine(architecture="x86_64", vector_bits=256, registers=16, features=frozenset({"fma"})),
        Machine(architecture="x86_64", vector_bits=128, registers=16),
    ],
    ids=["256", "128"],
)
def test_other_machines(rng: np.random.Generator, machine: Machine) -> None:
    """Other widths, fewer registers, no fused products: the same plans, run here."""
    other = points_harness.compile_plans(
        [points_plans.masked_softmax(), points_plans.layer_norm(), points_access_plans.product(),
         points_access_plans.column_sum(), points_access_plans.open_broadcast()], machine,
    )  # fmt: skip
    for n in WIDTHS:
        check_plan(other, "masked_softmax", [floats(rng, 2, 3, n), floats(rng, 3, n), zeros(2, 3, n)],
                   {"b": 2, "s": 3, "n": n}, 6)  # fmt: skip
        data = [floats(rng, 3, n), floats(rng, n), floats(rng, n), zeros(3, n)]
        check_plan(other, "layer_norm", data, {"b": 3, "n": n}, 3)
        data = [floats(rng, 2, 7, 9), floats(rng, 2, 9, n), floats(rng, n), zeros(2, 7, n)]
        check_plan(other, "product", data, {"b": 2, "m": 7, "n": n, "k": 9}, 14, atol=1e-4)
        check_plan(other, "column_sum", [floats(rng, 5, n), zeros(n)], {"b": 5, "n": n}, n)
        data = [floats(rng, 3, n), floats(rng, 3), zeros(3, n)]
        check_plan(other, "open_broadcast", data, {"b": 3, "n": n, "m": 3, "k": 1}, 3)


def test_harness_sees_a_wrong_result(compiled: Compiled, rng: np.random.Generator) -> None:
    """The comparison can fail: a kernel that ran over half of its points leaves the rest unwritten."""
    data = [floats(rng, 4, 20), floats(rng, 20), zeros(4, 20)]
    with pytest.raises(AssertionError):
        check_plan(compiled, "bias_relu", data, {"b": 4, "n": 20}, 4, spans=[(0, 2)])
    assert points_harness.GUARD >= 16
