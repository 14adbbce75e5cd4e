"""Convolutions: `tile.contract` with a window, as a product whose right-hand side is nowhere in memory, or plane by plane.

| part | what |
|---|---|
| `runs` | where the 64 columns of a panel lie in the image: runs of elements that a vector loads at once, and masks of those outside |
| `gather` | a depth block of a panel, loaded run by run: what the block driver of `codegen.contract` asks for |
| `plan` | the kernel of a product: its tasks, its scratch, its epilogue |
| `strips` | a strip of a plane, copied with the zeros around it |
| `planes` | register tiles of windows over a strip |
| `direct` | the kernel of a convolution whose filters share little (depthwise): planes of results |
"""

from anyshape.codegen.convolve.direct import direct_schedule, direct_time, emit_direct, reads_planes
from anyshape.codegen.convolve.plan import emit_gathered, gathered_schedule, gathered_time
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.codegen.points import EmittedKernel
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.dialects.tile import ContractOp, KernelOp
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def convolve_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a convolution; sizes over the kernel's symbols."""
    return (direct_schedule if reads_planes(op) else gathered_schedule)(op, machine)


def convolve_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a convolution on one core."""
    return (direct_time if reads_planes(op) else gathered_time)(op, machine)


def emit_convolution(module: ModuleBuilder, kernel: KernelOp, op: ContractOp, machine: Machine) -> EmittedKernel:
    """Define the kernel of a convolution."""
    return (emit_direct if reads_planes(op) else emit_gathered)(module, kernel, op, machine)


__all__ = ["convolve_schedule", "convolve_time", "emit_convolution", "reads_planes"]
