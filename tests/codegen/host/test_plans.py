"""Host programs whose kernels are emitted from plans, against both interpreters together."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i64

from anyshape.codegen.host import emit_program
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.dialects.dtypes import BOOL, U8
from anyshape.dialects.host import (
    AllocateOp,
    BindOp,
    DenseOp,
    GuardAxisOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReturnOp,
    ViewOp,
)
from anyshape.dialects.host.interpreter import run_program
from anyshape.dialects.host.verify import verify_program
from anyshape.dialects.tile import (
    CheckOp,
    KernelOp,
    LanesOp,
    LoadOp,
    ParallelOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.runtime import numpy_adaptor
from anyshape.runtime.abi import DType
from anyshape.runtime.loader import Program, runtime
from anyshape.support.errors import IndexOutOfRange
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

N, M, R, C = (Size.symbol(name) for name in "nmrc")


def row_sums() -> KernelOp:
    """out[i] = sum over j of x[i, j]."""
    kernel = KernelOp("row_sums", ["r", "c"], [buffer(f32, [R, C]), buffer(f32, [R])])
    x, out = kernel.body.block.args
    rows = ParallelOp([R])
    lanes = LanesOp(C, ["sum"], [f32])
    lanes.body.block.add_ops([load := LoadOp(x, [rows.indices[0], lanes.index]), YieldOp(load.result)])
    rows.body.block.add_ops([lanes, StoreOp(lanes.results[0], out, [rows.indices[0]])])
    kernel.body.block.add_op(rows)
    return kernel


def pick() -> KernelOp:
    """out[i] = x[index[i]], which must be in range."""
    kernel = KernelOp("pick", ["r", "c"], [buffer(f32, [R]), buffer(i64, [C]), buffer(f32, [C])])
    x, index, out = kernel.body.block.args
    points = ParallelOp([C])
    load = LoadOp(index, points.indices)
    cast = arith.IndexCastOp(load.result, points.indices[0].type)
    check = CheckOp(cast.result, R, 0)
    value = LoadOp(x, [cast.result], check.result)
    points.body.block.add_ops([load, cast, check, value, StoreOp(value.result, out, points.indices)])
    kernel.body.block.add_op(points)
    return kernel


def widen() -> KernelOp:
    """out[i] = mask[i] and a[i] or 0, of bools and bytes."""
    kernel = KernelOp("widen", ["r"], [buffer(BOOL.scalar, [R]), buffer(U8.scalar, [R]), buffer(U8.scalar, [R])])
    mask, a, out = kernel.body.block.args
    points = ParallelOp([R])
    loads = [LoadOp(mask, points.indices), LoadOp(a, points.indices)]
    zero = arith.ConstantOp.from_int_and_width(0, 8)
    chosen = arith.SelectOp(loads[0].result, loads[1].result, zero.result)
    points.body.block.add_ops([*loads, zero, chosen, StoreOp(chosen.result, out, points.indices)])
    kernel.body.block.add_op(points)
    return kernel


def compiled(program: ProgramOp, kernels: dict[str, KernelOp], outputs: list[tuple[int, int]]) -> Program:
    verify_program(program, kernels)
    target = host_target()
    objects: list[bytes] = []
    plans, host = ModuleBuilder("kernels"), ModuleBuilder("host")
    with plans:
        for kernel in kernels.values():
            emit_kernel(plans, kernel, Machine())
    with host:
        emit_program(host, program, outputs=outputs, constants=[])
    for module in (plans, host):
        objects.append(emit_object(optimise(lower_to_llvm(module.module), target), target))
    code = LoadedCode(objects, runtime().symbols)
    return Program(code.address(DESCRIPTOR), [], 2, code)


def launch(kernel: str, buffers: list[Any], sizes: list[Any], extent: Any) -> LaunchOp:
    return LaunchOp(kernel, buffers, sizes, extent=extent, grain=8, scratch=0, outputs=1)


@pytest.mark.parametrize(("n", "m"), [(40, 33), (1, 1), (3, 0), (0, 3)])
def test_sums_then_picks(n: int, m: int) -> None:
    program = ProgramOp("p", [("x", f32, [N, M]), ("index", i64, [2 * N])], [], ["index %lld of %lld"])
    x, index = program.body.block.args
    dense = [DenseOp(x), DenseOp(index)]
    sums, out = AllocateOp(buffer(f32, [N])), OutputOp(0, buffer(f32, [N, 2]))
    flat = ViewOp(out.result, buffer(f32, [2 * N]))
    program.body.block.add_ops(
        [
            BindOp("n", x, 0),
            BindOp("m", x, 1),
            GuardAxisOp(index, 0, 2 * N, "index: got %lld, expected %lld"),
            *dense,
            sums,
            launch("row_sums", [dense[0].result, sums.result], [N, M], N),
            out,
            flat,
            launch("pick", [sums.result, dense[1].result, flat.result], [N, 2 * N], 2 * N),
            ReturnOp.build(),
        ]
    )
    kernels = {"row_sums": row_sums(), "pick": pick()}
    run = compiled(program, kernels, [(DType.F32, 2)])
    rng = np.random.default_rng(n)
    x_value = rng.standard_normal((m, n)).astype(np.float32).T
    index_value = rng.integers(0, max(n, 1), 2 * n)
    (got,) = numpy_adaptor.run(run, [x_value, index_value])
    (expected,) = run_program(program, kernels, [x_value, index_value], [])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got.ravel(), x_value.sum(1, dtype=np.float64)[index_value], rtol=1e-5, atol=1e-5)
    if n:
        index_value[1] = n
        with pytest.raises(IndexOutOfRange, match=f"^index {n} of {n}$"):
            numpy_adaptor.run(run, [x_value, index_value])
        with pytest.raises(IndexOutOfRange, match=f"^index {n} of {n}$"):
            run_program(program, kernels, [x_value, index_value], [])


def test_bools_and_unsigned_bytes() -> None:
    program = ProgramOp("p", [("mask", BOOL.type, [N]), ("a", U8.type, [N])])
    mask, a = program.body.block.args
    dense = [DenseOp(mask), DenseOp(a)]
    out = OutputOp(0, buffer(U8.scalar, [N]))
    program.body.block.add_ops(
        [
            BindOp("n", mask, 0),
            GuardAxisOp(a, 0, N, "a: got %lld, expected %lld"),
            *dense,
            out,
            launch("widen", [dense[0].result, dense[1].result, out.result], [N], N),
            ReturnOp.build(),
        ]
    )
    kernels = {"widen": widen()}
    run = compiled(program, kernels, [(DType.U8, 1)])
    a_value = np.arange(100, 240, dtype=np.uint8)
    mask_value = a_value % 3 == 0
    (got,) = numpy_adaptor.run(run, [mask_value[::2], a_value[::2]])
    (expected,) = run_program(program, kernels, [mask_value[::2], a_value[::2]], [])
    np.testing.assert_array_equal(got, np.where(mask_value, a_value, 0)[::2])
    np.testing.assert_array_equal(expected.view(np.uint8), got)  # kernels know no sign
    with pytest.raises(Exception, match=r"a: got 3, expected 4"):
        numpy_adaptor.run(run, [mask_value[:4], a_value[:3]])
