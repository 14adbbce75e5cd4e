"""The epilogue of a claimed product as a function over a rectangle of sums."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from points_harness import load_module, lower_module
from points_plans import F32
from xdsl.builder import Builder as PlanBuilder
from xdsl.builder import InsertPoint

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.codegen.points import EmittedKernel, emit_kernel, emit_rectangle
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, SizeOp, YieldOp, buffer
from anyshape.support.machine import Machine, host_machine
from anyshape.symbolic import Size

G, M, N, K = (Size.symbol(name) for name in "gmnk")


def contraction() -> KernelOp:
    """out[g, i, j] = max(Σ + bias[j], 0) + residual[g, i, j] · n"""
    wide = buffer(F32, [G, M, N])
    kernel = KernelOp("contraction", ["n", "g", "m", "k"],
                      [buffer(F32, [G, M, K]), buffer(F32, [G, K, N]), wide, buffer(F32, [N]), wide])  # fmt: skip
    lhs, rhs, out, bias, residual = kernel.body.block.args
    outer = PlanBuilder(InsertPoint.at_end(kernel.body.block))
    op = outer.insert(ContractOp(lhs, rhs, out, [G], (M, N, K), F32))
    builder = PlanBuilder(InsertPoint.at_end(op.epilogue.block))
    math = Scalars(builder)
    g, i, j, total = op.epilogue.block.args
    y = math.maximum(math.add(total, builder.insert(LoadOp(bias, [j])).result), math.constant(0.0, F32))
    from xdsl.dialects import arith
    from xdsl.dialects.builtin import i64

    n = builder.insert(arith.SIToFPOp(math.from_index(builder.insert(SizeOp(N)).result, i64), F32)).result
    r = math.mul(builder.insert(LoadOp(residual, [g, i, j])).result, n)
    builder.insert(YieldOp(math.add(y, r)))
    return kernel


@pytest.fixture(scope="module")
def loaded():
    """A claim that emits nothing but the rectangle, called through a function with one table of numbers."""

    def claim(module: ModuleBuilder, kernel: KernelOp, op: object, machine: Machine) -> EmittedKernel:
        assert isinstance(op, ContractOp)
        name = emit_rectangle(module, kernel, op.epilogue, op.out, machine, "contraction.epilogue")
        b = Builder()
        with module.function("contraction", [b.ptr, b.ptr, b.ptr, b.ptr]) as f:
            buffers, sizes, numbers, tile = f.args
            g, i0, i1, j0, j1, stride = (b.load(numbers, b.i64, at) for at in range(6))
            b.call(name, [buffers, sizes, b.offset(tile, b.i8, 0), g, i0, i1, j0, j1, tile, stride])
        return EmittedKernel("contraction", Size.const(0))

    machine = host_machine()
    module = ModuleBuilder("rectangle")
    with module:
        emit_kernel(module, contraction(), machine, {ContractOp: claim})
    return load_module(lower_module(module))


@pytest.mark.parametrize("columns", [(0, 0), (0, 1), (0, 64), (64, 100), (32, 47), (5, 100)])
@pytest.mark.parametrize("rows", [(0, 0), (2, 3), (0, 6)])
def test_rectangle(loaded, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    g, m, n, stride = 3, 7, 100, 128
    out, residual = (rng.standard_normal((g, m, n)).astype(np.float32) for _ in range(2))
    bias = rng.standard_normal(n).astype(np.float32)
    tile = rng.standard_normal((6, stride)).astype(np.float32)
    (i0, i1), (j0, j1) = rows, columns
    expected = out.copy()
    sums = tile[: i1 - i0, : j1 - j0] + bias[j0:j1]
    expected[1, i0:i1, j0:j1] = np.maximum(sums, 0) + residual[1, i0:i1, j0:j1] * np.float32(n)
    buffers = (ctypes.c_void_p * 5)(None, None, out.ctypes.data, bias.ctypes.data, residual.ctypes.data)
    sizes = (ctypes.c_int64 * 4)(n, g, m, 9)
    numbers = (ctypes.c_int64 * 6)(1, i0, i1, j0, j1, stride)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loaded.address("contraction"))
    function(ctypes.addressof(buffers), ctypes.addressof(sizes), ctypes.addressof(numbers), tile.ctypes.data)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
