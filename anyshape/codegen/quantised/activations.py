"""Rounding rows of the left-hand side to integers: for each 32 elements x, scale s = max |x| / largest and q = round(x / s).

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
        with b.for_(0, pieces) as loop:
            away = b.mul(loop.index, step)
            source = b.offset(row, b.f32, b.mul(loop.index, TILE_COLUMNS))
            rounding.piece(source, *(b.offset(pointer, b.i8, away) for pointer in (codes, scale, sums)))


@dataclass(frozen=True)
class _Rounding:
    b: Builder
    shape: BlockShape

    @property
    def lanes(self) -> int:
        return self.shape.lanes

    def piece(self, source: Value, codes: Value, scale: Value, sums: Value) -> None:
        b, shape = self.b, self.shape
        values = [b.load(source, b.f32, at, width=self.lanes) for at in range(0, TILE_COLUMNS, self.lanes)]
        largest = self._largest(values)
        is_zero = b.cmp("ult", largest, _SMALLEST)
        inverse = b.select(is_zero, 0.0, b.div(b.const(b.f32, shape.largest), largest))
        step = b.mul(largest, 1.0 / shape.largest)
        b.store(step, scale, alignment=4)
        factor = b.broadcast(inverse, self.lanes)
        rounded = [self._integers(b.mul(value, factor)) for value in values]
        for number, integers in enumerate(rounded):
            self._store(integers, codes, number * self.lanes)
        self._store_sums(rounded, step, sums)

    def _largest(self, values: list[Value]) -> Value:
        """max |x|, NaN if one is NaN: of floats without sign, the larger has the larger bits, and those of NaN are the largest."""
        b = self.b
        found = b.bitcast(b.absolute(values[0]), b.i32)
        for value in values[1:]:
            found = b.maximum(b.bitcast(b.absolute(value), b.i32), found)
        return b.bitcast(b.reduce("maxsi", found), b.f32)

    def _integers(self, scaled: Value) -> Value:
        """The nearest integers; for what is no number any integer in range."""
        b, largest = self.b, float(self.shape.largest)
        inside = b.minimum(b.maximum(scaled, -largest, nan="either"), largest, nan="either")
        return b.convert(b.round_even(inside), b.i32)

    def _store(self, integers: Value, codes: Value, at: int) -> None:
        b, shape = self.b, self.shape
        match shape.method:
            case "bytes":
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
                value = b.mul(b.convert(total, b.f32), step)
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
