"""Code that no graph changes, compiled once for a machine: register tiles, packing, and the drivers of products and attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from anyshape.codegen.attend.driver import emit_attend_driver
from anyshape.codegen.contract.driver import emit_block_driver
from anyshape.codegen.contract.tile_shape import tile_shape
from anyshape.codegen.llvm import Target, emit_object, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.support.machine import Machine


def emit_microkernels(module: ModuleBuilder, machine: Machine, elements: Sequence[str] = ("f32",)) -> None:
    """Define tiles, packing and drivers for each element type (`f32`, `f64`) in an entered module."""
    for element in elements:
        shape = tile_shape(element, machine)
        emit_block_driver(module, shape)
        emit_attend_driver(module, shape)


@cache
def shared_objects(target: Target, machine: Machine, elements: tuple[str, ...] = ("f32",)) -> bytes:
    """The object of `emit_microkernels`, made once in a process."""
    return emit_object(shared_code(target, machine, elements), target)


def shared_code(target: Target, machine: Machine, elements: tuple[str, ...] = ("f32",)) -> str:
    """The optimised LLVM IR of `shared_objects`."""
    module = ModuleBuilder("microkernels", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_microkernels(module, machine, elements)
    return optimise(lower_to_llvm(module.module), target)
