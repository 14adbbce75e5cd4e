"""Register tiles of windows over a plane: out[r, j] (+)= Σ_{t, u} w[t, u] · x[r·stride + t·dilation, j·stride + u·dilation].

x is a strip of a plane as `strips` copies it: zeros stand where the plane has nothing, and with stride s along a line the elements
of a line are in s *phases*, those at s·i + p for each p, so that a vector of results always meets neighbours.

A tile of R rows and V vectors walks the columns of the window in a loop. In it the window's column of weights is in registers,
each line of x that the rows meet is loaded once, and its vectors serve all rows: of 7 × 7 windows and 7 × 2 vectors, 33 loads for 98
multiply-adds. Lines of zeros above and below the plane are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value, byte_size
from anyshape.codegen.tiles.shape import LINE
from anyshape.dialects.tile.window import WindowAttr
from anyshape.support.machine import Machine

_SUMS_IN_FLIGHT = 8
"""Multiply-adds that a core with two units for them has begun and not ended."""
_Meets = list[tuple[int, int]]
"""The rows of results that a line meets, each with its row of the window."""
MAX_ROWS = 7
_MAX_WEIGHTS = 8
"""Weights that are kept in registers at a time."""
_LINE_COLUMNS, _PLANE_COLUMNS, _PLANE_ROWS = 1024, 128, 28
"""Results of a block, along a line without a second axis, and of a plane."""


@dataclass(frozen=True)
class PlaneShape:
    """How windows are walked on one machine; pairs are of rows and columns.

    Args:
        element: of sums and of what is in strips.
        lanes: of a vector.
        registers: vector registers.
        padding: lines and columns of zeros in front of a plane.
    """

    element: str
    lanes: int
    registers: int
    extents: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]

    @staticmethod
    def of(element: str, machine: Machine, window: WindowAttr) -> PlaneShape:
        """The shape for windows along one axis or two."""
        lanes = machine.lanes(64 if element == "f64" else 32)
        (kh, kw), (sy, sx), (dy, dx), (py, px) = (
            (missing, *numbers.get_values())[-2:]
            for missing, numbers in zip(
                (1, 1, 1, 0), (window.extents, window.strides, window.dilation, window.padding), strict=True
            )
        )
        return PlaneShape(element, lanes, machine.registers, (kh, kw), (sy, sx), (dy, dx), (py, px))

    @property
    def points(self) -> int:
        return self.extents[0] * self.extents[1]

    @property
    def is_line(self) -> bool:
        """Windows reach along lines only, so that no line is read by several rows."""
        return self.extents[0] == 1

    @property
    def element_bytes(self) -> int:
        return 8 if self.element == "f64" else 4

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of results that a strip is copied for, at most."""
        return (1, _LINE_COLUMNS) if self.is_line else (_PLANE_ROWS, _PLANE_COLUMNS)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and vectors of the larger tiles: sums, weights and a line of x fit the registers."""
        weights = min(self.extents[0], _MAX_WEIGHTS)
        if self.is_line:
            return 1, 4 if self.registers >= 16 else 2
        for vectors, least in ((2, 4), (1, 1)):
            rows = min(MAX_ROWS, (self.registers - 1 - weights - vectors) // vectors)
            if rows >= least:
                return rows, vectors
        return 1, 1

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of the tiles, larger ones first."""
        most, _ = self.tile
        return (most,) if most < 4 else (most, (most + 1) // 2)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """(vectors, lanes) of the tiles, wider ones first, each half of the one before it."""
        _, vectors = self.tile
        whole = [(vectors >> power, self.lanes) for power in range(vectors.bit_length())]
        return (*whole, (1, self.lanes // 2)) if self.lanes > 4 else tuple(whole)

    def reach(self, rows: int) -> int:
        """Lines of a strip that so many rows of results meet."""
        return (rows - 1) * self.strides[0] + (self.extents[0] - 1) * self.dilation[0] + 1

    @property
    def border(self) -> int:
        """Lines at the top and at the bottom of a tile that it passes over where they are zeros: as many as a plane has in front."""
        return self.padding[0] if self.reach(self.rows[-1]) > 2 * self.padding[0] else 0

    @property
    def further_columns(self) -> int:
        """Elements of a phase that windows meet beyond one for each column of results."""
        return (self.extents[1] - 1) * self.dilation[1] // self.strides[1]

    @property
    def phase(self) -> int:
        """Elements of a strip's line from one phase to the next."""
        elements = self.block[1] + self.further_columns + 4 * self.lanes
        return -(-elements // 16) * 16

    @property
    def line(self) -> int:
        """Elements from one line of a strip to the next."""
        return self.phase * self.strides[1]

    @property
    def strip_bytes(self) -> int:
        """Bytes of a strip, with the lines that tiles read beyond the last row."""
        return _whole_lines(self.reach(self.block[0] + self.rows[0]) * self.line * self.element_bytes)

    @property
    def out_bytes(self) -> int:
        """Bytes of a block of sums, with what tiles write beyond its last row."""
        rows, columns = self.block
        return _whole_lines(((rows + self.rows[0]) * columns + 4 * self.lanes) * self.element_bytes)


def _whole_lines(bytes_: int) -> int:
    return -(-bytes_ // LINE) * LINE


def tile_arguments(b: Builder) -> list[Type]:
    """(first element of the strip that the tile meets, weights, out, elements of a row of out, whether out has sums already, whether lines
    at the top are other than zeros, and at the bottom)."""
    return [b.ptr, b.ptr, b.ptr, b.i64, b.i1, b.i1, b.i1]


def emit_plane_tile(
    module: ModuleBuilder, name: str, shape: PlaneShape, rows: int, vectors: int, lanes: int, *, internal: bool = True
) -> None:
    """Define the tile of so many rows, vectors and lanes. Whole vectors are stored, rows in their order."""
    b = Builder()
    element = b.type(shape.element)
    with module.function(name, tile_arguments(b), internal=internal) as f:
        source, weights, out, out_row, goes_on, *ends = f.args
        tile = _Tile(b, shape, rows, vectors, lanes, source, weights, ends)
        places = [
            b.offset(out, element, b.add(b.mul(out_row, row), vector * lanes))
            for row in range(rows)
            for vector in range(vectors)
        ]
        zeros = [b.splat(0, element, lanes)] * len(places)
        start = b.if_(goes_on, [zero.type for zero in zeros], has_else=True)
        with start.then():
            start.yield_(*[b.load(place, element, width=lanes) for place in places])
        with start.otherwise():
            start.yield_(*zeros)
        for place, sum_ in zip(places, tile.columns(start.results, zeros), strict=True):
            b.store(sum_, place, alignment=byte_size(element))


@dataclass(frozen=True)
class _Tile:
    """A tile under construction; see `tile_arguments`."""

    b: Builder
    shape: PlaneShape
    rows: int
    vectors: int
    lanes: int
    source: Value
    weights: Value
    ends: Sequence[Value]

    def columns(self, sums: Sequence[Value], zeros: Sequence[Value]) -> list[Value]:
        """The sums with the products of all columns of the window."""
        b, count = self.b, self.shape.extents[1]
        if not self._is_split:
            with b.for_(0, count, 1, sums) as column:
                column.yield_(*self._column(column.index, column.args))
            return column.results
        with b.for_(0, count - count % 2, 2, [*sums, *zeros]) as column:
            even = self._column(column.index, column.args[: len(sums)])
            column.yield_(*even, *self._column(b.add(column.index, 1), column.args[len(sums) :]))
        first, second = column.results[: len(sums)], column.results[len(sums) :]
        if count % 2:
            first = self._column(b.const(b.i64, count - 1), first)
        return [b.add(even, odd) for even, odd in zip(first, second, strict=True)]

    @property
    def _is_split(self) -> bool:
        """Whether every other column has sums of its own: few sums would wait for one another."""
        registers = 2 * self.rows * self.vectors + min(self.shape.extents[0], _MAX_WEIGHTS) + self.vectors
        few = self.lanes < self.shape.lanes and self.rows * self.vectors < _SUMS_IN_FLIGHT
        return few and self.shape.extents[1] > 1 and registers < self.shape.registers

    def _column(self, number: Value, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of one column."""
        b, shape, (height, width) = self.b, self.shape, self.shape.extents
        element, found = b.type(shape.element), list(sums)
        moved = b.mul(number, shape.dilation[1])
        phase, step = b.rem(moved, shape.strides[1]), b.div(moved, shape.strides[1])
        source = b.offset(self.source, element, b.add(b.mul(phase, shape.phase), step))
        own = b.offset(self.weights, element, number)
        last = shape.reach(self.rows) - shape.border
        for first in range(0, height, _MAX_WEIGHTS):
            points = range(first, min(first + _MAX_WEIGHTS, height))
            weights = {t: b.broadcast(b.load(own, element, t * width), self.lanes) for t in points}
            upper, middle, lower = dict[int, _Meets](), dict[int, _Meets](), dict[int, _Meets]()
            for row, t in product(range(self.rows), points):
                line = row * shape.strides[0] + t * shape.dilation[0]
                part = upper if line < shape.border else lower if line >= last else middle
                part.setdefault(line, []).append((row, t))
            found = self._where(self.ends[0], source, upper, weights, found)
            found = self._lines(source, middle, weights, found)
            found = self._where(self.ends[1], source, lower, weights, found)
        return found

    def _where(
        self,
        condition: Value,
        source: Value,
        lines: Mapping[int, _Meets],
        weights: Mapping[int, Value],
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with the products of some lines where the condition holds."""
        if not lines:
            return list(sums)
        branch = self.b.if_(condition, [each.type for each in sums], has_else=True)
        with branch.then():
            branch.yield_(*self._lines(source, lines, weights, sums))
        with branch.otherwise():
            branch.yield_(*sums)
        return branch.results

    def _lines(
        self, source: Value, lines: Mapping[int, _Meets], weights: Mapping[int, Value], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with the products of some lines, each loaded once."""
        found, element = list(sums), self.b.type(self.shape.element)
        for line in sorted(lines):
            for vector in range(self.vectors):
                place = line * self.shape.line + vector * self.lanes
                x = self.b.load(source, element, place, width=self.lanes)
                for row, t in lines[line]:
                    at = row * self.vectors + vector
                    found[at] = self.b.fma(weights[t], x, found[at])
        return found


__all__ = ["PlaneShape", "emit_plane_tile", "tile_arguments"]
