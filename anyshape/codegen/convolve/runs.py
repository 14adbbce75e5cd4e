"""Where the columns of a panel lie in the image, written down once for each panel.

A panel is `PANEL` neighbouring columns (b, y…), cut into vectors of `lanes`. The columns of a vector that lie in one line of the result
meet, at each window point, elements of one line of the image that are `stride` apart: a *run*. With lane l of the vector at element
`offset + l·stride + (that of the window point)`, two runs with equal offsets are one, so with stride 1 and as many places as elements
a vector has a single run, wherever its lines end. For each window point and run a mask says which lanes lie in the image.

| table | entries | what |
|---|---|---|
| starts | vectors + 1, i64 | the first run of each vector, and their number |
| offsets | `PANEL`, i64 | of each run, in elements from the image's first one of the batch point 0 |
| masks | window points × `PANEL`, i32 | bit l: lane l of the run |
| points | window points, i64 | the element of each window point, from that of the first |
| columns | `PANEL`, i64 | the element of each column's window, where window points are turned (`Runs.turns`) |
| whole | 1, i64 | bit v: vector v is one run, whose lanes all lie in the image at each window point |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.records import symbols_of
from anyshape.codegen.sizes import emit_size
from anyshape.codegen.tiles.shape import LINE
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile.ops import BufferType
from anyshape.dialects.tile.window import WindowAttr
from anyshape.symbolic import Size

MAX_LANES = 16
"""Lanes of a run: the bits of a mask are those of a word."""
MAX_PARTS = 8
"""Up to that many vectors are loaded for one of every so manieth element: more take longer than its elements one by one."""


@dataclass(frozen=True)
class Runs:
    """The tables of one kernel.

    Args:
        window: the windows.
        image: the buffer [b, channels, s…].
        lanes: of a vector.
    """

    window: WindowAttr
    image: BufferType
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors of a panel."""
        return PANEL // self.lanes

    @property
    def points(self) -> int:
        return self.window.points

    @property
    def is_inside(self) -> bool:
        """Masks are those of the first window point: no place is outside the image."""
        return bool(self.window.is_inside.data)

    @property
    def turns(self) -> bool:
        """Whether places lie so far apart, and window points side by side, that vectors of window points are loaded and turned."""
        window = self.window
        adjacent = window.spatial == 1 and tuple(window.dilation.get_values()) == (1,) and self.points >= self.lanes
        return adjacent and self.is_inside and self.stride > MAX_PARTS

    @property
    def stride(self) -> int:
        """Elements from one lane to the next."""
        return self.window.strides.get_values()[-1]

    @property
    def tables_form(self) -> str:
        """Names all that decides where the tables are and how they are read: code that sees nothing else is the same."""
        flags = "".join(letter for letter, is_so in (("i", self.is_inside), ("t", self.turns)) if is_so)
        return f"{self.lanes}x{self.points}s{self.stride}{flags}"

    @cached_property
    def places(self) -> dict[str, int]:
        """The byte at which each table starts."""
        sizes = {
            "starts": 8 * (self.vectors + 1),
            "offsets": 8 * PANEL,
            "masks": 4 * PANEL * (1 if self.is_inside else self.points),
            "points": 8 * self.points,
            "columns": 8 * PANEL if self.turns else 0,
            "whole": 8,
        }
        found: dict[str, int] = {}
        end = 0
        for table, size in sizes.items():
            found[table] = end
            end += -(-size // LINE) * LINE
        found["end"] = end
        return found

    @property
    def bytes(self) -> int:
        return self.places["end"]

    def table(self, b: Builder, tables: Value, name: str) -> Value:
        """The address of a table."""
        return b.offset(tables, b.i8, self.places[name])


@dataclass(frozen=True)
class _Column:
    """A column under way: the batch point, and the place along each spatial axis."""

    batch: Value
    places: tuple[Value, ...]


def points_arguments(b: Builder) -> list[Type]:
    """(sizes, tables)."""
    return [b.ptr, b.ptr]


def runs_arguments(b: Builder) -> list[Type]:
    """(sizes, tables, first column, columns)."""
    return [b.ptr, b.ptr, b.i64, b.i64]


def emit_points(module: ModuleBuilder, name: str, symbols: Sequence[str], runs: Runs) -> None:
    """Define the function that fills the table of window points, once in a launch."""
    b = Builder()
    window = runs.window
    with module.function(name, points_arguments(b), internal=True) as f:
        code = _Code.of(b, runs, f.args[0], symbols)
        table = runs.table(b, f.args[1], "points")

        def nest(axis: int, number: Value, element: Value) -> None:
            if axis == window.spatial:
                b.store(element, b.offset(table, b.i64, number))
                return
            extent, step = window.extents.get_values()[axis], window.dilation.get_values()[axis]
            with b.for_(0, extent) as point:
                moved = b.mul(b.mul(point.index, step), code.strides[axis])
                nest(axis + 1, b.add(b.mul(number, extent), point.index), b.add(element, moved))

        nest(0, b.const(b.i64, 0), b.const(b.i64, 0))


@dataclass(frozen=True)
class _Code:
    """Sizes of the image and of the result, as values."""

    b: Builder
    runs: Runs
    batch_stride: Value
    strides: tuple[Value, ...]
    extents: tuple[Value, ...]
    sizes: tuple[Value, ...]

    @staticmethod
    def of(b: Builder, runs: Runs, table: Value, names: Sequence[str]) -> _Code:
        symbols = symbols_of(b, table, names)

        def values(sizes: Sequence[Size]) -> tuple[Value, ...]:
            return tuple(emit_size(b, size, symbols) for size in sizes)

        batch, _, *strides = runs.image.strides.data
        (first,) = values([batch])
        return _Code(b, runs, first, values(strides), values(runs.image.sizes.data[2:]), values(runs.window.sizes.data))

    def column(self, number: Value) -> _Column:
        """The column of that number."""
        b = self.b
        places: list[Value] = []
        for size in reversed(self.sizes):
            quotient = b.div(number, size)
            places.insert(0, b.sub(number, b.mul(quotient, size)))
            number = quotient
        return _Column(number, tuple(places))

    def after(self, column: _Column, count: Value) -> _Column:
        """The column `count` further on, which is at most the first of the next line."""
        b = self.b
        places = [*column.places[:-1], b.add(column.places[-1], count)]
        for axis in reversed(range(len(places))):
            ends = b.cmp("sge", places[axis], self.sizes[axis])
            places[axis] = b.select(ends, 0, places[axis])
            if axis:
                places[axis - 1] = b.add(places[axis - 1], b.convert(ends, b.i64, signed=False))
            else:
                return _Column(b.add(column.batch, b.convert(ends, b.i64, signed=False)), tuple(places))
        return _Column(column.batch, tuple(places))

    def positions(self, column: _Column) -> list[Value]:
        """Where the column's window begins in the image."""
        b, window = self.b, self.runs.window
        numbers = zip(column.places, window.strides.get_values(), window.padding.get_values(), strict=True)
        return [b.sub(b.mul(place, stride), before) for place, stride, before in numbers]


def emit_runs(module: ModuleBuilder, name: str, symbols: Sequence[str], runs: Runs) -> None:
    """Define the function that fills the other tables for the columns [first, first + columns), 0 < columns <= `PANEL`."""
    b = Builder()
    with module.function(name, runs_arguments(b), internal=True) as f:
        sizes, tables, first, columns = f.args
        code = _Code.of(b, runs, sizes, symbols)
        starts = runs.table(b, tables, "starts")
        for vector in range(runs.vectors + 1):
            b.store(b.const(b.i64, 0), b.offset(starts, b.i64, vector))
        line = code.sizes[-1]
        breaks = b.sub(b.div(b.add(first, b.sub(columns, 1)), line), b.div(first, line))
        most = b.add(breaks, b.div(b.add(columns, runs.lanes - 1), runs.lanes))
        column = code.column(first)
        state = [b.const(b.i64, 0), b.const(b.i64, -1), b.const(b.i64, 0), column.batch, *column.places]
        with b.for_(0, most, 1, state) as loop:
            done, last, offset, batch, *places = loop.args
            branch = b.if_(b.cmp("slt", done, columns), [b.i64] * len(state))
            with branch.then():
                branch.yield_(*_emit_run(code, tables, columns, (done, last, offset), _Column(batch, tuple(places))))
            with branch.otherwise():
                branch.yield_(*loop.args)
            loop.yield_(*branch.results)
        if runs.turns:
            _emit_columns(code, runs.table(b, tables, "columns"), first, columns)
        # Vectors without columns have no run: theirs begin where those before end.
        before = b.const(b.i64, 0)
        for vector in range(1, runs.vectors + 1):
            at = b.offset(starts, b.i64, vector)
            before = b.maximum(before, b.load(at, b.i64))
            b.store(before, at)
        _emit_whole(b, runs, tables)


def _emit_whole(b: Builder, runs: Runs, tables: Value) -> None:
    """Write down which vectors are one run that is inside at each window point."""
    starts, masks = (runs.table(b, tables, name) for name in ("starts", "masks"))
    firsts = [b.load(starts, b.i64, vector) for vector in range(runs.vectors + 1)]
    all_lanes = b.const(b.i32, (1 << runs.lanes) - 1)
    with b.for_(0, 1 if runs.is_inside else runs.points, 1, [all_lanes] * runs.vectors) as point:
        own = b.offset(masks, b.i32, b.mul(point.index, PANEL))
        places = [b.minimum(first, PANEL - 1) for first in firsts[:-1]]  # a vector without columns has no run
        point.yield_(*(b.and_(inside, b.load(own, b.i32, at)) for inside, at in zip(point.args, places, strict=True)))
    whole = b.const(b.i64, 0)
    for vector, (inside, (first, end)) in enumerate(zip(point.results, pairwise(firsts), strict=True)):
        is_whole = b.and_(b.cmp("eq", b.sub(end, first), 1), b.cmp("eq", inside, all_lanes))
        whole = b.or_(whole, b.shl(b.convert(is_whole, b.i64, signed=False), vector))
    b.store(whole, runs.table(b, tables, "whole"))


def _emit_columns(code: _Code, table: Value, first: Value, columns: Value) -> None:
    """Write down where each column's window begins; columns beyond the panel's are the last one."""
    b = code.b
    start = code.column(first)
    with b.for_(0, PANEL, 1, [start.batch, *start.places]) as loop:
        batch, *places = loop.args
        column = _Column(batch, tuple(places))
        offset = b.mul(column.batch, code.batch_stride)
        for position, stride in zip(code.positions(column), code.strides, strict=True):
            offset = b.add(offset, b.mul(position, stride))
        b.store(offset, b.offset(table, b.i64, loop.index))
        after = code.after(column, b.const(b.i64, 1))
        goes_on = b.cmp("slt", b.add(loop.index, 1), columns)
        following = zip((after.batch, *after.places), loop.args, strict=True)
        loop.yield_(*(b.select(goes_on, new, old) for new, old in following))


def _emit_run(
    code: _Code, tables: Value, columns: Value, state: tuple[Value, Value, Value], column: _Column
) -> list[Value]:
    """Write down the run that begins at a column; the state after it.

    Args:
        state: columns done, the number of the run before, and its offset.
    """
    b, runs = code.b, code.runs
    done, last, previous = state
    lane = b.and_(done, runs.lanes - 1)
    left = b.minimum(b.sub(columns, done), b.sub(runs.lanes, lane))
    count = b.minimum(left, b.sub(code.sizes[-1], column.places[-1]))
    positions = code.positions(column)
    offset = b.mul(column.batch, code.batch_stride)
    for position, stride in zip(positions, code.strides, strict=True):
        offset = b.add(offset, b.mul(position, stride))
    offset = b.sub(offset, b.mul(lane, runs.stride))
    goes_on = b.and_(b.cmp("ne", lane, 0), b.cmp("eq", offset, previous))
    number = b.select(goes_on, last, b.add(last, 1))
    b.store(offset, b.offset(runs.table(b, tables, "offsets"), b.i64, number))
    vector = b.div(done, runs.lanes)
    b.store(b.add(number, 1), b.offset(runs.table(b, tables, "starts"), b.i64, b.add(vector, 1)))
    masks = b.offset(runs.table(b, tables, "masks"), b.i32, number)
    _emit_masks(code, masks, _Lanes(lane, count, goes_on), positions)
    after = code.after(column, count)
    return [b.add(done, count), number, offset, after.batch, *after.places]


@dataclass(frozen=True)
class _Lanes:
    """The lanes [first, first + count) of a run, which has others already where it `goes_on`."""

    first: Value
    count: Value
    goes_on: Value


def _emit_masks(code: _Code, masks: Value, lanes: _Lanes, positions: Sequence[Value]) -> None:
    """The mask of a run at each window point, that are `PANEL` entries apart."""
    b, window = code.b, code.runs.window
    if code.runs.is_inside:
        _add_lanes(code, masks, lanes, b.const(b.i64, 0), lanes.count)
        return

    def nest(axis: int, number: Value, is_there: Value) -> None:
        extent, step = window.extents.get_values()[axis], window.dilation.get_values()[axis]
        with b.for_(0, extent) as point:
            place = b.add(positions[axis], b.mul(point.index, step))
            inner = b.add(b.mul(number, extent), point.index)
            if axis < window.spatial - 1:
                inside = b.cmp("ult", place, code.extents[axis])
                nest(axis + 1, inner, b.and_(is_there, inside))
                return
            stride = code.runs.stride
            low = b.minimum(b.maximum(b.ceildiv(b.neg(place), stride), 0), lanes.count)
            high = b.minimum(b.maximum(b.ceildiv(b.sub(code.extents[axis], place), stride), 0), lanes.count)
            _add_lanes(code, b.offset(masks, b.i32, b.mul(inner, PANEL)), lanes, low, b.select(is_there, high, 0))

    nest(0, b.const(b.i64, 0), b.const(b.i1, 1))


def _add_lanes(code: _Code, mask: Value, lanes: _Lanes, low: Value, high: Value) -> None:
    """Set the lanes [low, high) of those of `lanes` in a mask."""
    b = code.b

    def below(lane: Value) -> Value:
        return b.sub(b.shl(b.const(b.i64, 1), lane), 1)

    bits = b.and_(below(high), b.xor(below(low), -1))
    bits = b.convert(b.shl(bits, lanes.first), b.i32)
    earlier = b.select(lanes.goes_on, b.load(mask, b.i32), 0)
    b.store(b.or_(bits, earlier), mask)


__all__ = ["MAX_LANES", "MAX_PARTS", "Runs", "emit_points", "emit_runs", "points_arguments", "runs_arguments"]
