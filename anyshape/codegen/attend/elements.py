"""Elements of attention: narrow ones are widened to f32 where they are read, and rounded where the result is written.

Keys and values may have another type than queries and the result, since they come from a cache: halves, or signed bytes, whose scales
multiply scores and probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Type, Value
from anyshape.codegen.partial import store_first
from anyshape.codegen.tiles.shape import SUM_ELEMENTS, TileShape, tile_shape
from anyshape.support.machine import Machine

ATTEND_ELEMENTS = ("f32", "f64", "bf16", "f16")
"""MLIR's names of the element types that attention takes throughout."""
CACHED_ELEMENTS = ("bf16", "f16", "i8")
"""Other types that keys and values may have beside queries and results of f32."""
SCALED = "i8"
"""The type of keys and values that come with scales."""
_WORDS = ("bf16", "f16")
_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i8": 1}


@dataclass(frozen=True)
class Stored:
    """Elements in memory.

    Args:
        name: their type.
        computed: the type that they are computed in.
    """

    name: str
    computed: str

    def in_memory(self, b: Builder) -> Type:
        """What an element occupies in memory: halves are moved as words, which every target has masked accesses of."""
        return b.i16 if self.name in _WORDS else b.type(self.name)

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return _BYTES[self.name]

    def load(
        self, b: Builder, pointer: Value, index: Operand, *, width: int | None = None, mask: Value | None = None
    ) -> Value:
        """`pointer[index]`, or `width` elements from there on, widened; lanes that are off are 0."""
        return self._widen(b, b.load(pointer, self.in_memory(b), index, width=width, mask=mask))

    def gather(self, b: Builder, pointer: Value, indices: Value, *, mask: Value | None = None) -> Value:
        """`pointer[indices[l]]` in lane l, widened; lanes that are off are 0."""
        return self._widen(b, b.gather(pointer, self.in_memory(b), indices, mask=mask))

    def store_first(self, b: Builder, value: Value, pointer: Value, index: Operand, count: Value) -> None:
        """Store the first `count` lanes of a vector, rounded, at `pointer[index]` (`codegen.partial`)."""
        store_first(b, [(self._round(b, value), b.offset(pointer, self.in_memory(b), index))], count)

    def scatter(self, b: Builder, value: Value, pointer: Value, indices: Value, *, mask: Value) -> None:
        """`pointer[indices[l]] = value[l]`, rounded."""
        b.scatter(self._round(b, value), pointer, indices, mask=mask)

    def _widen(self, b: Builder, words: Value) -> Value:
        if self.name == self.computed:
            return words
        if self.name == "bf16":
            return b.bitcast(b.shl(b.convert(words, b.i32, signed=False), 16), b.f32)
        numbers = b.bitcast(words, b.type(self.name)) if self.name in _WORDS else words
        return b.convert(numbers, b.type(self.computed))

    def _round(self, b: Builder, value: Value) -> Value:
        return b.bitcast(b.convert(value, b.type(self.name)), b.i16) if self.name in _WORDS else value


@dataclass(frozen=True)
class Elements:
    """Elements of one attention.

    Args:
        own: of q, float masks and the result.
        cached: of k and v.
        shape: register tiles of the type that everything is computed in.
    """

    own: Stored
    cached: Stored
    shape: TileShape

    @staticmethod
    def of(name: str, machine: Machine) -> Elements:
        """The elements of that name: one of `ATTEND_ELEMENTS`, or `f32_` and one of `CACHED_ELEMENTS`."""
        own, _, cached = name.partition("_")
        computed = SUM_ELEMENTS[own]
        return Elements(Stored(own, computed), Stored(cached or own, computed), tile_shape(computed, machine))

    @property
    def name(self) -> str:
        """What symbols are called by."""
        return attend_elements(self.own.name, self.cached.name)

    @property
    def are_scaled(self) -> bool:
        """Whether keys and values come with scales."""
        return self.cached.name == SCALED


def attend_elements(own: str, cached: str) -> str:
    """What elements are called: see `Elements.of`."""
    return own if own == cached else f"{own}_{cached}"
