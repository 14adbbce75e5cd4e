"""Which register tiles and cache blocks a machine gets: the cost model's choice among those that fit its registers and caches.

Rows are split into tiles of up to `MAX_ROWS` rows. Products with many rows are bound by multiply-adds, products with few rows stream the
right-hand side and are bound by what comes through the caches, so tiles are compared on streamed weights; where two take equally
long, the one that loads less for what it multiplies is chosen. Blocks are compared by the time of one row and step in them. No choice
changes a result: each row of every tile adds its products in the order of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from anyshape.kernels.cost import CacheBlock, RegisterTile, block_time, panel_step_time
from anyshape.support.machine import Machine

MAX_ROWS = 6
"""Rows of the largest register tile."""
_ROW_TILES = 4
"""Register tiles by which row blocks differ."""
MAX_BLOCK_ROWS = 56 * MAX_ROWS
"""Rows beyond which a block saves nothing that could be measured, and scratch for its sums grows."""
_STEP_UNIT, MAX_STEPS = 128, 1536
"""Steps of a depth block: a multiple of the first, up to the second. What a step holds of narrow elements is a whole group, so blocks of
any element are whole groups."""


@dataclass(frozen=True)
class Candidates:
    """The tiles that a machine could have for one element type.

    Args:
        panel_vectors: vectors in a panel's row, a power of two.
        fewest: vectors that a step of a tile takes at least.
        registers: vector registers.
        step_bytes: bytes of a panel that a step reads.
    """

    machine: Machine
    panel_vectors: int
    fewest: int
    registers: int
    step_bytes: int

    def of_rows(self, rows: int) -> list[RegisterTile]:
        """The tiles with so many rows whose sums and factors fit the registers, or else the narrowest one; the widest first."""
        tiles: list[RegisterTile] = []
        vectors = self.panel_vectors
        while vectors >= self.fewest:
            tiles.append(RegisterTile(rows, vectors, self.panel_vectors // vectors))
            vectors //= 2
        return [tile for tile in tiles if tile.registers <= self.registers] or tiles[-1:]

    def time(self, tiles: Sequence[RegisterTile]) -> float:
        """Nanoseconds of one step of a panel that streams from memory."""
        return panel_step_time(tiles, self.step_bytes, self.machine, rate=self.machine.rates.memory)


def choose_tile(candidates: Candidates, rows: int) -> RegisterTile:
    """The tile with so many rows."""
    return min(candidates.of_rows(rows), key=lambda tile: (candidates.time([tile]), tile.loads / tile.multiply_adds))


def choose_tiles(candidates: Candidates) -> tuple[RegisterTile, ...]:
    """The tiles with 1, 2, … `MAX_ROWS` rows."""
    return tuple(choose_tile(candidates, rows) for rows in range(1, MAX_ROWS + 1))


def choose_block(tile: RegisterTile, work: CacheBlock, machine: Machine) -> CacheBlock:
    """The best block of a product with any number of rows and `work.steps` steps; of equal ones the smallest."""
    whole = min(MAX_STEPS, max(1, work.steps))
    steps = (*range(_STEP_UNIT, whole, _STEP_UNIT), whole)
    return _best(tile, tuple(replace(work, steps=each) for each in steps), machine)


def choose_block_rows(tile: RegisterTile, work: CacheBlock, machine: Machine) -> int:
    """Rows of the best block whose depth block has `work.steps` steps."""
    return _best(tile, (work,), machine).rows


@lru_cache(maxsize=256)
def _best(tile: RegisterTile, works: tuple[CacheBlock, ...], machine: Machine) -> CacheBlock:
    unit = _ROW_TILES * tile.rows
    blocks = [
        replace(work, rows=rows) for work in works for rows in (tile.rows, *range(unit, MAX_BLOCK_ROWS + 1, unit))
    ]
    return min(
        blocks, key=lambda block: (block_time(tile, block, machine) / (block.rows * block.steps), block.footprint)
    )
