"""Products of a few query rows with keys and values where they lie, at the speed at which these come from memory.

    as_attend_dots_<element>    scores[r, j] = Σ_k queries[r, k]·keys[j, k]
    as_attend_weigh_<element>   sums[r, :] = start + Σ_j weights[r, j]·values[j, :]

Each reads its rows once for all queries, and meanwhile asks for rows that come after: the dots for the values of the same keys, the sums
for the next keys, so that memory is busy throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from anyshape.codegen.attend.elements import Elements
from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.dots import fold_square
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS

_SECOND_LEVEL = 2
_WIDEST = 4
"""Vectors of a row of values that are summed at once."""


class Dots(NamedTuple):
    """Arguments of the dots; steps between rows in elements, but of `ahead` in bytes. Scores are written up to whole vectors."""

    queries: Value
    rows: Value
    keys: Value
    key_row: Value
    depth: Value
    count: Value
    scores: Value
    score_row: Value
    ahead: Value
    ahead_row: Value


class Weigh(NamedTuple):
    """Arguments of the sums; steps between rows in elements, but of `ahead` in bytes. Sums have room for whole vectors."""

    weights: Value
    weight_row: Value
    rows: Value
    values: Value
    value_row: Value
    columns: Value
    count: Value
    sums: Value
    sum_row: Value
    is_first: Value
    """Not 0 where the sums start from 0."""
    ahead: Value
    ahead_row: Value


def dots_name(elements: Elements) -> str:
    """The symbol of `emit_dots`."""
    return f"as_attend_dots_{elements.name}"


def weigh_name(elements: Elements) -> str:
    """The symbol of `emit_weigh`."""
    return f"as_attend_weigh_{elements.name}"


def emit_dots(module: ModuleBuilder, elements: Elements) -> None:
    """Define `dots_name(elements)`, for 1 to `MAX_ROWS` rows."""
    b = Builder()

    def body(rows: int, args: list[Value]) -> None:
        of = Dots(*args)
        with b.for_(0, of.count, elements.shape.lanes) as group:
            _Keys(b, elements, rows, of, group.index).emit()

    pointers = {"queries", "keys", "scores", "ahead"}
    _emit_variants(module, b, dots_name(elements), [b.ptr if name in pointers else b.i64 for name in Dots._fields],
                   Dots._fields.index("rows"), body)  # fmt: skip


def emit_weigh(module: ModuleBuilder, elements: Elements) -> None:
    """Define `weigh_name(elements)`, for 1 to `MAX_ROWS` rows."""
    b = Builder()
    pointers = {"weights", "values", "sums", "ahead"}
    _emit_variants(module, b, weigh_name(elements), [b.ptr if name in pointers else b.i64 for name in Weigh._fields],
                   Weigh._fields.index("rows"), lambda rows, args: _Rows(b, elements, rows, Weigh(*args)).emit())  # fmt: skip


def _emit_variants(
    module: ModuleBuilder,
    b: Builder,
    name: str,
    types: list[Type],
    rows_at: int,
    body: Callable[[int, list[Value]], None],
) -> None:
    """A function for each number of rows, and one of this name that calls the right one; argument `rows_at` is the number."""
    for rows in range(1, MAX_ROWS + 1):
        with module.function(f"{name}_r{rows}", types) as f:
            body(rows, f.args)
    with module.function(name, types) as f:
        for rows in range(1, MAX_ROWS + 1):
            matches = b.if_(b.cmp("eq", f.args[rows_at], rows))
            with matches.then():
                b.call(f"{name}_r{rows}", f.args)


@dataclass(frozen=True)
class _Keys:
    """The dots of as many keys as there are lanes: one accumulator for each, then all folded into one vector of sums."""

    b: Builder
    elements: Elements
    rows: int
    of: Dots
    first: Value

    def emit(self) -> None:
        b, of, lanes, memory = self.b, self.of, self.elements.shape.lanes, self.elements.cached.in_memory(self.b)
        # Beyond the last key comes the last one again; nobody reads its score.
        keys = [
            b.offset(of.keys, memory, b.mul(of.key_row, b.minimum(b.add(self.first, lane), b.sub(of.count, 1))))
            for lane in range(lanes)
        ]
        element = b.type(self.elements.shape.element)
        whole = b.sub(of.depth, b.rem(of.depth, lanes))
        zero = b.splat(0, element, lanes)
        with b.for_(0, self.rows) as row:
            query = b.offset(of.queries, element, b.mul(row.index, of.depth))
            with b.for_(0, whole, lanes, [zero] * lanes) as loop:
                self._emit_ahead(row.index, loop.index)
                loop.yield_(*self._step(query, keys, loop.index, list(loop.args), None))
            tail = b.if_(b.cmp("slt", whole, of.depth), [zero.type] * lanes)
            with tail.then():
                rest = b.tail_mask(b.sub(of.depth, whole), lanes)
                tail.yield_(*self._step(query, keys, whole, list(loop.results), rest))
            with tail.otherwise():
                tail.yield_(*loop.results)
            scores = b.offset(of.scores, element, b.mul(row.index, of.score_row))
            b.store(fold_square(b, list(tail.results)), scores, self.first)

    def _step(
        self, query: Value, keys: list[Value], index: Value, sums: list[Value], mask: Value | None
    ) -> list[Value]:
        b, lanes = self.b, self.elements.shape.lanes
        factor = b.load(query, b.type(self.elements.shape.element), index, width=lanes, mask=mask)
        loaded = [self.elements.cached.load(b, key, index, width=lanes, mask=mask) for key in keys]
        return [b.fma(values, factor, sum_) for values, sum_ in zip(loaded, sums, strict=True)]

    def _emit_ahead(self, row: Value, index: Value) -> None:
        """Each row asks for its share of what comes next, a little at each step: asked for at once, it would only be waited for."""
        b, of, lanes = self.b, self.of, self.elements.shape.lanes
        share = -(-lanes // self.rows)
        first = b.add(self.first, b.mul(row, share))
        for lane in range(share):
            ahead = b.offset(of.ahead, b.i8, b.mul(of.ahead_row, b.add(first, lane)))
            b.prefetch(ahead, self.elements.cached.in_memory(b), index, locality=_SECOND_LEVEL)


@dataclass(frozen=True)
class _Rows:
    """The sums of a fixed number of rows."""

    b: Builder
    elements: Elements
    rows: int
    of: Weigh

    @property
    def vectors(self) -> int:
        """Vectors whose sums, values and a weight fit the registers."""
        fits = [n for n in (_WIDEST, 2, 1) if self.rows * n + n + 1 <= self.elements.shape.registers]
        return fits[0] if fits else 1

    def emit(self) -> None:
        b, lanes, columns = self.b, self.elements.shape.lanes, self.of.columns
        width = self.vectors * lanes
        whole = b.sub(columns, b.rem(columns, width))
        with b.for_(0, whole, width) as loop:
            self._emit_columns(loop.index, self.vectors, None)
        with b.for_(whole, columns, lanes) as loop:
            self._emit_columns(loop.index, 1, b.tail_mask(b.sub(columns, loop.index), lanes))

    def _emit_columns(self, column: Value, vectors: int, mask: Value | None) -> None:
        b, of, lanes, cached = self.b, self.of, self.elements.shape.lanes, self.elements.cached
        element, memory = b.type(self.elements.shape.element), cached.in_memory(b)
        values, ahead = b.offset(of.values, memory, column), b.offset(of.ahead, memory, column)
        weights = [b.offset(of.weights, element, b.mul(of.weight_row, row)) for row in range(self.rows)]
        sums = [
            b.offset(of.sums, element, b.add(b.mul(of.sum_row, row), b.add(column, vector * lanes)))
            for row in range(self.rows)
            for vector in range(vectors)
        ]
        is_first, zero = b.cmp("ne", of.is_first, 0), b.splat(0, element, lanes)
        start = [b.select(is_first, zero, b.load(sum_, element, width=lanes)) for sum_ in sums]
        with b.for_(0, of.count, 1, start) as loop:
            row_ahead = b.offset(ahead, b.i8, b.mul(of.ahead_row, loop.index))
            for line in range(0, vectors * lanes, LINE // cached.bytes):
                b.prefetch(row_ahead, memory, line, locality=_SECOND_LEVEL)
            value = b.offset(values, memory, b.mul(of.value_row, loop.index))
            loaded = [cached.load(b, value, vector * lanes, width=lanes, mask=mask) for vector in range(vectors)]
            products: list[Value] = []
            for row, weight in enumerate(weights):
                factor = b.broadcast(b.load(weight, element, loop.index), lanes)
                earlier = loop.args[row * vectors : (row + 1) * vectors]
                products += [b.fma(x, factor, sum_) for x, sum_ in zip(loaded, earlier, strict=True)]
            loop.yield_(*products)
        for sum_, result in zip(sums, loop.results, strict=True):
            b.store(result, sum_)
