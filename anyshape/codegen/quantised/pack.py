"""Repacking block-quantised weights: rows of blocks as files have them, into the panels that tiles read.

`as_pack_blocks_<format>` fills panels as `dialects.packed_blocks` lays them out. Of a unit, a block of each of 16 rows, it takes four rows
at a time:

    d and dmin                           copied
    words of four bytes of the blocks    transposed, four of each row at a time: a word of every row is a vector then

Where the bytes of a block are those of a tile, that is all; bits of their own, one for each column, change places within a word. Otherwise
the words of the blocks stay in scratch, and tiles are put together from them, four columns of each row at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.symbols import pack_blocks_name
from anyshape.codegen.tiles.pack import transpose_square
from anyshape.dialects.block_formats import BitField, BlockFormat
from anyshape.dialects.packed_blocks import PANEL_ROWS, TILE_COLUMNS, VECTOR, VECTORS, PackedLayout

_SIDE = 4
"""Rows of a vector, and words of a row that are transposed at a time: 128 bits, which every machine has. Memory is slower than these."""
_PIECE = 4 * _SIDE
"""Bytes of these words."""
_BYTES_OF_WORD = 0x01010101
_HALF = VECTORS // 2
_EXCHANGES = ((4, 1), (3, 0), (2, 1), (1, 0))
"""Digits of the numbers of a word's bits that change places, one pair after another, so that bit 4·v + j becomes bit 8·j + v."""


def pack_blocks_arguments(b: Builder) -> list[Type]:
    """(first row, bytes from row to row, rows, panels)."""
    return [b.ptr, b.i64, b.i64, b.ptr]


def emit_pack_blocks(module: ModuleBuilder, layout: PackedLayout) -> None:
    """Define `pack_blocks_name(format)`: fill the panels that so many dense rows take; rows that the last panel lacks are taken for zeros.

    Nothing is aligned to more than a byte, and nothing outside the rows and panels is touched. Each part that multiplies by a format
    defines this function, whatever its activations.
    """
    b, format = Builder(), layout.format
    zeros = module.constant_bytes(bytes(format.bytes))
    with module.function(pack_blocks_name(format.name), pack_blocks_arguments(b), shared=True) as f:
        source, row_bytes, rows, target = f.args
        packer = _Packer(b, layout, b.address_of(zeros), b.alloca(b.i32, _SIDE * (format.bytes // 4)))
        units = b.div(row_bytes, format.bytes)
        with b.for_(0, rows, PANEL_ROWS) as panel, b.for_(0, units) as unit, b.for_(0, PANEL_ROWS, _SIDE) as part:
            first = b.add(panel.index, part.index)
            column = b.offset(source, b.i8, b.mul(unit.index, format.bytes))
            blocks: list[Value] = []
            for row in (b.add(first, lane) for lane in range(_SIDE)):
                there = b.offset(column, b.i8, b.mul(row, row_bytes))
                blocks.append(b.select(b.cmp("slt", row, rows), there, packer.zeros))
            number = b.add(b.mul(b.div(panel.index, PANEL_ROWS), units), unit.index)
            packer.emit(blocks, b.offset(target, b.i8, b.mul(number, layout.unit_bytes)), part.index)


@dataclass(frozen=True)
class _Packer:
    """Packs a block of each of `_SIDE` rows.

    Args:
        zeros: a block of zeros.
        scratch: room for the words of these blocks, word by word of all rows.
    """

    b: Builder
    layout: PackedLayout
    zeros: Value
    scratch: Value

    @property
    def format(self) -> BlockFormat:
        return self.layout.format

    def emit(self, blocks: list[Value], unit: Value, row: Value) -> None:
        """Fill the lanes of a unit from `row` on."""
        b, layout, format = self.b, self.layout, self.format
        self._copy_halves(blocks, format.scale, b.offset(unit, b.i16, row))
        if format.minimum is not None:
            self._copy_halves(blocks, format.minimum, b.offset(b.offset(unit, b.i8, layout.minima), b.i16, row))
        tiles = b.offset(b.offset(unit, b.i8, layout.tiles), b.i32, row)
        if format.elements == TILE_COLUMNS:
            self._copy_tile(blocks, tiles)
            return
        with b.for_(0, format.bytes // _PIECE) as piece:
            words = self._transposed(blocks, b.mul(piece.index, _PIECE))
            self._store(words, b.offset(self.scratch, b.i32, b.mul(piece.index, _SIDE * _SIDE)), _SIDE)
        self._put_groups(b.offset(b.offset(unit, b.i8, layout.group_scales), b.i8, row))
        with b.for_(0, layout.tiles_of_unit) as tile:
            self._put_tile(tile.index, b.offset(tiles, b.i8, b.mul(tile.index, layout.tile_bytes)))

    def _copy_halves(self, blocks: list[Value], offset: int, target: Value) -> None:
        """The f16 at a byte of each block, as bits, so that no number changes."""
        for lane, block in enumerate(blocks):
            half = self.b.load(self.b.offset(block, self.b.i8, offset), self.b.i16, alignment=1)
            self.b.store(half, target, lane, alignment=1)

    def _transposed(self, blocks: list[Value], offset: int | Value) -> list[Value]:
        """Four words from a byte on: of each a vector of all blocks."""
        b = self.b
        return transpose_square(
            b, [b.load(b.offset(block, b.i8, offset), b.i32, width=_SIDE, alignment=1) for block in blocks]
        )

    def _store(self, words: list[Value], target: Value, step: int) -> None:
        for number, each in enumerate(words):
            self.b.store(each, target, number * step, alignment=1)

    # ---- blocks of one tile --------------------------------------------------------------------------------------

    def _copy_tile(self, blocks: list[Value], tile: Value) -> None:
        """A tile whose first field files have as tiles do."""
        b, (low, *high) = self.b, self.format.fields
        assert low.run * low.ways == TILE_COLUMNS
        size = TILE_COLUMNS // low.ways
        for at in range(0, size, _PIECE):
            words = self._transposed(blocks, low.offset + at)
            if self.format.is_signed:
                words = [b.xor(each, 0x80 * _BYTES_OF_WORD) for each in words]
            self._store(words, b.offset(tile, b.i8, at * PANEL_ROWS), PANEL_ROWS)
        for field in high:
            # Bit e of a word is that of column e; in tiles the bits of four neighbours are in the four bytes, at one place.
            assert (field.bits, field.run) == (1, 1)
            bits = b.splat(0, b.i32, _SIDE)
            for lane, block in enumerate(blocks):
                word = b.load(b.offset(block, b.i8, field.offset), b.i32, alignment=1)
                bits = b.insert(word, bits, lane)
            for upper, lower in _EXCHANGES:
                bits = _exchanged(b, bits, upper, lower)
            b.store(bits, b.offset(tile, b.i8, size * PANEL_ROWS), alignment=1)

    # ---- blocks of several tiles ---------------------------------------------------------------------------------

    def word(self, offset: int | Value) -> Value:
        """The word of each row at a byte of the blocks."""
        return self.b.load(self.scratch, self.b.i32, offset, width=_SIDE)

    def _put_groups(self, target: Value) -> None:
        """Scales of groups, then minima, a byte each: those of four groups are in a word."""
        b, format = self.b, self.format
        first, count = format.group_offset, format.groups
        if format.group_scales == "six_bit":
            first, count = 0, 2 * format.groups
            self._store(self._six_bit_groups(), self.scratch, _SIDE)
        with b.for_(0, count) as group:
            four, byte = b.div(group.index, 4, signed=False), b.rem(group.index, 4, signed=False)
            word = self.word(b.add(b.mul(four, 4), first))
            number = b.shr(word, b.broadcast(b.convert(b.mul(byte, 8), b.i32), _SIDE))
            b.store(b.convert(number, b.i8), target, b.mul(group.index, PANEL_ROWS))

    def _six_bit_groups(self) -> list[Value]:
        """Eight scales and eight minima as bytes: `BlockFormat.group_numbers`."""
        b, first = self.b, self.format.group_offset
        both = self.word(first + 8)
        numbers: list[Value] = []
        for word, lower in ((self.word(first), both), (self.word(first + 4), b.shr(both, 4))):
            upper = b.and_(b.shr(word, 2), 0x30 * _BYTES_OF_WORD)
            numbers += [
                b.and_(word, 0x3F * _BYTES_OF_WORD), b.or_(b.and_(lower, 0x0F * _BYTES_OF_WORD), upper)
            ]  # fmt: skip
        return numbers

    def _put_tile(self, tile: Value, target: Value) -> None:
        b, (low, *high) = self.b, self.format.fields
        codes = _Codes.of(self, low, tile)
        with b.for_(0, _HALF) as vector:
            stored = b.or_(codes.take(vector.index), b.shl(codes.take(b.add(vector.index, _HALF)), low.bits))
            b.store(stored, target, b.mul(vector.index, PANEL_ROWS), alignment=1)
        target = b.offset(target, b.i8, _HALF * VECTOR)
        for field in high:
            codes = _Codes.of(self, field, tile)
            with b.for_(0, VECTORS // field.ways) as plane:
                last = b.add(b.mul(plane.index, field.ways), field.ways - 1)
                with b.for_(1, field.ways, 1, [codes.take(last)]) as way:
                    way.yield_(b.or_(b.shl(way.args[0], field.bits), codes.take(b.sub(last, way.index))))
                b.store(way.results[0], target, b.mul(plane.index, PANEL_ROWS), alignment=1)


@dataclass(frozen=True)
class _Codes:
    """A field of the codes of a tile: the byte of the blocks from which it lies, and places to shift."""

    packer: _Packer
    field: BitField
    first: Value
    shift: Value

    @staticmethod
    def of(packer: _Packer, field: BitField, tile: Value) -> _Codes:
        """The columns of a tile are neighbours, and at the same bits of their bytes, since runs are whole tiles: `BitField`."""
        b, tiles = packer.b, field.run // TILE_COLUMNS
        run, place = b.div(tile, tiles, signed=False), b.rem(tile, tiles, signed=False)
        behind = b.mul(b.div(run, field.ways, signed=False), field.run)
        first = b.add(b.add(behind, b.mul(place, TILE_COLUMNS)), field.offset)
        shift = b.convert(b.mul(b.rem(run, field.ways, signed=False), field.bits), b.i32)
        return _Codes(packer, field, first, b.broadcast(shift, _SIDE))

    def take(self, vector: Value) -> Value:
        """Four columns, number `vector`, of each row: a byte each."""
        b = self.packer.b
        word = self.packer.word(b.add(self.first, b.mul(vector, 4)))
        return b.and_(b.shr(word, self.shift), self.field.mask * _BYTES_OF_WORD)


def _exchanged(b: Builder, words: Value, upper: int, lower: int) -> Value:
    """Words in which each bit is where it belongs when two binary digits of its number change places."""
    distance = (1 << upper) - (1 << lower)
    places = sum(1 << bit for bit in range(32) if bit >> lower & 1 and not bit >> upper & 1)
    moved = b.and_(b.xor(words, b.shr(words, distance)), places)
    return b.xor(words, b.xor(moved, b.shl(moved, distance)))


__all__ = ["emit_pack_blocks", "pack_blocks_arguments"]
