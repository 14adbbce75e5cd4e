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

Nothing is rounded, and but for 6-bit numbers, which become bytes, nothing grows. Rows beyond the last are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from anyshape.dialects.block_formats import Array, BitField, BlockFormat, block_format

PANEL_ROWS = 16
TILE_COLUMNS = 32
VECTOR = 4 * PANEL_ROWS
"""Bytes of a vector: four codes of each row."""
VECTORS = TILE_COLUMNS // 4
_HALVES = 2 * PANEL_ROWS
_WORD = np.dtype("<u4")
_BYTES_OF_WORD = np.uint32(0x01010101)
_SPREAD = np.uint32(0x00204081)


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


def pack_panels(format: BlockFormat, rows: Array, into: Array) -> None:
    """Fill panels, u8 [panels, panel bytes], from rows as files have them, u8 [rows, row bytes], at most 16 for each panel."""
    layout, panels = PackedLayout(format), len(into)
    missing = panels * PANEL_ROWS - len(rows)
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, rows.shape[1]), np.uint8)])
    blocks = format.blocks_of(rows).reshape(panels, PANEL_ROWS, -1, format.bytes)
    units = into.reshape(panels, -1, layout.unit_bytes)

    def put(offset: int, values: Array) -> None:
        """Values [panels, rows, units, …] with their rows last, at a byte of each unit."""
        lasting = np.moveaxis(values, 1, -1)
        size = lasting.itemsize * prod(lasting.shape[2:])
        target = units[..., offset : offset + size].view(values.dtype).reshape(lasting.shape)
        np.copyto(target, lasting)

    put(0, _halves(blocks, format.scale))
    if format.minimum is not None:
        put(layout.minima, _halves(blocks, format.minimum))
    if layout.has_group_scales:
        scales, minima = format.group_numbers(blocks)
        put(layout.group_scales, scales)
        if layout.has_group_minima:
            put(layout.group_minima, minima)
    low, *others = format.fields
    if format.code_bits == 8 or (low.run == TILE_COLUMNS // 2 and not others):
        # Files have the bytes of tiles, 4-bit codes paired as tiles pair them.
        put(layout.tiles, _words(blocks, low.offset, layout.tiles_of_unit * layout.tile_bytes // PANEL_ROWS))
        if format.code_bits == 8:
            units[..., layout.tiles :].view(_WORD)[...] ^= 0x80 * _BYTES_OF_WORD
        return
    tiles = units[..., layout.tiles :].view(_WORD).reshape(*units.shape[:2], -1, PANEL_ROWS)
    for number, words in enumerate(_tile_words(format, blocks)):
        tiles[:, :, number] = words


def _halves(blocks: Array, offset: int) -> Array:
    """The f16 at a byte of each block, in its place."""
    return blocks[..., offset : offset + 2].view("<f2")[..., 0]


def _words(blocks: Array, offset: int, size: int) -> Array:
    """Bytes of each block as words of four, in their places: [panels, rows, units, words]."""
    return blocks[..., offset : offset + size].view(_WORD)


def _tile_words(format: BlockFormat, blocks: Array) -> list[Array]:
    """What is stored of codes that have to be put together, vector by vector of all tiles: words of four columns, each [panels, units,
    rows]."""
    codes, *high = (_code_words(format, field, blocks) for field in format.fields)
    stored: list[Array] = []
    for tile in range(0, len(codes), VECTORS):
        stored += [codes[tile + vector] | codes[tile + vector + 4] << 4 for vector in range(4)]
        for field, words in zip(format.fields[1:], high, strict=True):
            for first in range(tile, tile + VECTORS, field.ways):
                plane = words[first]
                for way in range(1, field.ways):
                    plane = plane | words[first + way] << field.bits * way
                stored.append(plane)
    return stored


def _code_words(format: BlockFormat, field: BitField, blocks: Array) -> list[Array]:
    """A field of the codes, a byte each, for every four columns."""
    # One word of every block after another: operations on them are long whatever the format.
    words = np.ascontiguousarray(_words(blocks, field.offset, format.elements // field.ways).transpose(3, 0, 2, 1))
    if field.run == 1:
        # Bit j of four goes to byte j: the product has them at 0, 7, 14, 21 places more.
        (bits,) = words
        return [((bits >> 4 * four & 15) * _SPREAD) & _BYTES_OF_WORD for four in range(VECTORS)]
    codes: list[Array] = []
    for column in range(0, format.elements, 4):
        run, place = divmod(column, field.run)
        word = words[(run // field.ways * field.run + place) // 4]
        codes.append(word >> field.bits * (run % field.ways) & field.mask * _BYTES_OF_WORD)
    return codes


def unpack_panels(packed: PackedBlocks, panels: Array) -> Array:
    """The weights of panels, f32 [n, k]: the inverse of `pack_panels`, decoded."""
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
    """Codes u8 [panels, rows, units, elements] from the words of `_tile_words`."""
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
    "PANEL_ROWS", "TILE_COLUMNS", "VECTOR", "VECTORS", "PackedBlocks", "PackedLayout", "pack_panels", "unpack_panels",
]  # fmt: skip
