"""A driver of products with block-quantised weights, compiled for a machine and called on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from anyshape.codegen.llvm import LoadedCode, Target, emit_object, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.quantised import Activations, BlockShape, block_shape, emit_driver
from anyshape.codegen.quantised.driver import SLOTS, Slot, driver_name
from anyshape.dialects.block_formats import BlockFormat
from anyshape.dialects.packed_blocks import TILE_COLUMNS, PackedBlocks
from anyshape.support.machine import Machine, host_machine
from tests.dialects.packing import pack_panels

Array = np.ndarray[Any, Any]
LINUX = "x86_64-unknown-linux-gnu"
MIB = 1 << 20


def _x86(bits: int, registers: int, *features: str) -> Machine:
    return Machine("x86_64", bits, registers, l2=MIB, features=frozenset(features))


MACHINES: dict[str, tuple[Machine, Target]] = {
    "vnni": (_x86(512, 32, "avx512bw", "avx512vl", "avx512vnni"), Target(LINUX, "znver4", "-prefer-256-bit")),
    "avx512": (_x86(512, 32, "avx512bw", "avx512vl"), Target(LINUX, "skylake-avx512", "-prefer-256-bit")),
    "avx2": (_x86(256, 16, "avx2", "f16c", "fma"), Target(LINUX, "haswell")),
    "avx": (_x86(128, 16), Target(LINUX, "ivybridge")),
}
"""Machines by the method that they multiply by; `avx` has none of its own."""


def runs_here(name: str) -> bool:
    """Whether this machine has the instructions."""
    host = host_machine()
    return host.architecture == "x86_64" and MACHINES[name][0].features <= host.features


def code_of(format: BlockFormat, activations: Activations, name: str) -> tuple[BlockShape, str]:
    """The optimised LLVM IR of a driver and all its tiles."""
    machine, target = MACHINES[name]
    shape = block_shape(format.name, activations, machine)
    module = ModuleBuilder("blocks", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_driver(module, shape)
    return shape, optimise(lower_to_llvm(module.module), target)


@dataclass(frozen=True)
class Driver:
    """A loaded driver. `run` takes f32 rows, packed weights and a bias row, and gives the product in a new array."""

    shape: BlockShape
    code: LoadedCode
    call: Callable[[int], None]

    def run(
        self, x: Array, packed: PackedBlocks, panels: Array, bias: Array | None = None, out: Array | None = None
    ) -> Array:
        out = np.full((len(x), packed.n), np.nan, np.float32) if out is None else out
        scratch = np.zeros(len(x) * (packed.k // TILE_COLUMNS) * self.shape.row_bytes + 1, np.uint8)
        task = np.zeros(SLOTS, np.int64)
        task[[Slot.ROWS, Slot.COLUMNS, Slot.UNITS]] = len(x), packed.n, packed.k // self.shape.layout.format.elements
        task[[Slot.LHS, Slot.LHS_ROW, Slot.RHS]] = x.ctypes.data, x.strides[0] // 4, panels.ctypes.data
        task[[Slot.OUT, Slot.OUT_ROW, Slot.SCRATCH]] = out.ctypes.data, packed.n, scratch.ctypes.data
        task[Slot.INIT] = 0 if bias is None else bias.ctypes.data
        self.call(task.ctypes.data)
        return out


@cache
def driver(format: BlockFormat, activations: Activations, name: str) -> Driver:
    """The driver for one of `MACHINES`, loaded here."""
    shape, code = code_of(format, activations, name)
    loaded = LoadedCode([emit_object(code, MACHINES[name][1])], {})
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address(driver_name(shape)))
    return Driver(shape, loaded, call)


def packed(format: BlockFormat, rows: Array) -> tuple[PackedBlocks, Array]:
    """Rows of blocks in packed form."""
    form = PackedBlocks(len(rows), format.columns(rows.shape[1]), format.name)
    panels = np.zeros(form.shape, np.uint8)
    pack_panels(format, rows, panels)
    return form, panels


__all__ = ["LINUX", "MACHINES", "Driver", "code_of", "driver", "packed", "runs_here"]
