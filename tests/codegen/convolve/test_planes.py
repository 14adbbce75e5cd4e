"""Claims about the register tiles of windows over planes: counted on assembly for named targets, none of which need be this machine."""

from __future__ import annotations

import re

import pytest

from anyshape.codegen.convolve.planes import PlaneShape, emit_plane_tile
from anyshape.codegen.llvm import Target, emit_assembly, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.dialects.tile.window import WindowAttr
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

LINUX = "x86_64-unknown-linux-gnu"
TARGETS = {
    "znver4": (Machine("x86_64", 512, 32), Target(LINUX, "znver4", "-prefer-256-bit"), "zmm"),
    "haswell": (Machine("x86_64", 256, 16), Target(LINUX, "haswell"), "ymm"),
}


def shape_of(machine: Machine, extent: int, stride: int = 1, padding: int = 0) -> PlaneShape:
    sizes = (Size.symbol("h"), Size.symbol("w"))
    extents, strides, before = ([each] * 2 for each in (extent, stride, padding))
    window = WindowAttr.of(extents, strides, before, [1, 1], sizes, groups=1, is_inside=False)
    return PlaneShape.of("f32", machine, window)


def main_loop(shape: PlaneShape, target: Target) -> list[str]:
    """The block with the most multiply-adds of the largest tile."""
    rows, (vectors, lanes) = shape.rows[0], shape.widths[0]
    module = ModuleBuilder("planes", function_attributes={"prefer-vector-width": str(32 * shape.lanes)})
    with module:
        emit_plane_tile(module, "tile", shape, rows, vectors, lanes, internal=False)
    text = emit_assembly(optimise(lower_to_llvm(module.module), target), target)
    blocks = re.split(r"\n\.L\w+:", text[text.index("\ntile:") :])
    counts = [block.count("vfmadd") for block in blocks]
    lines = blocks[counts.index(max(counts))].splitlines()
    return [line.strip() for line in lines if line.startswith("\t") and not line.startswith("\t.")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("extent", "stride"), [(3, 1), (3, 2), (5, 1), (7, 1)])
def test_each_line_is_loaded_once(target: str, extent: int, stride: int) -> None:
    """A column of the window: R·V·extent multiply-adds, V loads for each line, the weights; nothing goes through the stack."""
    machine, llvm_target, register = TARGETS[target]
    shape = shape_of(machine, extent, stride)
    rows, (vectors, _) = shape.rows[0], shape.widths[0]
    lines = main_loop(shape, llvm_target)
    assert sum(bool(re.match(rf"vfmadd\w+ps\s.*%{register}", line)) for line in lines) == rows * vectors * extent
    assert not [line for line in lines if "(%rsp" in line or "call" in line]
    loads = [line for line in lines if "(" in line and not line.startswith(("lea", "prefetch", "mov"))]
    met = len({row * stride + t for row in range(rows) for t in range(extent)})
    # A line that one row meets alone may be a multiply-add's operand.
    assert len(loads) <= met * vectors + extent


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", [1, 2, 3, 5, 7, 11])
def test_tiles_fit_the_registers(target: str, extent: int) -> None:
    machine, _, _ = TARGETS[target]
    shape = shape_of(machine, extent)
    rows, vectors = shape.tile
    assert rows * vectors + vectors + min(extent, 8) <= machine.registers


def test_borders_are_passed_over_where_lines_can_be_all_zeros() -> None:
    machine, _, _ = TARGETS["znver4"]
    assert shape_of(machine, 7, padding=3).border == 3
    assert shape_of(machine, 3).border == 0
    assert shape_of(machine, 1, padding=9).border == 0
