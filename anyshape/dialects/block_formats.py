"""Block-quantised weights as values: one row for each GGUF format, with where every part of a block lies.

A row of a matrix is a run of blocks, so a matrix of `columns` columns is bytes [rows, columns / elements · bytes]. With u the unsigned code
of an element, all formats are one formula,

    w = s · (u − z) + m,    s = d · (scale of the element's group),    m = ± dmin · (minimum of the element's group),

where the zero point z is a number of the format, group scales are 1 where a format has none, and m is 0 where it has no minimum.
Source: the type table of GGML (`ggml-common.h`) and the Python package `gguf`, which tests compare with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from anyshape.support.errors import ArgumentError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
GroupScales = Literal["none", "six_bit", "signed_byte"]
"""How a block's groups are scaled: not at all; by 6-bit scales and minima, 8 of each in 12 bytes; by a signed byte each."""

SIX_BIT_GROUPS = 8


@dataclass(frozen=True)
class BitField:
    """Parts of codes, `ways` = 8 / bits to a byte.

    Element e is in byte `offset + e // (run · ways) · run + e % run`, from bit `bits · (e // run % ways)` on.
    """

    offset: int
    bits: int
    run: int

    @property
    def ways(self) -> int:
        """Elements of a byte."""
        return 8 // self.bits

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def read(self, blocks: Array, elements: int) -> Array:
        """The field of every element; blocks are u8 [..., bytes], the result is u8 [..., elements]."""
        span = elements // self.ways
        raw = blocks[..., self.offset : self.offset + span]
        runs = raw.reshape(*raw.shape[:-1], span // self.run, 1, self.run)
        shifts = (self.bits * np.arange(self.ways, dtype=np.uint8))[:, None]
        return ((runs >> shifts) & self.mask).reshape(*raw.shape[:-1], elements)


@dataclass(frozen=True)
class BlockFormat:
    """One way of storing `elements` weights in `bytes` bytes.

    Args:
        name: as graphs and files call it, `q4_1`.
        elements, bytes: of a block.
        fields: parts of a code, low bits first.
        zero_point: what is subtracted from a code; signed bytes are read as unsigned ones that are 128 larger (`is_signed`).
        scale: byte at which the f16 d is.
        minimum: byte at which the f16 dmin is; None where a format has no minimum.
        minimum_sign: the sign of dmin in the formula.
        group: elements that share a scale.
        group_scales: how groups are scaled, from byte `group_offset` on.
        is_signed: codes are signed bytes.
    """

    name: str
    elements: int
    bytes: int
    fields: tuple[BitField, ...]
    zero_point: int = 0
    scale: int = 0
    minimum: int | None = None
    minimum_sign: int = 1
    group: int = 32
    group_scales: GroupScales = "none"
    group_offset: int = 0
    is_signed: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def code_bits(self) -> int:
        """Bits of a code."""
        return sum(field.bits for field in self.fields)

    @property
    def groups(self) -> int:
        """Groups of a block."""
        return self.elements // self.group

    def columns(self, row_bytes: int) -> int:
        """Elements of a row of that many bytes; ArgumentError when it is no whole number of blocks."""
        if row_bytes % self.bytes:
            raise ArgumentError(
                f"a row of {self.name} is no whole number of blocks", got=f"{row_bytes} bytes",
                expected=f"a multiple of {self.bytes} bytes, {self.elements} elements each",
            )  # fmt: skip
        return row_bytes // self.bytes * self.elements

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of that many elements; ArgumentError when they are no whole number of blocks."""
        if columns % self.elements:
            raise ArgumentError(
                f"a row of {self.name} is no whole number of blocks", got=f"{columns} elements",
                expected=f"a multiple of {self.elements}", remedy="keep such a tensor in f16 or f32",
            )  # fmt: skip
        return columns // self.elements * self.bytes

    def blocks_of(self, rows: Array) -> Array:
        """Rows as blocks: u8 [..., row bytes] -> u8 [..., blocks, bytes]."""
        self.columns(rows.shape[-1])
        return rows.reshape(*rows.shape[:-1], rows.shape[-1] // self.bytes, self.bytes)

    def codes(self, blocks: Array) -> Array:
        """u of every element: u8 [..., bytes] -> u8 [..., elements]."""
        if self.is_signed:
            (field,) = self.fields
            return blocks[..., field.offset : field.offset + self.elements] ^ 0x80
        code = self.fields[0].read(blocks, self.elements)
        bits = self.fields[0].bits
        for field in self.fields[1:]:
            code = code | field.read(blocks, self.elements) << bits
            bits += field.bits
        return code

    def group_numbers(self, blocks: Array) -> tuple[Array, Array]:
        """Scales and minima of groups as stored, [..., groups]: u8, or i8 where they are signed; no scales are ones."""
        match self.group_scales:
            case "none":
                ones = np.ones((*blocks.shape[:-1], self.groups), np.uint8)
                return ones, ones
            case "signed_byte":
                scales = blocks[..., self.group_offset : self.group_offset + self.groups].view(np.int8)
                return scales, np.zeros_like(scales)
            case "six_bit":
                a, b, c = (blocks[..., self.group_offset + at : self.group_offset + at + 4] for at in (0, 4, 8))
                scales = np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=-1)
                return scales, np.concatenate([b & 63, (c >> 4) | (b >> 6) << 4], axis=-1)

    def halves(self, blocks: Array, offset: int) -> Array:
        """The f16 at a byte of each block, as f16 [...]."""
        return np.ascontiguousarray(blocks[..., offset : offset + 2]).view("<f2")[..., 0]

    def decode(self, rows: Array) -> Array:
        """The weights of rows: u8 [..., row bytes] -> f32 [..., columns], each operation rounded to f32."""
        blocks = self.blocks_of(rows)
        scales, minima = self.group_numbers(blocks)
        codes = self.codes(blocks).reshape(*blocks.shape[:-1], self.groups, self.group)
        with np.errstate(all="ignore"):
            scale = self.halves(blocks, self.scale).astype(np.float32)[..., None] * scales
            weights = scale[..., None] * (codes.astype(np.float32) - np.float32(self.zero_point))
            if self.minimum is not None:
                minimum = self.halves(blocks, self.minimum).astype(np.float32)[..., None] * minima
                weights = weights + (self.minimum_sign * minimum)[..., None]
        return weights.reshape(*rows.shape[:-1], self.columns(rows.shape[-1])).astype(np.float32)


_FORMATS = (
    BlockFormat("q4_0", 32, 18, (BitField(2, 4, 16),), zero_point=8),
    BlockFormat("q4_1", 32, 20, (BitField(4, 4, 16),), minimum=2),
    BlockFormat("q5_0", 32, 22, (BitField(6, 4, 16), BitField(2, 1, 1)), zero_point=16),
    BlockFormat("q5_1", 32, 24, (BitField(8, 4, 16), BitField(4, 1, 1)), minimum=2),
    BlockFormat("q8_0", 32, 34, (BitField(2, 8, 32),), zero_point=128, is_signed=True),
    BlockFormat(
        "q4_k", 256, 144, (BitField(16, 4, 32),),
        minimum=2, minimum_sign=-1, group_scales="six_bit", group_offset=4,
    ),
    BlockFormat(
        "q5_k", 256, 176, (BitField(48, 4, 32), BitField(16, 1, 32)),
        minimum=2, minimum_sign=-1, group_scales="six_bit", group_offset=4,
    ),
    BlockFormat(
        "q6_k", 256, 210, (BitField(0, 4, 64), BitField(128, 2, 32)),
        zero_point=32, scale=208, group=16, group_scales="signed_byte", group_offset=192,
    ),
)  # fmt: skip

FORMATS: Mapping[str, BlockFormat] = MappingProxyType({each.name: each for each in _FORMATS})
"""Every format by its name."""


def block_format(name: str) -> BlockFormat:
    """The format of that name; ArgumentError that lists the known ones."""
    found = FORMATS.get(name)
    if found is None:
        raise ArgumentError("unknown block format", got=repr(name), expected=", ".join(FORMATS))
    return found


__all__ = ["FORMATS", "SIX_BIT_GROUPS", "BitField", "BlockFormat", "GroupScales", "block_format"]
