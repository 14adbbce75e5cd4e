"""Register tiles beside the cost model: the candidates among which it chooses, each compiled and measured by itself.

A tile goes through panels of 64 columns, one after another: through one panel that stays in the second-level cache, or through so many that
they stream from memory. It prefetches ahead in its own panel, and nothing of the next.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from anyshape.codegen.builder import Builder
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.tiles.microkernel import emit_tile, tile_arguments, tile_name
from anyshape.codegen.tiles.shape import TileShape, tile_shape
from anyshape.dialects.packed_panels import PANEL
from anyshape.kernels.cost import RegisterTile, panel_step_time
from anyshape.support.machine import Machine

Least = Callable[[Callable[[int], object]], float]
"""Nanoseconds of one repetition of a function that takes the number of them."""
DEPTH = 384
ROWS = (1, 2, 4, 6, 8, 10, 14)
STREAM_BYTES = 40 << 20
_ALIGNMENT = 64


def tile_rows(machine: Machine, least: Least) -> Iterator[dict[str, Any]]:
    """A row for each tile of f32 that fits the registers, at both places: nanoseconds of a panel predicted and measured."""
    shape = tile_shape("f32", machine)
    panel_bytes = DEPTH * shape.step_bytes
    panels = aligned(max(1, STREAM_BYTES // panel_bytes) * panel_bytes)
    for tile in candidate_tiles(shape):
        run = _loop(machine, shape, tile, panels)
        for place, count, rate in (
            ("second level", 1, math.inf),
            ("memory", panels.nbytes // panel_bytes, machine.rates.memory),
        ):
            yield {
                "kind": "register tile",
                "kernel": f"{tile.rows}×{tile.vectors * shape.lanes}",
                "shape": f"panels from {place}",
                "predicted_ns": DEPTH * panel_step_time([tile], shape.step_bytes, machine, rate=rate),
                "measured_ns": least(lambda passes, count=count, run=run: run(passes * count, count)) / count,
            }


def candidate_tiles(shape: TileShape) -> list[RegisterTile]:
    """Tiles of several row counts and all widths that fit the registers."""
    panel = PANEL // shape.lanes
    widths = [panel >> shift for shift in range(panel.bit_length())]
    tiles = [RegisterTile(rows, vectors, panel // vectors) for rows in ROWS for vectors in widths]
    return [tile for tile in tiles if tile.registers <= shape.registers]


def _loop(
    machine: Machine, shape: TileShape, tile: RegisterTile, panels: np.ndarray[Any, Any]
) -> Callable[[int, int], None]:
    """`run(n, count)`: n tiles, over the first `count` panels in turn."""
    module = ModuleBuilder("tile", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_tile(module, replace(shape, widths=(tile.vectors,) * tile.rows), tile.rows)
        _emit_often(module, tile_name(shape.element, tile.rows))
    code = LoadedCode([emit_object(optimise(lower_to_llvm(module.module), host_target()), host_target())])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    often = ctypes.CFUNCTYPE(None, number, number, pointer, pointer, pointer, pointer)(code.address("tile_often"))
    lhs, out, zeros = (aligned(4 * size) for size in (tile.rows * DEPTH, tile.rows * PANEL, PANEL))

    def run(repeats: int, count: int, keep: object = code) -> None:
        # `keep` holds the code that `often` points into.
        often(repeats, count, *(array.ctypes.data for array in (lhs, panels, out, zeros)))

    return run


def _emit_often(module: ModuleBuilder, tile: str) -> None:
    b = Builder()
    with module.function("tile_often", [b.i64, b.i64, b.ptr, b.ptr, b.ptr, b.ptr]) as f:
        repeats, count, lhs, panels, out, zeros = f.args
        function = b.function_address(tile, tile_arguments(b))
        depth, panel, none = (b.const(b.i64, value) for value in (DEPTH, PANEL, 0))
        with b.for_(0, repeats) as loop:
            rhs = b.offset(panels, b.f32, b.mul(b.rem(loop.index, count), DEPTH * PANEL))
            b.call_pointer(
                function, [lhs, depth, rhs, panel, out, panel, depth, zeros, none, panel, rhs, none]
            )  # fmt: skip


def aligned(bytes_: int) -> np.ndarray[Any, Any]:
    """That many bytes as f32, none of them zero, from a line's begin on."""
    raw = np.zeros(bytes_ + _ALIGNMENT, np.uint8)
    array = raw[-raw.ctypes.data % _ALIGNMENT :][:bytes_].view(np.float32)
    # Zeros have a fast path on some machines, and untouched pages are all one page.
    array.fill(0.25)
    return array
