"""Products: sizes of 0, every dtype, factors laid out in any way, what follows them."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    ConstantStore,
    DotGeneral,
    Gelu,
    Multiply,
    Reshape,
    Slice,
    Tanh,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, F16, F32, F64, I8, I32, I64, U8, DType
from anyshape.dialects.sizes import sizes_of
from anyshape.symbolic import Size
from tests.kernels.harness import Planned, check

B, H, M, N, K = (Size.symbol(name) for name in "bhmnk")
TOLERANCE = {F16: 4e-3, BF16: 3e-2}


def environments() -> Iterator[Mapping[str, int]]:
    for m, n, k in ((7, 9, 5), (0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (17, 70, 33), (1, 130, 3)):
        yield {"b": 2, "h": 3, "m": m, "n": n, "k": k}
    yield {"b": 0, "h": 1, "m": 2, "n": 2, "k": 2}


def product(g: FunctionBuilder, x: SSAValue, y: SSAValue, over: tuple[int, int], batch: int = 0) -> SSAValue:
    axes = tuple(range(batch))
    return g(DotGeneral, x, y, lhs_batch=axes, rhs_batch=axes, lhs_contract=over[:1], rhs_contract=over[1:])


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64, I8, U8, I32, I64], ids=str)
def test_dtypes_with_what_follows(dtype: DType) -> None:
    """x · y + row, and over two axes at once."""
    g = FunctionBuilder()
    x, y, row = g.input(M, K, dtype=dtype), g.input(K, N, dtype=dtype), g.input(N, dtype=dtype)
    p, q = g.input(M, 3, K, dtype=dtype), g.input(3, N, K, dtype=dtype)
    one = g(Add, product(g, x, y, (1, 0)), g(BroadcastInDim, row, dimensions=(1,), sizes=(M, N)))
    two = g(DotGeneral, p, q, lhs_contract=(1, 2), rhs_contract=(0, 2))
    planned = check(g.finish(one, two), list(environments()), relative=TOLERANCE.get(dtype, 2e-4))
    assert planned.kinds.count("contract") == 2


def kinds_of(planned: Planned) -> list[str]:
    return sorted(planned.kinds)


def test_transposed_factors_are_read_where_they_lie() -> None:
    g = FunctionBuilder()
    x, y = g.input(K, M), g.input(N, K)
    first = product(g, g(Transpose, x, permutation=(1, 0)), g(Transpose, y, permutation=(1, 0)), (1, 0))
    second = product(g, x, y, (0, 1))
    planned = check(g.finish(first, g(Tanh, second)), list(environments()))
    assert kinds_of(planned) == ["contract", "contract"]


def test_heads_are_read_where_they_lie() -> None:
    """[b, m, h, 4] · [b, n, h, 4] over the last, batch b and h, through transposes, as attention scores are."""
    g = FunctionBuilder()
    q, k = (g(Transpose, g.input(B, size, H, 4), permutation=(0, 2, 1, 3)) for size in (M, N))
    scores = product(g, q, k, (3, 3), batch=2)
    scaled = g(Multiply, scores, g.full(0.5, B, H, M, N))
    planned = check(g.finish(scaled), list(environments()))
    assert planned.kinds == ["contract"]


def test_free_axes_of_both_sides_with_what_follows() -> None:
    """out[b, m, h, n] with a row for each (h, n), one for each b, and a residual of rank 4."""
    g = FunctionBuilder()
    x, y = g.input(B, M, K), g.input(H, N, K)
    out = g(DotGeneral, x, y, lhs_contract=(2,), rhs_contract=(2,))
    sizes = sizes_of(out.type)
    rows = g(BroadcastInDim, g.input(H, N), dimensions=(2, 3), sizes=sizes)
    batch = g(BroadcastInDim, g.input(B), dimensions=(0,), sizes=sizes)
    planned = check(g.finish(g(Tanh, g(Add, g(Add, g(Add, out, rows), batch), g.input(*sizes)))), list(environments()))
    assert planned.kinds == ["contract"]


def test_weights_are_packed_whichever_way_they_lie() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    rng = np.random.default_rng(3)
    x = g.input(B, M, 6)
    results: list[SSAValue] = []
    for shape, axis in (((6, 70), 0), ((70, 6), 1), ((6, 5, 3), 0), ((6, 1), 0)):
        weight = g.add(Weight.of_array(rng.standard_normal(shape).astype(np.float32), store)).result
        results.append(g(Gelu, g(DotGeneral, x, weight, lhs_contract=(2,), rhs_contract=(axis,))))
    planned = check(g.finish(*results), list(environments()), store)
    assert planned.kinds == ["contract"] * 4
    assert all("packed" in str(kernel) for kernel in planned.kernels.values())


def test_vectors_and_outer_products() -> None:
    """Products without free axes on one side, or without summed axes."""
    g = FunctionBuilder()
    x, v, w = g.input(M, K), g.input(K), g.input(K)
    results = [
        g(DotGeneral, x, v, lhs_contract=(1,), rhs_contract=(0,)), g(DotGeneral, v, x, lhs_contract=(0,), rhs_contract=(1,)),
        g(DotGeneral, v, w, lhs_contract=(0,), rhs_contract=(0,)), g(DotGeneral, v, w),
        g(DotGeneral, v, w, lhs_batch=(0,), rhs_batch=(0,)),
    ]  # fmt: skip
    check(g.finish(*results), list(environments()))


def test_a_reshaped_product_of_a_broadcast_factor() -> None:
    """A factor repeated over the batch has stride 0; an axis of size 1 is added behind the product."""
    g = FunctionBuilder()
    x, y = g.input(B, M, K), g(BroadcastInDim, g.input(K, N), dimensions=(1, 2), sizes=(B, K, N))
    out = product(g, x, y, (2, 1), batch=1)
    planned = check(g.finish(g(Tanh, g(Reshape, out, sizes=(B, 1, M, N)))), list(environments()))
    assert planned.kinds == ["contract"]


def test_open_batch_axes() -> None:
    """A factor with a batch of 1 or b, known when the program runs."""
    g = FunctionBuilder()
    x, y = g.input(B, M, K), g(BroadcastInDim, g.input("o", K, N), dimensions=(0, 1, 2), sizes=(B, K, N))
    func = g.finish(product(g, x, y, (2, 1), batch=1))
    for size in (1, 2):
        check(func, [{"b": 2, "m": 3, "n": 5, "k": 4, "o": size}])


def test_factors_that_are_part_of_a_tensor() -> None:
    """Columns of a wider tensor are read where they lie; rows in reverse are not."""
    g = FunctionBuilder()
    x, y = g.input(M, 12), g.input(4, N)
    columns = g(Slice, x, starts=(0, 4), sizes=(M, 4), strides=(1, 2))
    backwards = g(Slice, x, starts=(M - 1, 3), sizes=(M, 4), strides=(-1, 1))
    planned = check(g.finish(product(g, columns, y, (1, 0)), product(g, backwards, y, (1, 0))), list(environments()))
    assert sorted(planned.kinds) == ["contract", "contract", "loop"]
