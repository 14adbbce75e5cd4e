"""Code that no graph changes, compiled once for a machine: register tiles, packing, and the drivers of products and attention.

It comes in parts, an object for each, so that a program links (and a first run compiles) what it uses only.

| part | defines | needs |
|---|---|---|
| `Part("contract", element)` | tiles, packing, block driver; element a key of `SUM_ELEMENTS` | |
| `Part("quantised", f"{format}_{activations}")` | rounding, tiles, driver of products with block-quantised weights, their packing | |
| `Part("attend", elements)` | driver of attention and its parts; for names see `Elements.of` | the `contract` part of `attend_parts` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from anyshape.codegen.attend.driver import emit_attend_driver
from anyshape.codegen.attend.elements import ATTEND_ELEMENTS, Elements
from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.driver import declare_block_parts, emit_block_driver
from anyshape.codegen.llvm import Target, emit_object, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.quantised import Activations, block_shape, emit_driver, emit_pack_blocks
from anyshape.codegen.symbols import pack_blocks_name
from anyshape.codegen.tiles.shape import SUM_ELEMENTS, tile_shape
from anyshape.support.machine import Machine


@dataclass(frozen=True, order=True)
class Part:
    """Micro-kernels that are compiled together."""

    kind: Literal["contract", "attend", "quantised"]
    element: str

    @staticmethod
    def of(name: str) -> Part:
        """The part of that name: the inverse of `str`."""
        kind, _, element = name.partition("_")
        return Part(cast(Literal["contract", "attend", "quantised"], kind), element)

    def __str__(self) -> str:
        return f"{self.kind}_{self.element}"


def parts_of(elements: Sequence[str]) -> tuple[Part, ...]:
    """Every part for these element types; attention where what it is computed in is among them."""
    attended = [each for each in elements if each in ATTEND_ELEMENTS and SUM_ELEMENTS[each] in elements]
    return (*(Part("contract", each) for each in elements), *(Part("attend", each) for each in attended))


def attend_parts(element: str) -> tuple[Part, Part]:
    """What an attention over these elements calls."""
    return Part("contract", SUM_ELEMENTS[element.partition("_")[0]]), Part("attend", element)


def emit_microkernels(module: ModuleBuilder, machine: Machine, parts: Sequence[Part]) -> None:
    """Define the parts in an entered module; what they need of parts that are not among them is declared."""
    declared = set(parts)
    for part in parts:
        if part.kind == "contract":
            emit_block_driver(module, tile_shape(part.element, machine))
            continue
        if part.kind == "quantised":
            format, _, activations = part.element.rpartition("_")
            shape = block_shape(format, cast(Activations, activations), machine)
            emit_driver(module, shape)
            if not module.defines(pack_blocks_name(format)):  # by a part for other activations
                emit_pack_blocks(module, shape.layout)
            continue
        elements = Elements.of(part.element, machine)
        if Part("contract", elements.shape.element) not in declared:
            declare_block_parts(module, Builder(), elements.shape)
            declared.add(Part("contract", elements.shape.element))
        emit_attend_driver(module, elements)


def part_code(target: Target, machine: Machine, part: Part) -> str:
    """The optimised LLVM IR of one part."""
    return _code(target, machine, (part,))


def part_object(target: Target, machine: Machine, part: Part) -> bytes:
    """The object of one part."""
    return emit_object(part_code(target, machine, part), target)


@cache
def shared_objects(target: Target, machine: Machine, elements: tuple[str, ...] = ("f32",)) -> bytes:
    """One object with every part for these element types, made once in a process."""
    return emit_object(shared_code(target, machine, elements), target)


def shared_code(target: Target, machine: Machine, elements: tuple[str, ...] = ("f32",)) -> str:
    """The optimised LLVM IR of `shared_objects`."""
    return _code(target, machine, parts_of(elements))


def _code(target: Target, machine: Machine, parts: Sequence[Part]) -> str:
    module = ModuleBuilder("microkernels", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_microkernels(module, machine, parts)
    return optimise(lower_to_llvm(module.module), target)
