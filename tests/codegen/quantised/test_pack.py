"""Repacking by machine code gives the very bytes of the reference, reads no byte but those of rows and writes none but those of panels."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, object_symbols, optimise
from anyshape.codegen.microkernels import Part, emit_microkernels, part_object
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.quantised import emit_pack_blocks
from anyshape.codegen.symbols import pack_blocks_name
from anyshape.dialects.block_formats import FORMATS, BlockFormat
from anyshape.dialects.packed_blocks import PackedLayout
from anyshape.support.machine import host_machine
from tests.codegen.quantised.blocks import MACHINES, Array, packed, runs_here

ROWS = (1, 15, 16, 17, 33)
Pack = Callable[[Array, Array], None]


@cache
def object_of(format: BlockFormat, name: str) -> bytes:
    """The function for one of `MACHINES`."""
    machine, target = MACHINES[name]
    module = ModuleBuilder("pack", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_pack_blocks(module, PackedLayout(format))
    return emit_object(optimise(lower_to_llvm(module.module), target), target)


def function_of(objects: list[bytes], format: BlockFormat) -> Pack:
    """`pack(rows, panels)`, loaded here."""
    code = LoadedCode(objects, {})
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    call = signature(code.address(pack_blocks_name(format.name)))

    def pack(rows: Array, panels: Array, code: LoadedCode = code) -> None:
        call(rows.ctypes.data, rows.shape[1], len(rows), panels.ctypes.data)

    return pack


@cache
def loaded(format: BlockFormat, name: str) -> Pack:
    return function_of([object_of(format, name)], format)


def random_bits(format: BlockFormat, rows: int, blocks: int, seed: int = 0) -> Array:
    """Rows of random bits; among their f16 are numbers that are none, quiet and signalling ones, with payloads."""
    values = np.random.default_rng(seed).integers(0, 256, (rows, blocks, format.bytes), np.uint8)
    for offset in (format.scale, format.minimum):
        if offset is not None:
            values[::2, :, offset : offset + 2] = np.array([0x7D01], "<u2").view(np.uint8)
            values[1::3, :, offset : offset + 2] = np.array([0xFE05], "<u2").view(np.uint8)
    return values.reshape(rows, -1)


HERE = [name for name in MACHINES if runs_here(name)]
every_format = pytest.mark.parametrize("format", FORMATS.values(), ids=str)


@pytest.mark.parametrize("name", HERE)
@every_format
def test_fills_the_bytes_of_the_reference(format: BlockFormat, name: str) -> None:
    pack = loaded(format, name)
    for count in ROWS:
        for blocks in (1, 2, 5):
            rows = random_bits(format, count, blocks, seed=count)
            _, expected = packed(format, rows)
            panels = np.full_like(expected, 0xAA)
            pack(rows, panels)
            np.testing.assert_array_equal(panels, expected, err_msg=f"{count} rows of {blocks} blocks")


@pytest.mark.parametrize("name", HERE)
@every_format
def test_touches_nothing_beyond_its_operands(format: BlockFormat, name: str, guarded: Callable[..., Any]) -> None:
    """Rows and panels end at unreadable pages, then begin at them."""
    pack = loaded(format, name)
    for count in ROWS:
        rows = random_bits(format, count, 1)
        _, expected = packed(format, rows)
        for behind in (False, True):
            source, panels = guarded(rows, behind=behind), guarded(np.full_like(expected, 0xAA), behind=behind)
            pack(source.array, panels.array)
            np.testing.assert_array_equal(panels.array, expected)
            np.testing.assert_array_equal(source.array, rows)


@pytest.mark.parametrize("name", HERE)
@every_format
def test_no_rows_and_no_blocks_write_nothing(format: BlockFormat, name: str) -> None:
    pack, panels = loaded(format, name), np.full(64, 0xAA, np.uint8)
    pack(np.zeros((0, format.bytes), np.uint8), panels)
    pack(np.zeros((17, 0), np.uint8), panels)
    assert np.all(panels == 0xAA)


@pytest.mark.parametrize("name", HERE)
@every_format
def test_rows_at_odd_addresses(format: BlockFormat, name: str) -> None:
    rows = random_bits(format, 17, 2)
    _, expected = packed(format, rows)
    source, panels = np.zeros(rows.nbytes + 1, np.uint8)[1:].reshape(rows.shape), np.zeros_like(expected)
    source[...] = rows
    loaded(format, name)(source, panels)
    np.testing.assert_array_equal(panels, expected)


@pytest.mark.parametrize("name", MACHINES)
@every_format
def test_calls_no_function_of_a_library(format: BlockFormat, name: str) -> None:
    symbols = object_symbols(object_of(format, name))
    assert symbols is not None
    assert symbols.defined == {pack_blocks_name(format.name)} and not symbols.undefined


def test_parts_for_several_activations_are_linked_together() -> None:
    """Each part of a format packs; the program has one such function, and so has a module of both parts."""
    format, target, machine = FORMATS["q4_0"], host_target(), host_machine()
    parts = [Part("quantised", f"q4_0_{activations}") for activations in ("int8", "int16")]
    together = ModuleBuilder("parts")
    with together:
        emit_microkernels(together, machine, parts)
    rows = random_bits(format, 33, 2)
    _, expected = packed(format, rows)
    for objects in (
        [part_object(target, machine, part) for part in parts],
        [emit_object(optimise(lower_to_llvm(together.module), target), target)],
    ):
        panels = np.zeros_like(expected)
        function_of(objects, format)(rows, panels)
        np.testing.assert_array_equal(panels, expected)
