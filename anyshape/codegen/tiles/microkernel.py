"""Register tiles of a matrix product: C[r, j] = init[r, j] + Σ_k A[r, k]·B[k, j] for up to six rows and 64 columns.

One function for each row count: `as_mm_<element>_r<rows>` for up to 64 columns and `…_r<rows>_narrow` for up to 32. A has
any row stride, one broadcast for each row and step; B has rows of 64 (32) readable columns, one for each step, `ldb` elements apart
(64·group in a packed panel). A step is one k, or a group of k that one instruction multiplies (`product`). `init` is where the sums
start: a bias row or zeros with stride 0, or C itself to go on with the sum of an earlier depth block. Every row of every variant adds
its products in the order of k, one FMA each, so that a row's result depends neither on the other rows nor on threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import AttributeSpec, ModuleBuilder, Type, Value
from anyshape.codegen.partial import store_first
from anyshape.codegen.tiles.product import load_lhs, load_rhs, multiply
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, TileShape
from anyshape.dialects.packed_panels import PANEL

_BYTES_AHEAD = 8192
"""Bytes of B between what a tile reads and what it prefetches, when B is packed."""
AHEAD_LINES = 2
"""Cache lines of other memory that a tile prefetches at each step."""
_SECOND_LEVEL = 2
NARROW = PANEL // 2
"""Columns of a narrow tile: a head of 32, the last columns of a product."""


def tile_name(element: str, rows: int, *, narrow: bool = False) -> str:
    """The symbol of the register tile with that many rows."""
    return f"as_mm_{element}_r{rows}" + ("_narrow" if narrow else "")


def tile_arguments(b: Builder) -> list[Type]:
    """(A, lda, B, ldb, C, ldc, steps, init, init stride, columns, ahead, step); 0 < columns <= 64 or 32.

    Strides are in elements of each. At each step two cache lines from `ahead + number·step` on, `step` in bytes, are prefetched to the
    second-level cache: a part of what comes next, so that reading it overlaps with this tile's work.
    """
    return [b.ptr, b.i64, b.ptr, b.i64, b.ptr, b.i64, b.i64, b.ptr, b.i64, b.i64, b.ptr, b.i64]


def emit_tile(module: ModuleBuilder, shape: TileShape, rows: int, *, narrow: bool = False) -> None:
    """Define `tile_name(element, rows)`. Columns beyond `columns` are neither read from `init` nor written."""
    b = Builder(shape.machine.features)
    # C and init may be the same memory; A and B are only read.
    attributes: dict[int, list[AttributeSpec]] = {0: ["readonly"], 2: ["readonly"]}
    name = tile_name(shape.element, rows, narrow=narrow)
    with module.function(name, tile_arguments(b), attributes=attributes) as f:
        panel = NARROW if narrow else PANEL
        vectors = min(shape.vectors(rows), max(1, panel // shape.lanes))
        tile = _Tile(b, shape, rows, vectors, panel)
        if tile.width >= panel:
            tile.emit_pass(f.args, b.const(b.i64, 0))
        else:
            with b.for_(0, f.args[9], tile.width) as loop:
                tile.emit_pass(f.args, loop.index)


@dataclass(frozen=True)
class _Tile:
    b: Builder
    shape: TileShape
    rows: int
    vectors: int
    panel: int

    @property
    def width(self) -> int:
        return self.vectors * self.shape.lanes

    @property
    def element(self) -> Type:
        """The element type of sums."""
        return self.b.type(self.shape.sum_element)

    def emit_pass(self, args: list[Value], column: Value) -> None:
        """The tile's columns from `column` on."""
        b, shape, element = self.b, self.shape, self.element
        a, lda, rhs, ldb, c, ldc, steps, init, init_stride, columns, ahead, ahead_step = args
        factor = b.type(shape.rhs_memory)
        rhs = b.offset(rhs, factor, b.mul(column, shape.group))
        c, init = (b.offset(pointer, element, column) for pointer in (c, init))
        left = b.sub(columns, column)
        full = b.cmp("sge", left, self.width)
        a_rows = self._rows_of(a, lda, b.type(shape.lhs_element))
        start = self._load(self._rows_of(init, init_stride, element), left, full)
        if shape.row_header:
            start = self._add_headers(start, a_rows)
        # Each of several passes prefetches its share, one line at a time.
        passes = max(1, self.panel // self.width)
        if passes > 1:
            ahead_step = b.div(ahead_step, passes)
            ahead = b.offset(ahead, b.i8, b.mul(b.mul(b.div(column, self.width), steps), ahead_step))
        with b.for_(0, steps, 1, start) as loop:
            row_of_b = b.offset(rhs, factor, b.mul(loop.index, ldb))
            self._prefetch(row_of_b, ldb, b.offset(ahead, b.i8, b.mul(loop.index, ahead_step)))
            loaded = load_rhs(b, shape, row_of_b, self.vectors)
            sums: list[Value] = []
            for row in range(self.rows):
                lhs = load_lhs(b, shape, a_rows[row], loop.index)
                args_of_row = loop.args[row * self.vectors :]
                sums += [multiply(b, shape, lhs, loaded[v], args_of_row[v]) for v in range(self.vectors)]
            loop.yield_(*sums)
        self._store(loop.results, self._rows_of(c, ldc, element), left, full)

    def _rows_of(self, pointer: Value, stride: Value, element: Type) -> list[Value]:
        return [self.b.offset(pointer, element, self.b.mul(stride, row)) for row in range(self.rows)]

    def _add_headers(self, sums: list[Value], rows: list[Value]) -> list[Value]:
        """Sums that start from the i32 in front of each row of the left-hand side."""
        b = self.b
        headers = [b.broadcast(b.load(row, b.i32, -1, alignment=1), self.shape.lanes) for row in rows]
        return [b.add(sum_, headers[number // self.vectors]) for number, sum_ in enumerate(sums)]

    def _masked_places(self, left: Value) -> list[tuple[Value, Value]]:
        """Index and mask of each vector of a row with `left` columns.

        A vector with no column at all is put at the row's start: some machines take hundreds of cycles for a masked
        access to a page that is not there, even when every lane is off.
        """
        b, lanes = self.b, self.shape.lanes
        return [
            (
                b.select(b.cmp("sgt", left, vector * lanes), b.const(b.i64, vector * lanes), 0),
                b.tail_mask(b.sub(left, vector * lanes), lanes),
            )
            for vector in range(self.vectors)
        ]

    def _prefetch(self, row_of_b: Value, ldb: Value, ahead: Value) -> None:
        b, shape = self.b, self.shape
        own = b.offset(row_of_b, b.type(shape.rhs_memory), b.mul(ldb, _BYTES_AHEAD // shape.step_bytes))
        for start in range(0, self.width * shape.group * shape.element_bytes, LINE):
            b.prefetch(own, b.i8, start)
        lines = AHEAD_LINES if self.width >= self.panel else 1
        for start in range(0, lines * LINE, LINE):
            b.prefetch(ahead, b.i8, start, locality=_SECOND_LEVEL)

    def _load(self, rows: list[Value], left: Value, full: Value) -> list[Value]:
        b, element, lanes, vectors = self.b, self.element, self.shape.lanes, self.vectors
        branch = b.if_(full, [b.vector_type(element, lanes)] * (self.rows * vectors))
        with branch.then():
            branch.yield_(*(b.load(row, element, v * lanes, width=lanes) for row in rows for v in range(vectors)))
        with branch.otherwise():
            places = self._masked_places(left)
            branch.yield_(*(b.load(row, element, at, width=lanes, mask=mask) for row in rows for at, mask in places))
        return branch.results

    def _store(self, values: list[Value], rows: list[Value], left: Value, full: Value) -> None:
        b, lanes, vectors = self.b, self.shape.lanes, self.vectors
        branch = b.if_(full, has_else=True)
        with branch.then():
            for number, value in enumerate(values):
                b.store(value, rows[number // vectors], number % vectors * lanes)
        with branch.otherwise():
            for vector in range(vectors):
                own = [
                    (value, b.offset(row, self.element, vector * lanes))
                    for value, row in zip(values[vector::vectors], rows, strict=True)
                ]
                store_first(b, own, b.sub(left, vector * lanes))


@dataclass(frozen=True)
class TileTable:
    """Picks tiles at run time: made once at a function's entry, asked wherever row and column counts are known.

    `pick` is for a row count that several columns share; `function` then chooses by columns.
    """

    b: Builder
    wide: list[Value]
    narrow: list[Value]

    @staticmethod
    def at_entry(b: Builder, element: str) -> TileTable:
        wide, narrow = (
            [
                b.function_address(tile_name(element, rows, narrow=narrow), tile_arguments(b))
                for rows in range(1, MAX_ROWS + 1)
            ]
            for narrow in (False, True)
        )
        return TileTable(b, wide, narrow)

    def pick(self, rows: Value) -> tuple[Value, Value]:
        """(wide, narrow) tile for 1 <= rows <= 6; the largest one for other numbers."""
        return self._pick(self.wide, rows), self._pick(self.narrow, rows)

    def _pick(self, functions: list[Value], rows: Value) -> Value:
        picked = functions[-1]
        for count, function in enumerate(functions[:-1], 1):
            picked = self.b.select(self.b.cmp("eq", rows, count), function, picked)
        return picked

    def function(self, picked: tuple[Value, Value], columns: Value) -> Value:
        """The tile for that many columns."""
        return self.b.select(self.b.cmp("sle", columns, NARROW), picked[1], picked[0])


def emit_tiles(module: ModuleBuilder, shape: TileShape) -> None:
    """Define every register tile of an element type."""
    for rows in range(1, MAX_ROWS + 1):
        emit_tile(module, shape, rows)
        emit_tile(module, shape, rows, narrow=True)
