"""The packed form of block-quantised weights: the bytes of a GGUF tensor in the order in which kernels take them.

16 rows are a *panel*: what one vector of sums belongs to. A panel is a run of *units*, one for each block of the format in a row,
and holds for its 16 rows, lane by lane:

| part | bytes | what |
|---|---|---|
| scales | 32 | the f16 d of each row |
| minima | 32 | the f16 dmin, in formats that have one |
| group scales | 16 for each group | a byte of each row, in formats that have group scales |
| group minima | 16 for each group | the same for 6-bit minima |
| tiles | `tile_bytes` for each 32 columns | codes |

Codes of 16 rows × 32 columns are eight vectors of 64 bytes; byte 4·r + j of vector v is the code of row r and column 4·v + j. What is
stored of them:

| code bits | stored |
|---|---|
| 8 | the vectors |
| 4 | four vectors: vector v in the low half of each byte, vector v + 4 in the upper half |
| 5 | the same of the low 4 bits; one vector with bit 4 of vector v in bit v |
| 6 | the same; two vectors q with bits 4 and 5 of vector 4·q + f in bits 2·f and 2·f + 1 |

Nothing is rounded, and but for 6-bit numbers, which become bytes, nothing grows. Rows beyond the last are packed from zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from anyshape.dialects.block_formats import Array, BlockFormat, block_format

PANEL_ROWS = 16
TILE_COLUMNS = 32
VECTOR = 4 * PANEL_ROWS
"""Bytes of a vector: four codes of each row."""
VECTORS = TILE_COLUMNS // 4
_HALVES = 2 * PANEL_ROWS


@dataclass(frozen=True)
class PackedLayout:
    """Where the parts of a unit are; offsets in bytes from its beginning."""

    format: BlockFormat

    @cached_property
    def has_minimum(self) -> bool:
        return self.format.minimum is not None

    @property
    def minima(self) -> int:
        return _HALVES

    @property
    def group_scales(self) -> int:
        return 2 * _HALVES if self.has_minimum else _HALVES

    @property
    def has_group_scales(self) -> bool:
        return self.format.group_scales != "none"

    @property
    def has_group_minima(self) -> bool:
        return self.format.group_scales == "six_bit"

    @property
    def group_minima(self) -> int:
        return self.group_scales + (self.format.groups * PANEL_ROWS if self.has_group_scales else 0)

    @property
    def tiles(self) -> int:
        """Offset of the first tile."""
        return self.group_minima + (self.format.groups * PANEL_ROWS if self.has_group_minima else 0)

    @property
    def high_bits(self) -> int:
        """Bits of a code above its low 4; 4 where codes are whole bytes."""
        return self.format.code_bits - 4

    @property
    def tile_bytes(self) -> int:
        if self.format.code_bits == 8:
            return VECTORS * VECTOR
        return (4 + self.high_bits) * VECTOR

    @property
    def tiles_of_unit(self) -> int:
        return self.format.elements // TILE_COLUMNS

    @property
    def unit_bytes(self) -> int:
        return self.tiles + self.tiles_of_unit * self.tile_bytes

    def panel_bytes(self, columns: int) -> int:
        """Bytes of a panel of rows of that many columns, a whole number of blocks."""
        return self.format.row_bytes(columns) // self.format.bytes * self.unit_bytes


@dataclass(frozen=True)
class PackedBlocks:
    """A weight in packed form: n rows of k columns, columns of the product that reads it."""

    n: int
    k: int
    format: str

    @property
    def layout(self) -> PackedLayout:
        return PackedLayout(block_format(self.format))

    @property
    def shape(self) -> tuple[int, int]:
        """Panels, and bytes of a panel."""
        return -(-self.n // PANEL_ROWS), self.layout.panel_bytes(self.k)


def unpack_panels(packed: PackedBlocks, panels: Array) -> Array:
    """The weights of panels, f32 [n, k]: the inverse of packing (`codegen.quantised.pack`), decoded."""
    layout, format = packed.layout, block_format(packed.format)
    units = np.ascontiguousarray(panels).view(np.uint8).reshape(len(panels), -1, layout.unit_bytes)
    count = units.shape[:2]

    def take(offset: int, size: int, dtype: str) -> Array:
        """Rows first: [panels, rows, units, …]."""
        part = np.ascontiguousarray(units[..., offset : offset + size]).view(dtype)
        return np.moveaxis(part.reshape(*count, -1, PANEL_ROWS), -1, 1)

    groups = format.groups * PANEL_ROWS
    scale = take(0, _HALVES, "<f2").astype(np.float32)
    if layout.has_group_scales:
        kind = "u1" if layout.has_group_minima else "i1"
        scale = scale * take(layout.group_scales, groups, kind).astype(np.float32)
    codes = _codes_of_tiles(layout, take(layout.tiles, layout.tiles_of_unit * layout.tile_bytes, "<u4"))
    codes = codes.reshape(*codes.shape[:3], format.groups, format.group)
    weights = scale[..., None] * (codes.astype(np.float32) - np.float32(format.zero_point))
    if layout.has_minimum:
        minimum = take(layout.minima, _HALVES, "<f2").astype(np.float32)
        if layout.has_group_minima:
            minimum = minimum * take(layout.group_minima, groups, "u1").astype(np.float32)
        weights = weights + (format.minimum_sign * minimum)[..., None]
    return weights.reshape(len(panels) * PANEL_ROWS, -1)[: packed.n]


def _codes_of_tiles(layout: PackedLayout, words: Array) -> Array:
    """Codes u8 [panels, rows, units, elements] from the vectors of tiles, words of four bytes."""
    stored = np.ascontiguousarray(words).view(np.uint8)
    stored = stored.reshape(*words.shape[:-1], layout.tiles_of_unit, -1, 4)
    if layout.format.code_bits == 8:
        return stored.reshape(*words.shape[:-1], -1)
    codes = np.concatenate([stored[..., :4, :] & 15, stored[..., :4, :] >> 4], axis=-2)
    high = layout.high_bits
    if high:
        shifts = high * np.arange(VECTORS // high, dtype=np.uint8)[:, None]
        planes = (stored[..., 4:, None, :] >> shifts) & ((1 << high) - 1)
        codes = codes | planes.reshape(codes.shape) << 4
    return codes.reshape(*words.shape[:-1], -1)


__all__ = [
    "PANEL_ROWS", "TILE_COLUMNS", "VECTOR", "VECTORS", "PackedBlocks", "PackedLayout", "unpack_panels",
]  # fmt: skip
