"""A strip of a plane, copied with zeros around it: strip[i, j] = plane[y + i, x + j] where that is inside, else 0.

Elements are widened to those of sums. With stride s along lines they are put in s phases; see `planes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.convolve.planes import PlaneShape
from anyshape.codegen.mlir import ModuleBuilder, Type, Value

_SHUFFLED = 2
"""Phases up to which whole vectors are loaded and their elements sorted; more are gathered."""


def strip_arguments(b: Builder) -> list[Type]:
    """(plane, elements from one of its lines to the next, its lines, its columns, y, x, lines of the strip, elements of each of its phases,
    the strip)."""
    return [b.ptr, *[b.i64] * 7, b.ptr]


def emit_strip(module: ModuleBuilder, name: str, shape: PlaneShape, element: str) -> None:
    """Define the function that copies a strip of a plane of that element type."""
    b = Builder()
    with module.function(name, strip_arguments(b), internal=True) as f:
        plane, stride, height, width, y, x, lines, columns, strip = f.args
        top = b.minimum(b.maximum(b.neg(y), 0), lines)
        bottom = b.maximum(b.minimum(b.sub(height, y), lines), top)
        copy = _Copy(b, shape, element, b.offset(plane, _moved(b, element), b.mul(y, stride)), stride, strip)
        with b.for_(0, columns, shape.lanes) as vector:
            first = b.add(x, b.mul(vector.index, shape.strides[1]))
            end = b.add(first, shape.strides[1] * shape.lanes)
            copy.zeros(vector.index, b.const(b.i64, 0), top)
            copy.zeros(vector.index, bottom, lines)
            is_inside = b.and_(b.cmp("sge", first, 0), b.cmp("sle", end, width))
            branch = b.if_(is_inside, has_else=True)
            with branch.then():
                copy.lines(vector.index, first, top, bottom, None)
            with branch.otherwise():
                copy.lines(vector.index, first, top, bottom, width)


def _moved(b: Builder, element: str) -> Type:
    """Elements of 16 bits are moved as integers: no machine needs to know them as numbers."""
    return b.i16 if element in ("bf16", "f16") else b.type(element)


@dataclass(frozen=True)
class _Copy:
    """The function under construction; `plane` is where the strip's first line is, or would be."""

    b: Builder
    shape: PlaneShape
    element: str
    plane: Value
    stride: Value
    strip: Value

    def zeros(self, at: Value, first: Value, end: Value) -> None:
        """The lines [first, end) have zeros in the vector at element `at` of each phase."""
        b, shape = self.b, self.shape
        zero = b.splat(0, b.type(shape.element), shape.lanes)
        with b.for_(first, end) as line:
            for phase in range(shape.strides[1]):
                self._put(zero, line.index, phase, at)

    def lines(self, at: Value, x: Value, first: Value, end: Value, width: Value | None) -> None:
        """The lines [first, end) have the plane's elements from x on there; those that are not below `width`, if given, are 0."""
        b = self.b
        masks = self._masks(x, width)
        with b.for_(first, end) as line:
            source = b.offset(self.plane, _moved(b, self.element), b.add(b.mul(line.index, self.stride), x))
            for phase, vector in enumerate(self._phases(source, masks)):
                self._put(vector, line.index, phase, at)

    def _put(self, vector: Value, line: Value, phase: int, at: Value) -> None:
        b, shape = self.b, self.shape
        place = b.add(b.mul(line, shape.line), b.add(at, phase * shape.phase))
        b.store(vector, b.offset(self.strip, b.type(shape.element), place))

    def _masks(self, x: Value, width: Value | None) -> list[Value | None]:
        """For each vector that is loaded which of its elements are inside."""
        b, lanes, step = self.b, self.shape.lanes, self.shape.strides[1]
        if width is None:
            return [None] * step
        if step > _SHUFFLED:
            places = [b.add(b.broadcast(b.add(x, phase), lanes), b.mul(b.lane_numbers(lanes), step))
                      for phase in range(step)]  # fmt: skip
            return [b.cmp("ult", place, b.broadcast(width, lanes)) for place in places]
        starts = [b.add(x, part * lanes) for part in range(step)]
        return [
            b.and_(b.tail_mask(b.sub(width, start), lanes), b.not_(b.tail_mask(b.neg(start), lanes)))
            for start in starts
        ]

    def _phases(self, source: Value, masks: Sequence[Value | None]) -> list[Value]:
        """A vector of each phase, from a line's element on."""
        b, lanes, step = self.b, self.shape.lanes, self.shape.strides[1]
        moved = _moved(b, self.element)
        if step > _SHUFFLED:
            places = b.mul(b.lane_numbers(lanes), step)
            found = [
                b.gather(b.offset(source, moved, phase), moved, places, mask=mask) for phase, mask in enumerate(masks)
            ]
            return [self._widened(vector) for vector in found]
        loaded = [
            self._widened(b.load(source, moved, part * lanes, width=lanes, mask=mask))
            for part, mask in enumerate(masks)
        ]
        if step == 1:
            return loaded
        return [b.shuffle(loaded[0], loaded[1], list(range(phase, 2 * lanes, 2))) for phase in range(2)]

    def _widened(self, vector: Value) -> Value:
        return widened(self.b, vector, self.element, self.shape.element)


def widened(b: Builder, value: Value, element: str, wide: str) -> Value:
    """Elements as they are in memory, in the type of sums."""
    number = b.bitcast(value, b.type(element)) if element in ("bf16", "f16") else value
    return b.convert(number, b.type(wide))


__all__ = ["emit_strip", "strip_arguments", "widened"]
