"""The interpreter of plans against PyTorch in f64 and against what it must refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from xdsl.builder import Builder
from xdsl.dialects.builtin import Float32Type, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.scalars import Scalars
from anyshape.dialects.tile import (
    AttendOp,
    CheckOp,
    ContractOp,
    KernelOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.dialects.tile.interpreter import IndexFault, run_kernel
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Size

F32 = Float32Type()
B, H, S, T, D, E, M, N, K = (Size.symbol(name) for name in "bhstdemnk")


def at_end(op: KernelOp | ParallelOp | LanesOp | LoopOp | ContractOp) -> Builder:
    region = op.epilogue if isinstance(op, ContractOp) else op.body
    return Builder(InsertPoint.at_end(region.block))


def softmax_kernel() -> KernelOp:
    kernel = KernelOp("softmax", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, N])])
    x, out = kernel.body.block.args
    points = at_end(kernel).insert(ParallelOp([B]))
    (i,) = points.indices
    outer = at_end(points)
    row = outer.insert(ScratchOp(F32, [N])).result
    top = outer.insert(LanesOp(N, ["max"], [F32]))
    inner = at_end(top)
    inner.insert(YieldOp(inner.insert(LoadOp(x, [i, top.index])).result))
    total = outer.insert(LanesOp(N, ["sum"], [F32]))
    inner = at_end(total)
    math = Scalars(inner)
    e = math.function("exp", math.sub(inner.insert(LoadOp(x, [i, total.index])).result, top.results[0]))
    inner.insert(StoreOp(e, row, [total.index]))
    inner.insert(YieldOp(e))
    last = outer.insert(LanesOp(N))
    inner = at_end(last)
    value = Scalars(inner).div(inner.insert(LoadOp(row, [last.index])).result, total.results[0])
    inner.insert(StoreOp(value, out, [i, last.index]))
    inner.insert(YieldOp())
    return kernel


@pytest.mark.parametrize(("b", "n"), [(0, 4), (1, 1), (3, 17)])
def test_softmax(b: int, n: int) -> None:
    x = np.random.default_rng(0).standard_normal(b * n).astype(np.float32)
    out = np.zeros_like(x)
    run_kernel(softmax_kernel(), [x, out], {"b": b, "n": n})
    expected = torch.softmax(torch.from_numpy(x).double().reshape(b, n), -1)
    np.testing.assert_allclose(out.reshape(b, n), expected, rtol=1e-6)


def test_part_of_the_points() -> None:
    x, out = np.ones(12, np.float32), np.full(12, -1, np.float32)
    run_kernel(softmax_kernel(), [x, out], {"b": 4, "n": 3}, begin=1, end=3)
    np.testing.assert_allclose(out, [-1] * 3 + [1 / 3] * 6 + [-1] * 3)


def copy_kernel(index_of: object, *, bound: int | None = None) -> KernelOp:
    """out[j] = x[f(j)] with f made by `index_of`, checked where a bound is given."""
    kernel = KernelOp("copy", ["m", "n"], [buffer(i64, [M]), buffer(i64, [N])])
    x, out = kernel.body.block.args
    lanes = at_end(kernel).insert(LanesOp(N))
    inner = at_end(lanes)
    index: SSAValue = index_of(Scalars(inner), lanes.index)  # pyright: ignore[reportCallIssue]
    guard = None if bound is None else inner.insert(CheckOp(index, M, 9)).result
    inner.insert(StoreOp(inner.insert(LoadOp(x, [index], guard)).result, out, [lanes.index]))
    inner.insert(YieldOp())
    return kernel


def shifted(math: Scalars, index: SSAValue) -> SSAValue:
    return math.add(index, math.constant(1, index.type))


def test_access_outside_a_buffer_is_refused() -> None:
    with pytest.raises(VerifyError, match="outside its buffer"):
        run_kernel(copy_kernel(shifted), [np.arange(3), np.zeros(3, np.int64)], {"m": 3, "n": 3})


def test_failed_checks_are_reported_and_guard_their_loads() -> None:
    errors: list[IndexFault] = []
    out = np.full(3, 7)
    run_kernel(copy_kernel(shifted, bound=3), [np.arange(3), out], {"m": 3, "n": 3}, errors=errors)
    assert errors == [IndexFault(9, 3, 3)]
    assert out.tolist() == [1, 2, 0]
    with pytest.raises(VerifyError, match="out of range"):
        run_kernel(copy_kernel(shifted, bound=3), [np.arange(3), out], {"m": 3, "n": 3})


def test_an_element_written_twice_is_refused() -> None:
    kernel = KernelOp("twice", ["n"], [buffer(F32, [N])])
    lanes = at_end(kernel).insert(LanesOp(N))
    inner = at_end(lanes)
    math = Scalars(inner)
    half = math.trunc_div(lanes.index, math.constant(2, lanes.index.type))
    inner.insert(StoreOp(math.constant(1.0, F32), kernel.body.block.args[0], [half]))
    inner.insert(YieldOp())
    with pytest.raises(VerifyError, match="more than once"):
        run_kernel(kernel, [np.zeros(4, np.float32)], {"n": 4})


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_loop_reductions(kind: str, n: int) -> None:
    kernel = KernelOp("reduce", ["n"], [buffer(F32, [N]), buffer(F32, [1])])
    x, out = kernel.body.block.args
    points = at_end(kernel).insert(ParallelOp([1]))
    outer = at_end(points)
    loop = outer.insert(LoopOp(N, [kind], [F32]))
    inner = at_end(loop)
    inner.insert(YieldOp(inner.insert(LoadOp(x, [loop.index])).result))
    outer.insert(StoreOp(loop.results[0], out, [points.indices[0]]))
    data = np.random.default_rng(3).standard_normal(n).astype(np.float32)
    result = np.zeros(1, np.float32)
    run_kernel(kernel, [data, result], {"n": n})
    empty = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[kind]
    expected = (
        {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[kind](data.astype(np.float64)) if n else empty
    )
    assert result[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 70, 5), (1, 64, 1), (4, 9, 0), (0, 3, 2)])
def test_contract(packed: bool, m: int, n: int, k: int) -> None:
    rhs_type = buffer(F32, [(N + 63) // 64, K, 64]) if packed else buffer(F32, [K, N], [1, K])
    kernel = KernelOp(
        "contract", ["m", "n", "k"], [buffer(F32, [M, K]), rhs_type, buffer(F32, [N]), buffer(F32, [M, N])]
    )
    lhs, rhs, bias, out = kernel.body.block.args
    op = at_end(kernel).insert(ContractOp(lhs, rhs, out, [], (M, N, K), F32, packed=packed))
    inner = at_end(op)
    _, j, total = op.epilogue.block.args
    inner.insert(YieldOp(Scalars(inner).add(total, inner.insert(LoadOp(bias, [j])).result)))
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
    if packed:
        padded = np.zeros((k, -(-n // 64) * 64), np.float32)
        padded[:, :n] = b
        flat = padded.reshape(k, -(-n // 64), 64).transpose(1, 0, 2).ravel().copy()
    else:
        flat = b.T.ravel().copy()
    result = np.zeros(m * n, np.float32)
    run_kernel(kernel, [a.ravel(), flat, c, result], {"m": m, "n": n, "k": k})
    np.testing.assert_allclose(result.reshape(m, n), a.astype(np.float64) @ b + c, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mask_kind", ["none", "bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(2, 4, 2, 3, 3, 5, 6), (1, 2, 2, 1, 7, 4, 4)])
def test_attend(mask_kind: str, causal: bool, sizes: tuple[int, ...]) -> None:
    b, h, hk, s, t, d, e = sizes
    mask_types = {
        "none": [],
        "bool": [buffer(IntegerType(1), [B, H, S, T])],
        "float": [buffer(F32, [B, H, S, T], [0, 0, T, 1])],
    }
    names = ["b", "h", "g", "s", "t", "d", "e"]
    hk_ = Size.symbol("g")
    kernel = KernelOp("attend", names, [
        buffer(F32, [B, H, S, D]), buffer(F32, [B, hk_, T, D]), buffer(F32, [B, hk_, T, E]), buffer(F32, [B, H, S, E]),
        *mask_types[mask_kind],
    ])  # fmt: skip
    q, k, v, out, *mask = kernel.body.block.args
    at_end(kernel).insert(
        AttendOp(q, k, v, out, mask[0] if mask else None, [B, H, hk_, S, T, D, E], 0.3, causal=causal)
    )
    rng = np.random.default_rng(2)
    query, key, value = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((b, h, s, d), (b, hk, t, d), (b, hk, t, e))
    )
    added = rng.standard_normal((s, t)).astype(np.float32)
    kept = rng.random((b, h, s, t)) < 0.7
    kept[..., 0] = True
    masks = {"none": [], "bool": [kept.ravel()], "float": [added.ravel()]}[mask_kind]
    result = np.zeros(b * h * s * e, np.float32)
    run_kernel(
        kernel, [query.ravel(), key.ravel(), value.ravel(), result, *masks], dict(zip(names, sizes, strict=True))
    )
    bias = torch.zeros(b, h, s, t, dtype=torch.float64)
    if mask_kind == "bool":
        bias = bias.masked_fill(~torch.from_numpy(kept), -torch.inf)
    if mask_kind == "float":
        bias = bias + torch.from_numpy(added).double()
    if causal:
        bias = bias.masked_fill(~torch.ones(s, t, dtype=torch.bool).tril(), -torch.inf)
    tensors = [torch.from_numpy(each).double() for each in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=bias, scale=0.3, enable_gqa=True)
    np.testing.assert_allclose(result.reshape(b, h, s, e), expected, rtol=1e-5, atol=1e-6)
