"""`tile.contract` over bf16, f16 and i8 through the claim, against numpy in f64 or exact integers."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.arith import MulfOp, SIToFPOp
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType
from xdsl.ir import Block, SSAValue

from anyshape.codegen.contract import can_contract
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, YieldOp, buffer
from tests.codegen.contract.blocks import code_of, pack, shape_of, wide
from tests.codegen.contract.test_plan import (
    CASES,
    F32,
    SYMBOLS,
    B,
    K,
    M,
    N,
    add,
    bias,
    compile_product,
)  # fmt: skip

Guard = Callable[[np.ndarray], Any]
BF16, F16, I8, I32 = BFloat16Type(), Float16Type(), IntegerType(8), IntegerType(32)
NUMPY = {BF16: ml_dtypes.bfloat16, F16: np.float16, F32: np.float32}
HALF_UNIT = {BF16: 2.0**-9, F16: 2.0**-12, F32: 2.0**-25}
"""Half of the last place, relative to the value."""


def close(got: np.ndarray, expected: np.ndarray, magnitude: np.ndarray, unit: float) -> None:
    """One rounding to the result's type, beside those of f32 sums."""
    limit = 2 * unit * np.abs(expected) + 16 * np.finfo(np.float32).eps * (magnitude + 1)
    assert np.all(np.abs(wide(got) - expected) <= limit), np.abs(wide(got) - expected).max()


@pytest.mark.parametrize("element", [BF16, F16], ids=str)
@pytest.mark.parametrize("result", ["narrow", "f32"])
def test_linear_layer_with_bias(guarded: Guard, element: Any, result: str) -> None:
    """Weights in panels; summed in f32 and rounded once, at the store, or not at all."""
    out = element if result == "narrow" else F32
    buffers = [buffer(element, [M, K]), buffer(element, [(N + 63) // 64, K, 64]), buffer(out, [M, N]), buffer(out, [N])]
    program = compile_product(buffers, [], bias, packed=True, accumulator=out)
    rng = np.random.default_rng(1)
    dtype = NUMPY[element]
    for m, n, k in CASES:
        x, w = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (n, k)))
        b = rng.standard_normal(n).astype(NUMPY[out])
        panels = pack(code_of("host", str(element)), shape_of("host", str(element)), w.T, guarded)
        arrays = [guarded(x), panels, guarded(np.full((m, n), 7, NUMPY[out])), guarded(b)]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=1)
        magnitude = np.abs(wide(x)) @ np.abs(wide(w.T)) + np.abs(wide(b))
        close(arrays[2].array, wide(x) @ wide(w.T) + wide(b), magnitude, HALF_UNIT[out])
        once = arrays[2].array.copy()
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=3)
        assert np.array_equal(arrays[2].array.view(np.uint8), once.view(np.uint8)), "cuts must not show in the result"


@pytest.mark.parametrize("element", [BF16, F16], ids=str)
def test_batches_of_two_values(guarded: Guard, element: Any) -> None:
    """Nothing is a constant, the left-hand side is transposed: [b, k, m] · [b, n, k]."""
    buffers = [
        buffer(element, [B, M, K], (M * K, 1, M)), buffer(element, [B, K, N], (N * K, 1, K)), buffer(element, [B, M, N])
    ]  # fmt: skip
    program = compile_product(buffers, [B], None, packed=False, accumulator=element)
    rng = np.random.default_rng(2)
    for b, m, n, k in ((1, 1, 1, 1), (2, 5, 70, 33), (3, 17, 64, 16), (0, 3, 4, 5), (2, 40, 30, 1000), (2, 3, 3, 0)):
        x, w = (rng.standard_normal(s).astype(NUMPY[element]) for s in ((b, k, m), (b, n, k)))
        arrays = [guarded(array) for array in (x, w, np.full((b, m, n), 7, NUMPY[element]))]
        program.run(arrays, {"b": b, "m": m, "n": n, "k": k}, cuts=2)
        left, right = wide(x).transpose(0, 2, 1), wide(w).transpose(0, 2, 1)
        close(arrays[2].array, left @ right, np.abs(left) @ np.abs(right), HALF_UNIT[element])


@pytest.mark.parametrize("element", [BF16, F16], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_f32_times_sixteen_bits(guarded: Guard, element: Any, packed: bool) -> None:
    """As exact as a product in f32 of the weights' own values."""
    rhs = buffer(element, [(N + 63) // 64, K, 64]) if packed else buffer(element, [K, N], (1, K))
    program = compile_product(
        [buffer(F32, [M, K]), rhs, buffer(F32, [M, N]), buffer(F32, [N])], [], bias, packed=packed
    )
    rng, factors = np.random.default_rng(4), f"f32x{element}"
    for m, n, k in CASES:
        x, w = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k)).astype(NUMPY[element])
        b = rng.standard_normal(n, np.float32)
        weights = pack(code_of("host", factors), shape_of("host", factors), w.T, guarded) if packed else guarded(w)
        arrays = [guarded(x), weights, guarded(np.full((m, n), 7, np.float32)), guarded(b)]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=2)
        magnitude = np.abs(wide(x)) @ np.abs(wide(w.T)) + np.abs(wide(b))
        close(arrays[2].array, wide(x) @ wide(w.T) + wide(b), magnitude, HALF_UNIT[F32])


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_to_i32(guarded: Guard, packed: bool) -> None:
    rhs = buffer(I8, [(N + 63) // 64, K, 64]) if packed else buffer(I8, [K, N], (1, K))
    program = compile_product([buffer(I8, [M, K]), rhs, buffer(I32, [M, N])], [], None, packed=packed, accumulator=I32)
    rng = np.random.default_rng(3)
    for m, n, k in CASES:
        x, w = (rng.integers(-128, 128, s, np.int8) for s in ((m, k), (n, k)))
        weights = pack(code_of("host", "i8"), shape_of("host", "i8"), w.T, guarded) if packed else guarded(w)
        arrays = [guarded(x), weights, guarded(np.full((m, n), 7, np.int32))]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=2)
        assert np.array_equal(arrays[2].array, wide(x) @ wide(w.T))


def test_bytes_dequantised_in_the_epilogue(guarded: Guard) -> None:
    def dequantise(block: Block, others: Sequence[SSAValue]) -> SSAValue:
        row, column, sum_ = block.args
        value = add(block, SIToFPOp(sum_, F32))
        value = add(block, MulfOp(value, add(block, LoadOp(others[0], [row]))))
        return add(block, MulfOp(value, add(block, LoadOp(others[1], [column]))))

    buffers = [buffer(I8, [M, K]), buffer(I8, [K, N]), buffer(F32, [M, N]), buffer(F32, [M]), buffer(F32, [N])]
    program = compile_product(buffers, [], dequantise, packed=False, accumulator=I32)
    rng = np.random.default_rng(4)
    for m, n, k in CASES:
        x, w = (rng.integers(-128, 128, s, np.int8) for s in ((m, k), (k, n)))
        s, t = (rng.random(size).astype(np.float32) for size in (m, n))
        arrays = [guarded(array) for array in (x, w, np.full((m, n), 7, np.float32), s, t)]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=2)
        expected = (wide(x) @ wide(w)) * wide(s)[:, None] * wide(t)
        assert np.all(np.abs(arrays[2].array - expected) <= 4 * np.finfo(np.float32).eps * np.abs(expected))


@pytest.mark.parametrize(
    ("lhs", "rhs", "sum_", "reason"),
    [
        (BF16, BF16, BF16, None),
        (BF16, BF16, F32, None),
        (I8, I8, I32, None),
        (I8, I8, I8, "i8 · i8 summed in i8"),
        (F16, BF16, F32, "f16 · bf16 summed in f32"),
        (F32, BF16, F32, None),
        (F32, F16, F32, None),
        (BF16, F32, F32, "bf16 · f32 summed in f32"),
        (F32, F32, BF16, "f32 · f32 summed in bf16"),
    ],
    ids=str,
)
def test_which_products_have_tiles(lhs: Any, rhs: Any, sum_: Any, reason: str | None) -> None:
    kernel = KernelOp("product", SYMBOLS, [buffer(lhs, [M, K]), buffer(rhs, [K, N]), buffer(sum_, [M, N])])
    left, right, out = kernel.body.block.args
    op = ContractOp(left, right, out, [], (M, N, K), sum_)
    op.epilogue.block.add_op(YieldOp(op.epilogue.block.args[-1]))
    refused = can_contract(op)
    assert refused is None if reason is None else reason in (refused or "")
