"""`tile.contract` through the claim: emitted, loaded and run over all its tasks, against numpy in f64."""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import erf
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.arith import AddfOp, ConstantOp, ExtFOp, MulfOp, TruncFOp
from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr
from xdsl.dialects.math import ErfOp
from xdsl.ir import Block, SSAValue

from anyshape.codegen.contract import can_contract, contract_schedule, emit_contract, pack_panels
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, YieldOp, buffer
from anyshape.support.errors import CodegenError
from anyshape.support.machine import host_machine
from anyshape.symbolic import Size

Guard = Callable[[np.ndarray], Any]
Epilogue = Callable[[Block, Sequence[SSAValue]], SSAValue]
F32, F64 = Float32Type(), Float64Type()
M, N, K, B, H, HK = (Size.symbol(name) for name in ("m", "n", "k", "b", "h", "hk"))
SYMBOLS = ("m", "n", "k", "b", "h", "hk")
MACHINE, TARGET = host_machine(), host_target()


@dataclass
class Program:
    """One compiled product."""

    op: ContractOp
    code: LoadedCode
    kept: KernelOp
    name: str = "product"

    def run(self, arrays: Sequence[Any], sizes: dict[str, int], cuts: int = 1) -> None:
        """Run all tasks, in `cuts` ranges, each with fresh scratch."""
        schedule = contract_schedule(self.op, MACHINE)
        env = {name: sizes.get(name, 1) for name in SYMBOLS}
        extent, scratch_bytes = schedule.extent.evaluate(env), schedule.scratch_bytes.evaluate(env)
        assert schedule.grain.evaluate(env) >= 1
        kernel = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
        )(self.code.address(self.name))
        pointers = (ctypes.c_void_p * len(arrays))(*(array.address for array in arrays))
        values = (ctypes.c_int64 * len(SYMBOLS))(*(env[name] for name in SYMBOLS))
        error = (ctypes.c_int64 * 4)()
        bounds = [extent * number // cuts for number in range(cuts + 1)]
        for begin, end in itertools.pairwise(bounds):
            if begin < end:
                scratch = np.full(scratch_bytes + 64, 0xFF, np.uint8)
                start = scratch.ctypes.data + -scratch.ctypes.data % 64
                kernel(ctypes.addressof(pointers), ctypes.addressof(values), begin, end, start, ctypes.addressof(error))
        assert error[0] == 0


def compile_product(
    buffers: Sequence[Any], batch: Sequence[Size], epilogue: Epilogue | None, *, packed: bool, accumulator: Any = F32
) -> Program:
    """A kernel over lhs, rhs, out and further buffers for the epilogue."""
    kernel = KernelOp("product", SYMBOLS, buffers)
    lhs, rhs, out, *others = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, list(batch), (M, N, K), accumulator, packed=packed)
    block = op.epilogue.block
    value = block.args[-1] if epilogue is None else epilogue(block, others)
    block.add_op(YieldOp(value))
    kernel.body.block.add_op(op)
    kernel.verify()
    assert can_contract(op) is None
    module = ModuleBuilder("test", function_attributes={"prefer-vector-width": str(MACHINE.vector_bits)})
    with module:
        emitted = emit_kernel(module, kernel, MACHINE, {ContractOp: emit_contract})
    assert emitted.name == "product"
    text = optimise(lower_to_llvm(module.module), TARGET)
    shared = shared_objects(TARGET, MACHINE, (op.factors,))
    return Program(op, LoadedCode([emit_object(text, TARGET), shared], {"ral_report_index": 0}), kernel)


def add(block: Block, op: Any) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def bias(block: Block, others: Sequence[SSAValue]) -> SSAValue:
    return add(block, AddfOp(block.args[-1], add(block, LoadOp(others[0], [block.args[-2]]))))


def gelu(block: Block, others: Sequence[SSAValue]) -> SSAValue:
    def const(value: float) -> SSAValue:
        return add(block, ConstantOp(FloatAttr(value, F32)))

    x = bias(block, others)
    inner = add(block, ErfOp(add(block, MulfOp(x, const(2**-0.5)))))
    return add(block, MulfOp(add(block, MulfOp(x, const(0.5))), add(block, AddfOp(inner, const(1.0)))))


def residual(block: Block, others: Sequence[SSAValue]) -> SSAValue:
    return add(block, AddfOp(bias(block, others), add(block, LoadOp(others[1], list(block.args[:-1])))))


def close(got: np.ndarray, expected: np.ndarray, magnitude: np.ndarray | float) -> None:
    eps = np.finfo(got.dtype).eps
    assert np.all(np.abs(got - expected) <= 16 * eps * (magnitude + 2)), np.abs(got - expected).max()


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


CASES = (
    (0, 5, 3), (3, 0, 4), (2, 3, 0), (1, 1, 1), (1, 384, 384), (2, 65, 31), (3, 16, 769), (5, 63, 2), (6, 64, 384),
    (7, 130, 31), (13, 15, 384), (17, 384, 384), (64, 130, 769), (65, 65, 65), (130, 64, 31), (400, 130, 40),
)  # fmt: skip


@pytest.mark.parametrize("epilogue", [None, bias, gelu, residual])
def test_linear_layer(guarded: Guard, epilogue: Epilogue | None) -> None:
    buffers = [buffer(F32, [M, K]), buffer(F32, [(N + 63) // 64, K, 64]), buffer(F32, [M, N]), buffer(F32, [N])]
    program = compile_product([*buffers, buffer(F32, [M, N])], [], epilogue, packed=True)
    rng = np.random.default_rng(1)
    for m, n, k in CASES:
        x, w, b, r = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (n,), (m, n)))
        arrays = [guarded(array) for array in (x, pack_panels(w), np.full((m, n), 7, np.float32), b, r)]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=1)
        expected = wide(x) @ wide(w)
        if epilogue is not None:
            expected = expected + b
        if epilogue is gelu:
            expected = expected * 0.5 * (1 + np.vectorize(erf, otypes=[float])(expected / 2**0.5))
        if epilogue is residual:
            expected = expected + r
        close(arrays[2].array, expected, np.abs(x) @ np.abs(w) + np.abs(b))
        once = arrays[2].array.copy()
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=3)
        assert np.array_equal(arrays[2].array, once), "the cuts of a launch must not show in its result"


@pytest.mark.parametrize("transposed", [False, True])
def test_batches_with_shared_right_hand_sides(guarded: Guard, transposed: bool) -> None:
    """Two batch axes, the second of rhs with stride 0, rhs row-major or transposed, lhs and out with heads inside rows."""
    head = (M * H * K, K, H * K, 1)
    out_steps = (M * H * N, N, H * N, 1)
    rhs_steps = (K * N, 0, 1, K) if transposed else (K * N, 0, N, 1)
    buffers = [
        buffer(F32, [B, H, M, K], head), buffer(F32, [B, H, K, N], rhs_steps), buffer(F32, [B, H, M, N], out_steps)
    ]  # fmt: skip
    program = compile_product(buffers, [B, H], None, packed=False)
    rng = np.random.default_rng(2)
    for b, h, m, n, k in (
        (1, 1, 1, 1, 1),
        (2, 3, 5, 70, 33),
        (3, 2, 17, 64, 16),
        (0, 2, 3, 4, 5),
        (1, 5, 100, 100, 100),
    ):
        x = rng.standard_normal((b, m, h, k)).astype(np.float32)
        w = rng.standard_normal((b, n, k) if transposed else (b, k, n)).astype(np.float32)
        arrays = [guarded(array) for array in (x, w, np.full((b, m, h, n), 7, np.float32))]
        program.run(arrays, {"m": m, "n": n, "k": k, "b": b, "h": h}, cuts=2)
        right = w.transpose(0, 2, 1) if transposed else w
        close(arrays[2].array, np.einsum("bmhk,bkn->bmhn", wide(x), wide(right)), np.einsum(
            "bmhk,bkn->bmhn", np.abs(x), np.abs(right)))  # fmt: skip


def test_transposed_operands_and_result(guarded: Guard) -> None:
    """lhs with adjacent rows, out with adjacent rows: both go through scratch."""
    buffers = [buffer(F32, [M, K], (1, M)), buffer(F32, [K, N]), buffer(F32, [M, N], (1, M)), buffer(F32, [N])]
    program = compile_product(buffers, [], bias, packed=False)
    rng = np.random.default_rng(3)
    for m, n, k in CASES:
        x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((k, m), (k, n), (n,)))
        arrays = [guarded(array) for array in (x, w, np.full((n, m), 7, np.float32), b)]
        program.run(arrays, {"m": m, "n": n, "k": k}, cuts=2)
        close(arrays[2].array.T, wide(x.T) @ wide(w) + b, np.abs(x.T) @ np.abs(w) + np.abs(b))


def test_result_of_another_dtype(guarded: Guard) -> None:
    def widen(block: Block, others: Sequence[SSAValue]) -> SSAValue:
        return add(block, ExtFOp(block.args[-1], F64))

    def narrow(block: Block, others: Sequence[SSAValue]) -> SSAValue:
        return add(block, TruncFOp(block.args[-1], F32))

    rng = np.random.default_rng(4)
    for source, target, epilogue in ((np.float32, np.float64, widen), (np.float64, np.float32, narrow)):
        element, result = (F32 if dtype is np.float32 else F64 for dtype in (source, target))
        buffers = [buffer(element, [M, K]), buffer(element, [K, N]), buffer(result, [M, N])]
        program = compile_product(buffers, [], epilogue, packed=False, accumulator=element)
        for m, n, k in CASES:
            x, w = (rng.standard_normal(s).astype(source) for s in ((m, k), (k, n)))
            arrays = [guarded(array) for array in (x, w, np.full((m, n), 7, target))]
            program.run(arrays, {"m": m, "n": n, "k": k})
            got = arrays[2].array
            eps = np.finfo(np.float32).eps
            assert np.all(np.abs(got - wide(x) @ wide(w)) <= 16 * eps * (np.abs(x) @ np.abs(w) + 1))


def test_mixed_dtypes_are_refused_with_a_reason() -> None:
    kernel = KernelOp("product", SYMBOLS, [buffer(F64, [M, K]), buffer(F32, [K, N]), buffer(F32, [M, N])])
    lhs, rhs, out = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, [], (M, N, K), F32)
    op.epilogue.block.add_op(YieldOp(op.epilogue.block.args[-1]))
    assert "f64 · f32 summed in f32" in (can_contract(op) or "")
    with pytest.raises(CodegenError, match="f64 · f32 summed in f32"):
        contract_schedule(op, MACHINE)


def test_schedule_has_work_for_two_threads_at_one_row_and_at_many() -> None:
    machine = replace(MACHINE, threads=2, l2=1 << 20)
    for n, expected in (
        (384, {0: 0, 1: 6, 17: 6, 64: 12, 1024: 24}),
        (40, {1: 1, 47: 1, 1024: 16}),
        (2048, {1: 32, 333: 32}),
    ):
        buffers = [buffer(F32, [M, 384]), buffer(F32, [(n + 63) // 64, 384, 64]), buffer(F32, [M, n])]
        kernel = KernelOp("product", SYMBOLS, buffers)
        lhs, rhs, out = kernel.body.block.args
        op = ContractOp(lhs, rhs, out, [], (M, n, 384), F32, packed=True)
        op.epilogue.block.add_op(YieldOp(op.epilogue.block.args[-1]))
        schedule = contract_schedule(op, machine)
        for m, extent in expected.items():
            env = {name: m if name == "m" else 1 for name in SYMBOLS}
            assert schedule.extent.evaluate(env) == extent, (m, n)
            if extent > 1:
                assert 2 * schedule.grain.evaluate(env) <= extent
