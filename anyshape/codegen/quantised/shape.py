"""What a product with block-quantised weights looks like on one machine: its method, and how rounded activations lie in scratch.

A row of the left-hand side is rounded in pieces of 32 elements, with one scale for each or for some neighbours. Up to `max_rows` rows
make a register tile, and the pieces of a tile's rows lie together, in the order in which the tile reads them:

| part | bytes | what |
|---|---|---|
| codes | `code_bytes` of each row | 32 integers, in the method's order |
| scales | 4 of each row | f32: what one step of the integers is worth |
| sums | 4 of each row and group | see `BlockShape.sums` |

Where neighbours share a scale, each piece of them holds it.

| method | needs | integers of an activation | a step of a tile |
|---|---|---|---|
| `bytes` | VNNI | 32 bytes, or 32 upper bytes and 32 lower bytes | unsigned weight · signed byte, four to a sum |
| `shorts` | AVX2 or AVX-512BW, codes of 4 bits | as `bytes` | the same, two to a sum of 16 bits, which holds 32 columns |
| `pairs` | AVX2 or AVX-512BW | 16 bits; of four neighbours the even ones, then the odd ones | weights widened to 16 bits, two to a sum |
| `plain` | nothing | 16 bits, in order | weights and activations widened to 32 bits |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anyshape.dialects.block_formats import block_format
from anyshape.dialects.packed_blocks import PANEL_ROWS, TILE_COLUMNS, VECTORS, PackedLayout
from anyshape.support.machine import Machine

Activations = Literal["int16", "int8"]
Method = Literal["bytes", "shorts", "pairs", "plain"]
Sums = Literal["none", "integer", "real"]

_LARGEST = {"int16": 127 * 256 + 127, "int8": 127}
"""The largest integer that an activation becomes: of 16 bits, the one whose upper and lower byte both are 127."""
_SHORT, _BYTE = 1 << 15, 1 << 7
"""What integers of 16 and 8 bits with a sign are below, or at in magnitude."""


@dataclass(frozen=True)
class BlockShape:
    """The tiles for one format on one machine.

    Args:
        layout: the packed form of the weights.
        activations: integers that the left-hand side is rounded to.
        lanes: sums of a vector register.
        registers: vector registers.
        method: how a step multiplies.
        features: instruction-set extensions that code may count on.
    """

    layout: PackedLayout
    activations: Activations
    lanes: int
    registers: int
    method: Method
    features: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What symbols of these tiles are called."""
        return f"{self.layout.format.name}_{self.activations}"

    @property
    def largest(self) -> int:
        return _LARGEST[self.activations]

    @property
    def parts(self) -> int:
        """Vectors that the 16 rows of a panel take."""
        return PANEL_ROWS // self.lanes

    def parts_together(self, rows: int) -> int:
        """Vectors of a panel's rows that a tile of `rows` rows multiplies at once: all, where their sums take a quarter of the
        registers, since each activation is then fetched once for them. More sums would be put aside between pieces."""
        fits = self.method == "shorts" and 4 * self.parts * self.planes * rows <= self.registers
        return self.parts if fits else 1

    @property
    def max_rows(self) -> int:
        """Rows of the largest register tile: two or three vectors of sums of each fit the registers."""
        return 6 if self.registers >= 32 else 4

    @property
    def planes(self) -> int:
        """Products that make up one of an activation."""
        return 2 if self.in_bytes and self.activations == "int16" else 1

    @property
    def in_bytes(self) -> bool:
        """Activations are bytes; those of 16 bits a plane of upper and one of lower bytes."""
        return self.method in ("bytes", "shorts")

    @property
    def scale_pieces(self) -> int:
        """Neighbouring pieces of a row that share a scale, so that a tile multiplies their sum by it and not each.

        Two bytes are exact enough for it: the error is at most that of the largest of 128 elements, 2^-15 of it.
        """
        return 4 if self.planes == 2 and (self.layout.tiles_of_unit == 1 or self.layout.tiles_of_unit % 4 == 0) else 1

    @property
    def code_bytes(self) -> int:
        """Bytes of the integers of 32 activations."""
        return TILE_COLUMNS * (self.planes if self.in_bytes else 2)

    @property
    def groups(self) -> int:
        """Groups of 32 columns that have scales of their own."""
        return TILE_COLUMNS // min(TILE_COLUMNS, self.layout.format.group)

    @property
    def sums(self) -> Sums:
        """What is kept of the sum Σ of a row's 32 integers: for a zero point −z·Σ of each group, an integer; for minima Σ in f32, times
        the scale where pieces have scales of their own."""
        if self.layout.has_minimum:
            return "real"
        return "integer" if self.layout.format.zero_point else "none"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row's 32 activations with scale and sums."""
        return self.code_bytes + 4 + (4 * self.groups if self.sums != "none" else 0)

    def scale_offset(self, rows: int, row: int) -> int:
        """Bytes from the pieces of a tile's rows to a row's scale."""
        return rows * self.code_bytes + 4 * row

    def sum_offset(self, rows: int, row: int, group: int = 0) -> int:
        """The same to a row's sum."""
        return rows * (self.code_bytes + 4) + 4 * (row * self.groups + group)


def block_shape(format: str, activations: Activations, machine: Machine) -> BlockShape:
    """The tiles for a format; ArgumentError for an unknown one."""
    lanes = min(PANEL_ROWS, machine.lanes(32))
    layout = PackedLayout(block_format(format))
    return BlockShape(
        layout, activations, lanes, max(machine.registers, 8), _method(layout, lanes, machine), machine.features
    )


def _fits_shorts(layout: PackedLayout) -> bool:
    """Whether 16 bits hold a word's sums of 32 columns, two products of each of its four columns at a time, whatever the codes."""
    largest = ((1 << layout.format.code_bits) - 1) * _BYTE
    return 2 * VECTORS * largest < _SHORT


def _method(layout: PackedLayout, lanes: int, machine: Machine) -> Method:
    has = machine.features.__contains__
    if machine.architecture == "x86_64":
        if has("avx512vnni") and (lanes == 16 or (lanes == 8 and has("avx512vl"))):
            return "bytes"
        if has({16: "avx512bw", 8: "avx2"}.get(lanes, "")):
            return "shorts" if _fits_shorts(layout) else "pairs"
    return "plain"


__all__ = ["Activations", "BlockShape", "Method", "Sums", "block_shape"]
