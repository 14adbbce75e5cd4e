"""Elements of attention: f16 and bf16 are widened to f32 where they are read, and rounded where the result is written."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Type, Value
from anyshape.codegen.tiles.shape import SUM_ELEMENTS, TileShape, tile_shape
from anyshape.support.machine import Machine

ATTEND_ELEMENTS = ("f32", "f64", "bf16", "f16")
"""MLIR's names of the element types that attention takes."""


@dataclass(frozen=True)
class Elements:
    """Elements of one attention.

    Args:
        name: element type of q, k, v, float masks and the result in memory, one of `ATTEND_ELEMENTS`.
        shape: register tiles of the type that everything is computed in.
    """

    name: str
    shape: TileShape

    @staticmethod
    def of(name: str, machine: Machine) -> Elements:
        """The elements of that name; what they are computed in follows."""
        return Elements(name, tile_shape(SUM_ELEMENTS[name], machine))

    @property
    def is_narrow(self) -> bool:
        """Elements in memory are not those that tiles read."""
        return self.name != self.shape.element

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return 2 if self.is_narrow else self.shape.element_bytes

    def in_memory(self, b: Builder) -> Type:
        """What an element occupies in memory: narrow ones are moved as words, which every target has masked accesses of."""
        return b.i16 if self.is_narrow else b.type(self.name)

    def load(
        self, b: Builder, pointer: Value, index: Operand, *, width: int | None = None, mask: Value | None = None
    ) -> Value:
        """`pointer[index]`, or `width` elements from there on, widened; lanes that are off are 0."""
        return self._widen(b, b.load(pointer, self.in_memory(b), index, width=width, mask=mask))

    def gather(self, b: Builder, pointer: Value, indices: Value, *, mask: Value | None = None) -> Value:
        """`pointer[indices[l]]` in lane l, widened; lanes that are off are 0."""
        return self._widen(b, b.gather(pointer, self.in_memory(b), indices, mask=mask))

    def store(self, b: Builder, value: Value, pointer: Value, index: Operand, *, mask: Value) -> None:
        """Store a vector, rounded, at `pointer[index]`."""
        b.store(self._round(b, value), pointer, index, mask=mask)

    def scatter(self, b: Builder, value: Value, pointer: Value, indices: Value, *, mask: Value) -> None:
        """`pointer[indices[l]] = value[l]`, rounded."""
        b.scatter(self._round(b, value), pointer, indices, mask=mask)

    def _widen(self, b: Builder, words: Value) -> Value:
        if self.name == "bf16":
            return b.bitcast(b.shl(b.convert(words, b.i32, signed=False), 16), b.f32)
        return b.convert(b.bitcast(words, b.type(self.name)), b.f32) if self.is_narrow else words

    def _round(self, b: Builder, value: Value) -> Value:
        return b.bitcast(b.convert(value, b.type(self.name)), b.i16) if self.is_narrow else value
