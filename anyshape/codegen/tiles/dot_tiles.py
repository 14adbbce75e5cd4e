"""Products with few columns, as dot products: C[r, j] = init[r, j] + Σ_k A[r, k]·B[j, k] for up to `FEW_COLUMNS` columns.

A register tile's vectors are of neighbouring columns: with fewer columns than lanes most of its work is thrown away. Here vectors
are of neighbouring k on both sides, with an accumulator for each row and column of a tile, folded once at the end. So a row of A is
read once, and a product of one column runs at the speed at which A comes. The order of a sum is not that of register tiles: it
depends on the number of columns, but on neither rows nor threads.

One function for each number of columns, `as_dot_tile_<element>_c<columns>`, walks any number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.dots import fold_square
from anyshape.codegen.tiles.shape import TileShape

FEW_COLUMNS = 8
"""Columns up to which dot products beat register tiles, whose narrowest vector rows have 16 columns and more."""
_MAX_ROWS = 8
"""Rows that go together: streams that prefetchers follow."""


def dot_tile_name(element: str, columns: int) -> str:
    """The symbol of the tile with that many columns."""
    return f"as_dot_tile_{element}_c{columns}"


def dot_tile_arguments(b: Builder) -> list[Type]:
    """(A, lda, B, ldb, C, ldc, rows, steps, init, init stride); strides in elements, from one row or column to the next."""
    return [b.ptr, b.i64, b.ptr, b.i64, b.ptr, b.i64, b.i64, b.i64, b.ptr, b.i64]


def tile_rows(shape: TileShape, columns: int) -> int:
    """Rows of A that a tile with that many columns takes together: registers hold an accumulator for each of both, the vectors of the
    side that has fewer, and one of the other."""
    fitting = [rows for rows in range(1, _MAX_ROWS + 1) if rows * columns + min(rows, columns) < shape.registers]
    return max(fitting, default=1)


def emit_dot_tiles(module: ModuleBuilder, shape: TileShape) -> None:
    """Define the tile of every number of columns."""
    for columns in range(1, FEW_COLUMNS + 1):
        b = Builder()
        name = dot_tile_name(shape.element, columns)
        with module.function(name, dot_tile_arguments(b)) as f:
            tile = _DotTile.at_entry(b, shape, columns, f.args)
            rows, together = f.args[6], tile_rows(shape, columns)
            whole = b.sub(rows, b.rem(rows, together))
            with b.for_(0, whole, together) as row:
                tile.emit(row.index, together)
            if together > 1:
                with b.for_(whole, rows) as row:
                    tile.emit(row.index, 1)


def pick_dot_tile(b: Builder, element: str, columns: Value) -> Value:
    """The function for 1 <= columns <= `FEW_COLUMNS`; the widest one for other numbers."""
    functions = [
        b.function_address(dot_tile_name(element, count), dot_tile_arguments(b)) for count in range(1, FEW_COLUMNS + 1)
    ]
    picked = functions[-1]
    for count, function in enumerate(functions[:-1], 1):
        picked = b.select(b.cmp("eq", columns, count), function, picked)
    return picked


@dataclass(frozen=True)
class _DotTile:
    """The function under construction, with what all its rows share."""

    b: Builder
    shape: TileShape
    args: Sequence[Value]
    columns: list[Value]
    """Where each column of B begins."""
    whole: Value
    """Steps that whole vectors take."""
    rest: Value
    """The mask of the vector behind them."""

    @staticmethod
    def at_entry(b: Builder, shape: TileShape, columns: int, args: Sequence[Value]) -> _DotTile:
        element, lanes = b.type(shape.element), shape.lanes
        rhs, ldb, steps = args[2], args[3], args[7]
        whole = b.sub(steps, b.rem(steps, lanes))
        starts = [b.offset(rhs, element, b.mul(ldb, column)) for column in range(columns)]
        return _DotTile(b, shape, args, starts, whole, b.tail_mask(b.sub(steps, whole), lanes))

    def emit(self, first: Value, count: int) -> None:
        """`count` rows from `first` on."""
        b, element, lanes = self.b, self.b.type(self.shape.element), self.shape.lanes
        lhs, lda, _, _, c, ldc, _, steps, init, init_stride = self.args

        def rows_of(pointer: Value, stride: Value) -> list[Value]:
            return [b.offset(pointer, element, b.mul(b.add(first, row), stride)) for row in range(count)]

        rows = rows_of(lhs, lda)
        zero = b.splat(0, element, lanes)
        with b.for_(0, self.whole, lanes, [zero] * (count * len(self.columns))) as loop:
            loop.yield_(*self._step(rows, loop.index, loop.args, None))
        tail = b.if_(b.cmp("slt", self.whole, steps), [zero.type] * len(loop.results))
        with tail.then():
            tail.yield_(*self._step(rows, self.whole, loop.results, self.rest))
        with tail.otherwise():
            tail.yield_(*loop.results)
        sums = self._folded(tail.results, zero)
        results, starts = rows_of(c, ldc), rows_of(init, init_stride)
        for row in range(count):
            for column in range(len(self.columns)):
                start = b.load(starts[row], element, column)
                b.store(b.add(start, sums[row * len(self.columns) + column]), results[row], column)

    def _step(self, rows: Sequence[Value], k: Value, sums: Sequence[Value], mask: Value | None) -> list[Value]:
        """One vector of each row and column; the vectors of the side that has fewer are held."""
        b, element, lanes = self.b, self.b.type(self.shape.element), self.shape.lanes
        result, sides = list(sums), (rows, self.columns)
        held, passing = (0, 1) if len(rows) <= len(self.columns) else (1, 0)
        factors = [b.load(pointer, element, k, width=lanes, mask=mask) for pointer in sides[held]]
        for number, pointer in enumerate(sides[passing]):
            other = b.load(pointer, element, k, width=lanes, mask=mask)
            for place, factor in enumerate(factors):
                row, column = (place, number) if held == 0 else (number, place)
                at = row * len(self.columns) + column
                result[at] = b.fma(factor, other, result[at])
        return result

    def _folded(self, sums: Sequence[Value], zero: Value) -> list[Value]:
        """The sum of the lanes of each vector: as many vectors as there are lanes are folded into one."""
        b, lanes = self.b, self.shape.lanes
        folded: list[Value] = []
        for start in range(0, len(sums), lanes):
            group = list(sums[start : start + lanes])
            vector = fold_square(b, group + [zero] * (lanes - len(group)))
            folded += [b.extract(vector, lane) for lane in range(len(group))]
        return folded


__all__ = ["FEW_COLUMNS", "dot_tile_arguments", "dot_tile_name", "emit_dot_tiles", "pick_dot_tile", "tile_rows"]
