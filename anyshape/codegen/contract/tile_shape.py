"""How a 64-column panel of the right-hand side is walked: register tiles, depth blocks, row blocks.

A register tile is R rows by `columns(R)` columns: R·V accumulators, V vectors of the right-hand side and one broadcast of
the left-hand side must fit the register file. Wider machines take the whole panel at once, narrower ones in several passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.support.machine import Machine
from anyshape.symbolic import Size

PANEL = 64
"""Columns of a panel, the same for every machine: `tile.ContractOp.PANEL`."""
MAX_ROWS = 6
"""Rows of the largest register tile."""
MAX_BLOCK_ROWS = 56 * MAX_ROWS
_DEPTH_BYTES = 3072
"""Bytes of one row of a depth block: 768 f32. Six rows of the left-hand side then take 18 KB of the first-level cache."""


@dataclass(frozen=True)
class TileShape:
    """Tile sizes for one element type on one machine.

    Args:
        element: MLIR's name of the element type, `f32` or `f64`.
        element_bytes: bytes of an element.
        lanes: elements of a vector register.
        registers: vector registers.
        l2: bytes of the second-level cache.
    """

    element: str
    element_bytes: int
    lanes: int
    registers: int
    l2: int

    @property
    def depth(self) -> int:
        """Elements of a depth block; longer sums go on from what the block before has stored."""
        return _DEPTH_BYTES // self.element_bytes

    def vectors(self, rows: int) -> int:
        """Vectors in one row of a tile of `rows` rows: the most that fit, a power of two."""
        vectors = PANEL // self.lanes
        while vectors > 1 and rows * vectors + (vectors if rows > 1 else 0) + 1 > self.registers:
            vectors //= 2
        return vectors

    def columns(self, rows: int) -> int:
        """Columns of a tile of `rows` rows; divides `PANEL`."""
        return self.vectors(rows) * self.lanes

    def block_rows(self, depth: Size) -> int:
        """Rows of a row block: its depth block of the left-hand side fills at most half the second-level cache."""
        block_depth = max(1, min(self.depth, depth.constant_or(self.depth)))
        rows = self.l2 // 2 // (block_depth * self.element_bytes)
        return max(MAX_ROWS, min(MAX_BLOCK_ROWS, rows - rows % MAX_ROWS))


def tile_shape(element: str, machine: Machine) -> TileShape:
    """Tile sizes for `f32` or `f64`."""
    element_bytes = {"f32": 4, "f64": 8}[element]
    return TileShape(
        element, element_bytes, min(PANEL, machine.lanes(8 * element_bytes)), max(machine.registers, 8), machine.l2
    )
