"""Packing of block-quantised weights by numpy: what the packed form is, and what machine code is compared with."""

from __future__ import annotations

from math import prod

import numpy as np

from anyshape.dialects.block_formats import Array, BitField, BlockFormat
from anyshape.dialects.packed_blocks import PANEL_ROWS, TILE_COLUMNS, VECTORS, PackedLayout

_WORD = np.dtype("<u4")
_BYTES_OF_WORD = np.uint32(0x01010101)
_SPREAD = np.uint32(0x00204081)


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


__all__ = ["pack_panels"]
