"""Compile plans for this machine, run them through ctypes, and compare with the numpy interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import EmittedKernel, emit_kernel
from anyshape.dialects.tile import KernelOp
from anyshape.dialects.tile.interpreter import IndexFault, run_kernel
from anyshape.support.machine import Machine, host_machine

_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def lower_plans(kernels: Sequence[KernelOp], machine: Machine) -> tuple[str, list[EmittedKernel]]:
    """LLVM IR of one module with all kernels."""
    module = ModuleBuilder("plans", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emitted = [emit_kernel(module, kernel, machine) for kernel in kernels]
    return lower_module(module), emitted


def lower_module(module: ModuleBuilder) -> str:
    """LLVM IR text."""
    return lower_to_llvm(module.module)


def load_module(text: str, symbols: Mapping[str, int] | None = None) -> LoadedCode:
    """LLVM IR text compiled for this machine."""
    target = host_target()
    return LoadedCode([emit_object(optimise(text, target), target)], symbols)


@dataclass
class Compiled:
    """Loaded kernels by name, and what their checks reported."""

    code: LoadedCode
    emitted: Mapping[str, EmittedKernel]
    kernels: Mapping[str, KernelOp]
    reports: list[IndexFault]
    keep: object

    def run(self, name: str, buffers: Sequence[np.ndarray], sizes: Mapping[str, int], begin: int, end: int) -> None:
        kernel = self.kernels[name]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)(
            self.code.address(name)
        )
        pointers = (ctypes.c_void_p * len(buffers))(*(each.ctypes.data for each in buffers))
        numbers = [sizes[symbol] for symbol in kernel.symbol_names]
        table = (ctypes.c_int64 * max(1, len(numbers)))(*numbers)
        room = np.full(self.emitted[name].scratch_bytes.evaluate(sizes) + 128, 0xAB, np.uint8)
        scratch = room.ctypes.data + -room.ctypes.data % 64
        function(ctypes.addressof(pointers), ctypes.addressof(table), begin, end, scratch, None)
        used = scratch - room.ctypes.data + self.emitted[name].scratch_bytes.evaluate(sizes)
        assert (room[used:] == 0xAB).all(), f"{name} wrote beyond its scratch"


def compile_plans(kernels: Sequence[KernelOp], machine: Machine | None = None) -> Compiled:
    text, emitted = lower_plans(kernels, machine or host_machine())
    reports: list[IndexFault] = []

    def report(_cell: int, site: int, index: int, bound: int) -> None:
        reports.append(IndexFault(site, index, bound))

    callback = _REPORT(report)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    code = load_module(text, {"ral_report_index": address})
    by_name = {kernel.sym_name.data: kernel for kernel in kernels}
    return Compiled(code, {each.name: each for each in emitted}, by_name, reports, callback)


GUARD = 64
"""Elements around every buffer that nothing may write."""


def check_plan(
    compiled: Compiled,
    name: str,
    buffers: Sequence[np.ndarray],
    sizes: Mapping[str, int],
    total: int,
    *,
    spans: Sequence[tuple[int, int]] | None = None,
    rtol: float = 2e-5,
    atol: float = 2e-6,
) -> list[np.ndarray]:
    """Run a kernel natively, over the given spans of [0, total), and by numpy; compare all buffers and what surrounds them."""
    kernel = compiled.kernels[name]
    expected = [each.copy() for each in buffers]
    with np.errstate(all="ignore"):
        run_kernel(kernel, expected, sizes, errors=[])
    padded = [np.concatenate([np.zeros(GUARD, each.dtype), each, np.zeros(GUARD, each.dtype)]) for each in buffers]
    inner = [each[GUARD : each.size - GUARD] for each in padded]
    for begin, end in spans or [(0, total)]:
        compiled.run(name, inner, sizes, begin, end)
    for number, (native, reference, around) in enumerate(zip(inner, expected, padded, strict=True)):
        assert not around[:GUARD].any() and not around[around.size - GUARD :].any(), (
            f"{name} wrote outside buffer {number}"
        )
        kind = native.dtype.kind
        if kind in "biu":
            np.testing.assert_array_equal(native, reference, err_msg=f"{name} buffer {number} at {dict(sizes)}")
        else:
            np.testing.assert_allclose(native.astype(np.float64), reference.astype(np.float64), rtol=rtol, atol=atol,
                                       err_msg=f"{name} buffer {number} at {dict(sizes)}")  # fmt: skip
    return inner
