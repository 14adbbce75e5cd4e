"""Reading packed weights into registers: codes as unsigned bytes, scales and minima as f32."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.quantised.shape import BlockShape
from anyshape.codegen.tiles.product import vector_bitcast
from anyshape.dialects.packed_blocks import PANEL_ROWS, VECTOR, VECTORS

_BYTES_OF_WORD = 0x01010101


@dataclass(frozen=True)
class UnitNumbers:
    """d and dmin of the rows in a vector, f32; dmin has the sign with which it is added."""

    scale: Value
    minimum: Value | None


@dataclass(frozen=True)
class TileWeights:
    """32 columns: where their codes begin, scales of each group of columns, minima."""

    codes: Value
    scales: list[Value]
    minimum: Value | None


@dataclass(frozen=True)
class WeightReader:
    """Reads the rows of a panel that are in vector `part`."""

    b: Builder
    shape: BlockShape
    part: int

    def unit(self, unit: Value) -> UnitNumbers:
        """The numbers of a unit."""
        layout = self.shape.layout
        scale, minimum = self._halves(unit, 0), None
        if layout.has_minimum:
            minimum = self._halves(unit, layout.minima)
            minimum = minimum if layout.format.minimum_sign > 0 else self.b.neg(minimum)
        return UnitNumbers(scale, minimum)

    def tile(self, unit: Value, numbers: UnitNumbers, number: int | Value) -> TileWeights:
        """Tile `number` of a unit."""
        b, layout = self.b, self.shape.layout
        tile = b.offset(b.offset(unit, b.i8, layout.tiles), b.i8, _times(b, number, layout.tile_bytes))
        scales, minimum = [numbers.scale] * self.shape.groups, numbers.minimum
        if layout.has_group_scales:
            first = _times(b, number, self.shape.groups * PANEL_ROWS)
            at = b.offset(b.offset(unit, b.i8, layout.group_scales), b.i8, first)
            signed = not layout.has_group_minima
            scales = [b.mul(scale, self._group(at, group, signed=signed)) for group, scale in enumerate(scales)]
            if layout.has_group_minima:
                at = b.offset(b.offset(unit, b.i8, layout.group_minima), b.i8, first)
                assert minimum is not None
                minimum = b.mul(minimum, self._group(at, 0, signed=False))
        return TileWeights(tile, scales, minimum)

    def _halves(self, unit: Value, offset: int) -> Value:
        b, lanes = self.b, self.shape.lanes
        halves = b.load(b.offset(unit, b.i8, offset), b.f16, self.part * lanes, width=lanes)
        return b.convert(halves, b.f32)

    def _group(self, at: Value, group: int, *, signed: bool) -> Value:
        """A byte of each row as f32."""
        b, lanes = self.b, self.shape.lanes
        bytes_ = b.load(at, b.i8, group * PANEL_ROWS + self.part * lanes, width=lanes)
        return b.convert(b.convert(bytes_, b.i32, signed=signed), b.f32)

    def _words(self, tile: Value, vector: int | Value) -> Value:
        b, lanes = self.b, self.shape.lanes
        words = b.offset(tile, b.i8, _times(b, vector, VECTOR))
        return b.load(words, b.i32, self.part * lanes, width=lanes)

    def codes(self, tile: Value, vector: int | Value) -> Value:
        """The codes of four columns, number `vector`, as words of four unsigned bytes."""
        b, layout = self.b, self.shape.layout
        if layout.format.code_bits == 8:
            return self._words(tile, vector)
        half, stored = _divided(b, vector, 4)
        codes = b.and_(self._shifted(self._words(tile, stored), _times(b, half, 4)), 15 * _BYTES_OF_WORD)
        bits = layout.high_bits
        if not bits:
            return codes
        plane, way = _divided(b, vector, VECTORS // bits)
        words = self._words(b.offset(tile, b.i8, 4 * VECTOR), plane)
        high = b.shl(self._shifted(words, _times(b, way, bits)), 4)
        return b.or_(b.and_(high, ((1 << bits) - 1) * 16 * _BYTES_OF_WORD), codes)

    def both_codes(self, tile: Value, stored: Value) -> list[Value]:
        """The codes of the two vectors that lie in one, where codes have 4 bits: of number `stored` and of the one VECTORS / 2 behind."""
        b = self.b
        assert self.shape.layout.format.code_bits == 4
        words, mask = self._words(tile, stored), 15 * _BYTES_OF_WORD
        return [b.and_(words, mask), b.and_(b.shr(words, 4), mask)]

    def _shifted(self, words: Value, places: int | Value) -> Value:
        """Shifted right; what crosses a byte's border is masked afterwards."""
        b = self.b
        if isinstance(places, int):
            return b.shr(words, places) if places else words
        return b.shr(words, b.broadcast(b.convert(places, b.i32), b.width(words)))


@dataclass(frozen=True)
class PanelReader:
    """Reads the rows of a panel that are in some of its vectors."""

    parts: list[WeightReader]

    def unit(self, unit: Value) -> list[UnitNumbers]:
        """The numbers of a unit, for each vector."""
        return [part.unit(unit) for part in self.parts]

    def tile(self, unit: Value, numbers: list[UnitNumbers], number: int | Value) -> list[TileWeights]:
        """Tile `number` of a unit, for each vector."""
        return [part.tile(unit, own, number) for part, own in zip(self.parts, numbers, strict=True)]


def _divided(b: Builder, number: int | Value, divisor: int) -> tuple[int | Value, int | Value]:
    """(quotient, remainder)."""
    if isinstance(number, int):
        return divmod(number, divisor)
    return b.div(number, divisor, signed=False), b.rem(number, divisor, signed=False)


def _times(b: Builder, number: int | Value, step: int) -> int | Value:
    return number * step if isinstance(number, int) else b.mul(number, step)


def as_bytes(b: Builder, words: Value) -> Value:
    """Words of four bytes as bytes."""
    lanes = b.width(words)
    assert lanes is not None
    return vector_bitcast(b, words, b.i8, 4 * lanes)


__all__ = ["PanelReader", "TileWeights", "UnitNumbers", "WeightReader", "as_bytes"]
