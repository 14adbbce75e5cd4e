"""Host programs compiled and run against kernels in C, with the arena in view and its memory poisoned."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Operation, SSAValue

from anyshape.codegen.host import emit_program
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.dialects.host import (
    AllocateOp,
    BindOp,
    ConstantOp,
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
from anyshape.dialects.tile import KernelOp, buffer
from anyshape.dialects.tile.interpreter import IndexFault
from anyshape.runtime import numpy_adaptor
from anyshape.runtime.abi import DType
from anyshape.runtime.loader import Program, include_directory, runtime
from anyshape.symbolic import SizeLike

Array = np.ndarray[Any, Any]
_PLAN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, *[ctypes.c_void_p] * 5)
_ARENA = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

_F = buffer(f32, [])
KERNELS: Mapping[str, KernelOp] = {
    "add": KernelOp("add", [], [_F, _F, _F]),
    "twice": KernelOp("twice", [], [_F, _F]),
    "row_dot": KernelOp("row_dot", ["m"], [_F, _F, _F]),
    "pick": KernelOp("pick", ["m"], [_F, buffer(i64, []), _F]),
}
"""The signatures of `kernels.c`."""


def run_in_numpy(
    kernel: KernelOp,
    buffers: Sequence[Array],
    sizes: Mapping[str, int],
    *,
    begin: int,
    end: int,
    errors: list[IndexFault],
) -> None:
    """The kernels of `kernels.c` on flat memory, all points at once."""
    assert (begin, end) == (0, buffers[-1].size)
    match kernel.sym_name.data:
        case "add":
            buffers[2][:] = buffers[0] + buffers[1]
        case "twice":
            buffers[1][:] = 2 * buffers[0]
        case "row_dot":
            buffers[2][:] = buffers[0].reshape(-1, sizes["m"]) @ buffers[1] if sizes["m"] else 0
        case "pick":
            wrong = [int(i) for i in buffers[1] if not 0 <= i < sizes["m"]]
            errors += [IndexFault(0, i, sizes["m"]) for i in wrong]
            if not wrong:
                buffers[2][:] = buffers[0][buffers[1]]
        case name:
            raise AssertionError(name)


class Draft:
    """A program under construction, all in f32 but for integer indices; the last buffer of a launch is its output."""

    def __init__(
        self, arguments: Sequence[tuple[str, Sequence[SizeLike]]], *, constants: int = 0, sites: Sequence[str] = ()
    ) -> None:
        typed = [(name, i64 if name == "index" else f32, sizes) for name, sizes in arguments]
        self.program = ProgramOp("drafted", typed, [f"w{i}" for i in range(constants)], sites)
        self.arguments = self.program.body.block.args

    def append(self, op: Operation) -> None:
        self.program.body.block.add_op(op)

    def bind(self, argument: int, *symbols: str) -> None:
        for axis, symbol in enumerate(symbols):
            self.append(BindOp(symbol, self.arguments[argument], axis))

    def guard(self, argument: int, *sizes: SizeLike) -> None:
        name = self.program.names.data[argument].data
        for axis, size in enumerate(sizes):
            message = f"argument '{name}' axis {axis}: got %lld, expected %lld"
            self.append(GuardAxisOp(self.arguments[argument], axis, size, message))

    def dense(self, argument: int) -> SSAValue:
        self.append(op := DenseOp(self.arguments[argument]))
        return op.result

    def constant(self, index: int, *sizes: SizeLike) -> SSAValue:
        self.append(op := ConstantOp(index, buffer(f32, sizes)))
        return op.result

    def allocate(self, *sizes: SizeLike) -> SSAValue:
        self.append(op := AllocateOp(buffer(f32, sizes)))
        return op.result

    def output(self, index: int, *sizes: SizeLike) -> SSAValue:
        self.append(op := OutputOp(index, buffer(f32, sizes)))
        return op.result

    def view(self, value: SSAValue, *sizes: SizeLike) -> SSAValue:
        self.append(op := ViewOp(value, buffer(f32, sizes)))
        return op.result

    def launch(
        self, kernel: str, *buffers: SSAValue, extent: SizeLike, sizes: Sequence[SizeLike] = (), when: SizeLike = 1
    ) -> None:
        self.append(LaunchOp(kernel, buffers, sizes, extent=extent, grain=16, scratch=0, outputs=1, when=when))

    def finish(self) -> ProgramOp:
        self.append(ReturnOp.build())
        return self.program


@dataclass
class Plan:
    """What a program asked of `ral_plan_arena`, and the answer."""

    bytes: list[int]
    first: list[int]
    last: list[int]
    offsets: list[int]
    total: int


@dataclass
class Compiled:
    program: Program
    plans: list[Plan] = field(default_factory=list[Plan])

    def __call__(self, *arrays: Array) -> list[Array]:
        return numpy_adaptor.run(self.program, arrays)


@pytest.fixture(scope="session")
def draft() -> type[Draft]:
    return Draft


@pytest.fixture(scope="session")
def kernels() -> Mapping[str, KernelOp]:
    return KERNELS


@pytest.fixture(scope="session")
def reference() -> Callable[..., list[Array]]:
    """`reference(program, inputs, constants)`: what the interpreter gives."""

    def run(program: ProgramOp, inputs: Sequence[Array], constants: Sequence[Array] = ()) -> list[Array]:
        return run_program(program, KERNELS, inputs, constants, run=run_in_numpy)

    return run


@pytest.fixture(scope="session")
def gcc() -> str:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    return compiler


@pytest.fixture(scope="session")
def kernel_object(gcc: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    target = tmp_path_factory.mktemp("kernels") / "kernels.o"
    source = Path(__file__).with_name("kernels.c")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{include_directory()}"]
    subprocess.run([gcc, *flags, "-c", str(source), "-o", str(target)], check=True)
    return target.read_bytes()


def object_of(program: ProgramOp, outputs: Sequence[tuple[int, int]], constants: Sequence[Array]) -> bytes:
    """The host function and descriptor as an object; constants lie 64-byte aligned in the constants file."""
    spans: list[tuple[int, int]] = []
    offset = 0
    for constant in constants:
        spans.append((constant.nbytes, offset))
        offset += -(-constant.nbytes // 64) * 64
    module = ModuleBuilder("program")
    with module:
        emit_program(module, program, outputs=outputs, constants=spans)
    target = host_target()
    return emit_object(optimise(lower_to_llvm(module.module), target), target)


def _observed(plans: list[Plan]) -> dict[str, Any]:
    """`ral_plan_arena` that keeps what it was asked, and `ral_arena` that poisons the memory that it gives."""
    library = runtime().library

    def plan(context: int, count: int, sizes: int, first: int, last: int, offsets: int, total: int) -> int:
        code: int = library.ral_plan_arena(context, count, sizes, first, last, offsets, total)
        if code == 0:
            longs, ints = ctypes.c_int64 * count, ctypes.c_int32 * count
            plans.append(
                Plan(
                    list(longs.from_address(sizes)),
                    list(ints.from_address(first)),
                    list(ints.from_address(last)),
                    list(longs.from_address(offsets)),
                    ctypes.c_int64.from_address(total).value,
                )
            )
        return code

    def arena(context: int, size: int) -> int:
        address: int = library.ral_arena(context, size)
        if address:
            ctypes.memset(address, 0xA5, size)
        return address

    return {"ral_plan_arena": _PLAN(plan), "ral_arena": _ARENA(arena)}


@pytest.fixture
def compile_host(kernel_object: bytes) -> Callable[..., Compiled]:
    """`compile_host(program, outputs=[(dtype, rank)], constants=[array])`, verified first."""

    def compile_program(
        program: ProgramOp, outputs: Sequence[tuple[int, int]] = ((DType.F32, 1),), constants: Sequence[Array] = ()
    ) -> Compiled:
        verify_program(program, KERNELS)
        plans: list[Plan] = []
        callbacks = _observed(plans)
        addresses = {name: ctypes.cast(callback, ctypes.c_void_p).value or 0 for name, callback in callbacks.items()}
        code = LoadedCode([object_of(program, outputs, constants), kernel_object], {**runtime().symbols, **addresses})
        return Compiled(Program(code.address(DESCRIPTOR), constants, 1, (code, callbacks)), plans)

    return compile_program
