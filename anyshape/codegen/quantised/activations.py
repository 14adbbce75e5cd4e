"""Rounding rows of the left-hand side to integers: for each 32 elements x (or `scale_pieces` times 32), scale s = max |x| / largest
and q = round(x / s).

A NaN among them makes the scale NaN and an infinity infinite, and so no result of the row is finite; where all are below 1e-33 they are
taken for zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.quantised.shape import BlockShape
from anyshape.dialects.packed_blocks import TILE_COLUMNS

_SMALLEST = 1e-33


def round_name(shape: BlockShape) -> str:
    """The symbol of `emit_round`."""
    return f"as_round_{shape.name}"


def round_arguments(b: Builder) -> list[Type]:
    """(row, pieces, where the row's codes, scale and first sum go, bytes from one piece to the next)."""
    return [b.ptr, b.i64, b.ptr, b.ptr, b.ptr, b.i64]


def emit_round(module: ModuleBuilder, shape: BlockShape) -> None:
    """Define `round_name(shape)`: a row of f32, `pieces` times 32, as integers, with scales and sums."""
    b = Builder()
    with module.function(round_name(shape), round_arguments(b), internal=True) as f:
        row, pieces, codes, scale, sums, step = f.args
        rounding = _Rounding(b, shape)
        with b.for_(0, pieces, shape.scale_pieces) as loop:
            away = b.mul(loop.index, step)
            source = b.offset(row, b.f32, b.mul(loop.index, TILE_COLUMNS))
            places = [b.offset(pointer, b.i8, away) for pointer in (codes, scale, sums)]
            if shape.scale_pieces == 1:
                rounding.piece(source, rounding.scale_of(rounding.magnitude(source)), *places)
            else:
                count = b.minimum(b.sub(pieces, loop.index), shape.scale_pieces)
                rounding.pieces(source, count, places, step)


@dataclass(frozen=True)
class _Rounding:
    b: Builder
    shape: BlockShape

    @property
    def lanes(self) -> int:
        return self.shape.lanes

    def pieces(self, source: Value, count: Value, places: list[Value], step: Value) -> None:
        """Round `count` pieces by one scale; a piece's places are `step` bytes behind those of the piece before."""
        b = self.b
        with b.for_(0, count, 1, [b.splat(0, b.i32, self.lanes)]) as loop:
            magnitude = self.magnitude(b.offset(source, b.f32, b.mul(loop.index, TILE_COLUMNS)))
            loop.yield_(b.maximum(magnitude, loop.args[0]))
        scale = self.scale_of(loop.results[0])
        with b.for_(0, count) as loop:
            own = [b.offset(place, b.i8, b.mul(loop.index, step)) for place in places]
            self.piece(b.offset(source, b.f32, b.mul(loop.index, TILE_COLUMNS)), scale, *own)

    def piece(self, source: Value, scale: tuple[Value, Value], codes: Value, scale_place: Value, sums: Value) -> None:
        """Round a piece by (1/s in every lane, s)."""
        b = self.b
        factor, step = scale
        b.store(step, scale_place, alignment=4)
        rounded = [self._integers(b.mul(value, factor)) for value in self._values(source)]
        for number, integers in enumerate(rounded):
            self._store(integers, codes, number * self.lanes)
        self._store_sums(rounded, step, sums)

    def scale_of(self, magnitude: Value) -> tuple[Value, Value]:
        """(1/s in every lane, s) for the largest of the elements whose magnitudes are given."""
        b, shape = self.b, self.shape
        largest = b.bitcast(b.reduce("maxsi", magnitude), b.f32)
        is_zero = b.cmp("ult", largest, _SMALLEST)
        inverse = b.select(is_zero, 0.0, b.div(b.const(b.f32, shape.largest), largest))
        return b.broadcast(inverse, self.lanes), b.mul(largest, 1.0 / shape.largest)

    def magnitude(self, source: Value) -> Value:
        """max |x| in each lane, as bits: of floats without sign, the larger has the larger bits, and those of NaN are the largest."""
        b = self.b
        first, *others = (b.bitcast(b.absolute(value), b.i32) for value in self._values(source))
        for other in others:
            first = b.maximum(other, first)
        return first

    def _values(self, source: Value) -> list[Value]:
        return [self.b.load(source, self.b.f32, at, width=self.lanes) for at in range(0, TILE_COLUMNS, self.lanes)]

    def _integers(self, scaled: Value) -> Value:
        """The nearest integers; for what is no number any integer in range."""
        b, largest = self.b, float(self.shape.largest)
        inside = b.minimum(b.maximum(scaled, -largest, nan="either"), largest, nan="either")
        return b.convert(b.round_even(inside), b.i32)

    def _store(self, integers: Value, codes: Value, at: int) -> None:
        b, shape = self.b, self.shape
        match shape.method:
            case "bytes" | "shorts":
                low = b.convert(integers, b.i8)
                if shape.planes == 1:
                    b.store(low, codes, at, alignment=1)
                    return
                high = b.sar(b.sub(integers, b.convert(low, b.i32)), 8)
                b.store(b.convert(high, b.i8), codes, at, alignment=1)
                b.store(low, codes, TILE_COLUMNS + at, alignment=1)
            case "pairs":
                order = [four + each for four in range(0, self.lanes, 4) for each in (0, 2, 1, 3)]
                halves = b.convert(integers, b.i16)
                b.store(b.shuffle(halves, halves, order), codes, at, alignment=1)
            case "plain":
                b.store(b.convert(integers, b.i16), codes, at, alignment=1)

    def _store_sums(self, rounded: list[Value], step: Value, sums: Value) -> None:
        b, shape = self.b, self.shape
        if shape.sums == "none":
            return
        per_group = len(rounded) // shape.groups
        for group in range(shape.groups):
            total = self._sum(rounded[group * per_group : (group + 1) * per_group])
            if shape.sums == "real":
                real = b.convert(total, b.f32)
                value = real if shape.scale_pieces > 1 else b.mul(real, step)
            else:
                value = b.mul(total, -shape.layout.format.zero_point)
            b.store(value, sums, group, alignment=4)

    def _sum(self, rounded: list[Value]) -> Value:
        b = self.b
        total = rounded[0]
        for integers in rounded[1:]:
            total = b.add(total, integers)
        return b.reduce("add", total)


__all__ = ["emit_round", "round_arguments", "round_name"]
