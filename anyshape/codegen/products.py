"""Every `tile.contract`, whatever its right-hand side: panels of elements, windows of images, blocks of quantised weights."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from anyshape.codegen.contract import contract_schedule, contract_time, emit_contract
from anyshape.codegen.convolve import convolve_schedule, convolve_time, emit_convolution, reads_planes
from anyshape.codegen.microkernels import Part
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.codegen.points import EmittedKernel
from anyshape.codegen.quantised import emit_quantised, quantised_schedule, quantised_time
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.dialects.tile import ContractOp, KernelOp
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def emit_product(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a product; what `product_parts` names must be linked."""
    op = cast(ContractOp, op)
    emit = emit_quantised if op.blocks is not None else emit_convolution if op.window is not None else emit_contract
    return emit(module, kernel, op, machine)


def product_schedule(op: ContractOp, machine: Machine) -> Schedule:
    """The schedule of a product; sizes over the kernel's symbols."""
    if op.window is not None:
        return convolve_schedule(op, machine)
    return (contract_schedule if op.blocks is None else quantised_schedule)(op, machine)


def product_time(op: ContractOp, machine: Machine) -> Size:
    """What the cost model expects of a product on one core."""
    if op.window is not None:
        return convolve_time(op, machine)
    return (contract_time if op.blocks is None else quantised_time)(op, machine)


def product_parts(op: ContractOp) -> tuple[Part, ...]:
    """The micro-kernels that a product calls."""
    if reads_planes(op):
        return ()
    return (_part_of(op),)


def _part_of(op: ContractOp) -> Part:
    if op.blocks is None or op.activations is None:
        return Part("contract", op.factors)
    return Part("quantised", f"{op.blocks.data}_{op.activations.data}")


__all__ = ["emit_product", "product_parts", "product_schedule", "product_time"]
