"""Scans with what surrounds them: reference = plans by numpy = machine code, and what becomes one kernel."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    BroadcastInDim,
    Compare,
    Convert,
    Gelu,
    Multiply,
    Negate,
    Reduce,
    Scan,
    Select,
    Slice,
    Subtract,
    Tanh,
    Transpose,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I64, DType
from anyshape.symbolic import Size
from tests.kernels.harness import check, compiled, plan

M, N, K = (Size.symbol(name) for name in "mnk")
Graph = Callable[[FunctionBuilder], list[SSAValue]]
SIZES = [
    {"m": m, "n": n, "k": k}
    for m, n, k in ((3, 40, 5), (1, 1, 1), (2, 7, 37), (0, 3, 2), (3, 0, 1), (2, 2, 0), (5, 9, 70), (20, 600, 2))
]


def scan(g: FunctionBuilder, x: SSAValue, axis: int, kind: str = "sum") -> SSAValue:
    return g(Scan, x, axis=axis, kind=kind)


def rows(g: FunctionBuilder) -> list[SSAValue]:
    """Along the last axis, ops before and behind; what is scanned is a result too."""
    x = g(Gelu, g.input(M, N))
    return [x, g(Tanh, scan(g, x, 1))]


def columns(g: FunctionBuilder) -> list[SSAValue]:
    """Along the first axis: no axis is left to be parallel."""
    return [g(Negate, scan(g, g(Abs, g.input(M, N)), 0))]


def middle(g: FunctionBuilder) -> list[SSAValue]:
    """Along an axis in the middle, the position along it added."""
    steps = g(Convert, g.iota(1, M, N, K), dtype=F32)
    return [g(Add, scan(g, g.input(M, N, K), 1), steps)]


def scan_of_a_scan(g: FunctionBuilder) -> list[SSAValue]:
    """Two carries in one axis, and the position of the largest so far."""
    x = g.input(M, N)
    largest = scan(g, x, 1, "max")
    candidate = g(Select, g(Compare, x, largest, direction="eq"), g.iota(1, M, N), g.full(0, M, N, dtype=I64))
    return [largest, scan(g, candidate, 1, "max")]


def flipped_before(g: FunctionBuilder) -> list[SSAValue]:
    """The operand is read from its end."""
    x = g.input(M, N)
    return [scan(g, g(Slice, x, starts=(0, N - 1), sizes=(M, N), strides=(1, -1)), 1)]


def across_rows(g: FunctionBuilder) -> list[SSAValue]:
    """The operand lies across the rows: nothing may cut the lanes into strips that each begin anew."""
    return [scan(g, g(Transpose, g.input(N, M), permutation=(1, 0)), 1)]


def open_operand(g: FunctionBuilder) -> list[SSAValue]:
    """An operand of size 1 or n along the scanned axis, in both versions of the lanes."""
    on = Size.symbol("on")
    x = g(BroadcastInDim, g.input(M, on), dimensions=(0, 1), sizes=(M, N))
    return [scan(g, g(Multiply, x, g.input(M, N)), 1)]


def counted(g: FunctionBuilder) -> list[SSAValue]:
    """The prefix of a constant: positions."""
    return [g(Subtract, scan(g, g.full(1, M, N, dtype=I64), 1), g.full(1, M, N, dtype=I64)), g.input(M, N)]


def one_row(g: FunctionBuilder) -> list[SSAValue]:
    return [scan(g, g.input(N), 0), scan(g, g(Compare, g.input(N), g.full(0.0, N), direction="lt"), 0, "or")]


def independent(g: FunctionBuilder) -> list[SSAValue]:
    """Two scans of one value along one axis."""
    x = g.input(M, N)
    return [scan(g, x, 1), scan(g, x, 1, "min")]


ONE_KERNEL: tuple[Graph, ...] = (
    rows, columns, middle, scan_of_a_scan, flipped_before, across_rows, open_operand, one_row, independent,
)  # fmt: skip


def moved_behind(g: FunctionBuilder) -> list[SSAValue]:
    total = scan(g, g.input(M, N), 1)
    return [g(Slice, total, starts=(0, N - 1), sizes=(M, N), strides=(1, -1))]


def along_two_axes(g: FunctionBuilder) -> list[SSAValue]:
    return [scan(g, scan(g, g.input(M, N), 1), 0)]


def reduced_behind(g: FunctionBuilder) -> list[SSAValue]:
    return [g(Reduce, scan(g, g.input(M, N), 1), axes=(1,))]


def of_a_reduction(g: FunctionBuilder) -> list[SSAValue]:
    x = g.input(M, N)
    total = g(BroadcastInDim, g(Reduce, x, axes=(1,)), dimensions=(0,), sizes=(M, N))
    return [scan(g, g(Subtract, x, total), 1)]


def of_its_transpose(g: FunctionBuilder) -> list[SSAValue]:
    """A square: the points of the kernel are those of the scan, but for their order."""
    x = scan(g, g.input(N, N), 1)
    return [g(Add, g(Transpose, x, permutation=(1, 0)), x)]


TWO_KERNELS: tuple[Graph, ...] = (
    moved_behind,
    along_two_axes,
    reduced_behind,
    of_a_reduction,
    of_its_transpose,
    counted,
)


@pytest.mark.parametrize("graph", [*ONE_KERNEL, *TWO_KERNELS], ids=lambda graph: graph.__name__)
def test_graph(graph: Graph) -> None:
    g = FunctionBuilder()
    sizes = [{**env, "on": on} for env in SIZES for on in {1, env["n"]}]
    planned = check(g.finish(*graph(g)), sizes, label=graph.__name__)
    assert len(planned.kinds) == (1 if graph in ONE_KERNEL else 2)
    assert "scan" in planned.kinds


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_a_long_sum_is_rounded_once(dtype: DType, axis: int) -> None:
    """Of 20000 values the result is the rounded sum: within one unit in the last place of what f64 gives."""
    g = FunctionBuilder()
    run = compiled(g.finish(scan(g, g.input(M, N, dtype=dtype), axis)))
    shape = (3, 20000) if axis == 1 else (20000, 3)
    x = np.random.default_rng(0).uniform(0, 0.5, shape).astype(dtype.numpy)
    (got,) = run([x])
    exact = np.cumsum(x.astype(np.float64), axis)
    unit = {F16: 2**-10, BF16: 2**-7, F32: 2**-23, F64: 2**-40}[dtype]
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=unit)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_logarithms_of_sums_keep_what_is_small(dtype: DType, axis: int) -> None:
    """Every prefix, whatever comes behind it and however far apart its elements are; infinities and NaN are PyTorch's."""
    g = FunctionBuilder()
    run = compiled(g.finish(scan(g, g.input(M, N, dtype=dtype), axis, "logaddexp")))
    inf, nan = np.inf, np.nan
    rows = [
        [-1e4, 0.0, 800.0, -900.0, 799.0], [-inf, -inf, 1.0, -inf, 2.0], [1.0, inf, inf, -inf, 3.0],
        [1.0, nan, inf, 2.0, -inf], [-inf, inf, -inf, nan, 0.0], [0.0, -0.0, 1.0, 1.0, 1.0],
    ]  # fmt: skip
    x = np.tile(np.array(rows), (1, 9)).astype(dtype.numpy)
    x = x if axis == 1 else np.ascontiguousarray(x.T)
    (got,) = run([x])
    expected = torch.logcumsumexp(torch.from_numpy(x.astype(np.float64)), axis).numpy()
    unit = {F16: 2**-10, BF16: 2**-7, F32: 2**-23, F64: 1e-15}[dtype]
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=unit, atol=unit)


def test_threads_do_not_cut_a_row() -> None:
    """Few long rows: as many bytes as one thread gives."""
    g = FunctionBuilder()
    run = compiled(g.finish(scan(g, g.input(M, N), 1)))
    x = np.random.default_rng(0).standard_normal((2, 100_000)).astype(np.float32)
    (got,) = run([x])
    expected = torch.cumsum(torch.from_numpy(x).double(), 1).float().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_nothing_is_scanned_along_an_axis_of_size_one() -> None:
    g = FunctionBuilder()
    assert plan(g.finish(g(Tanh, scan(g, g.input(M, 1, N, dtype=F32), 1)))).kinds == ["loop"]


def test_bools_accumulate_as_extrema() -> None:
    g = FunctionBuilder()
    run = compiled(g.finish(scan(g, g.input(M, N, dtype=BOOL), 1, "max"), scan(g, g.input(M, N, dtype=BOOL), 0, "min")))
    x, y = (np.random.default_rng(seed).random((40, 50)) < 0.05 for seed in (0, 1))
    seen, all_so_far = run([x, ~y])
    np.testing.assert_array_equal(seen, np.logical_or.accumulate(x, 1))
    np.testing.assert_array_equal(all_so_far, np.logical_and.accumulate(~y, 0))
