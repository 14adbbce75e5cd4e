"""Cache blocks beside the cost model: row and depth blocks among which it chooses, each driver compiled and measured by itself.

A product of many rows goes through as many panels of 64 columns as lie in memory, block by block in the order in which a launch has them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name, emit_block_driver
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.tiles.shape import TileShape, tile_shape
from anyshape.dialects.packed_panels import PANEL
from anyshape.kernels.cost import block_time
from anyshape.support.machine import Machine
from bench.tiles import Least, aligned

ROWS, DEPTH, PANELS = 336, 1536, 28
"""Rows are whole blocks of all sizes that are compared; the panels together are more than a third-level cache has for one core."""
BLOCK_ROWS = (48, 168, 336)
BLOCK_DEPTHS = (128, 256, 512, 768, 1536)
_F32 = 4


def block_rows(machine: Machine, least: Least) -> Iterator[dict[str, Any]]:
    """A row for each size of blocks: nanoseconds of the product predicted and measured; what the model chose is marked."""
    shape = tile_shape("f32", machine)
    chosen = min(BLOCK_DEPTHS, key=lambda depth: abs(depth - shape.depth))
    lhs, rhs, out = (aligned(_F32 * size) for size in (ROWS * DEPTH, DEPTH * PANEL * PANELS, ROWS * PANEL * PANELS))
    for depth in BLOCK_DEPTHS:
        code = _driver(replace(shape, depth=depth), machine)
        for rows in BLOCK_ROWS:
            block = replace(shape.cache_block(depth), rows=rows)
            predicted = block_time(shape.largest_tile, block, machine) * (ROWS // rows) * (DEPTH // depth) * PANELS
            yield {
                "kind": "cache block",
                "kernel": f"{rows}×{depth}"
                + (" (near the choice)" if depth == chosen and rows == max(BLOCK_ROWS) else ""),
                "shape": f"{ROWS}×{DEPTH}×{PANEL * PANELS}",
                "predicted_ns": predicted,
                "measured_ns": least(_product(code, rows, lhs, rhs, out)),
            }


def _driver(shape: TileShape, machine: Machine) -> LoadedCode:
    module = ModuleBuilder("blocks", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_block_driver(module, shape)
    return LoadedCode([emit_object(optimise(lower_to_llvm(module.module), host_target()), host_target())])


def _product(code: LoadedCode, block: int, lhs: Any, rhs: Any, out: Any) -> Callable[[int], None]:
    """`run(n)`: the product n times."""
    driver = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(block_name("f32")))
    columns = PANEL * PANELS
    records = [
        _record(
            ROWS=block, COLUMNS=PANEL, DEPTH=DEPTH, LHS=lhs.ctypes.data + _F32 * row * DEPTH, LHS_ROW=DEPTH, LHS_DEPTH=1,
            RHS=rhs.ctypes.data + _F32 * panel * DEPTH * PANEL, RHS_DEPTH=PANEL, RHS_COLUMN=1, RHS_PANEL=DEPTH * PANEL,
            PACKED=1, OUT=out.ctypes.data + _F32 * (row * columns + panel * PANEL), OUT_ROW=columns,
        )
        for row in range(0, ROWS, block)
        for panel in range(PANELS)
    ]  # fmt: skip

    def run(repeats: int, keep: object = code) -> None:
        # `keep` holds the code that `driver` points into.
        for _ in range(repeats):
            for record in records:
                driver(record.ctypes.data)

    return run


def _record(**slots: int) -> np.ndarray[Any, Any]:
    record = np.zeros(SLOTS, np.int64)
    for name, value in slots.items():
        record[Slot[name]] = value
    return record
