"""A depth block of a panel of windows, from the image: target[k·64 + j] for the k of the block and the columns j of the panel.

Vectors are of neighbouring columns, or, where these lie far apart and window points side by side (a Fourier transform of frames, say), of
window points, in squares that are turned in registers. What lies beyond a panel's columns is 0 or left as it was: no tile stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, auto

from anyshape.codegen.builder import Builder
from anyshape.codegen.convolve.runs import MAX_PARTS, Runs
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.dot_tiles import FEW_COLUMNS
from anyshape.codegen.tiles.pack import transpose_square
from anyshape.dialects.packed_panels import PANEL


class Context(IntEnum):
    """What the functions of a kernel know beside their arguments: 8-byte slots."""

    BUFFERS = 0
    SIZES = auto()
    ERROR = auto()
    TABLES = auto()
    IMAGE = auto()
    """The first element of the channels of the group."""
    COLUMNS = auto()
    """Of the task."""
    CHANNEL = auto()
    """Elements from one channel to the next."""


def gather_arguments(b: Builder) -> list[Type]:
    """(context, panel of the task, first k, steps, target)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.ptr]


def emit_gather(module: ModuleBuilder, runs: Runs, element: str) -> str:
    """Define the function for elements of that type, and return its name: one for all kernels of the module whose tables look alike."""
    name = f"gather_{element}_{runs.tables_form}"
    if module.defines(name):
        return name
    b = Builder()
    with module.function(name, gather_arguments(b), internal=True) as f:
        context, panel, first, steps, target = f.args
        tables, image = (
            b.load(b.offset(context, b.i64, slot.value), b.ptr) for slot in (Context.TABLES, Context.IMAGE)
        )
        channel, columns = (
            b.load(b.offset(context, b.i64, slot.value), b.i64) for slot in (Context.CHANNEL, Context.COLUMNS)
        )
        columns = b.sub(columns, b.mul(panel, PANEL))
        tables = b.offset(tables, b.i8, b.mul(panel, runs.bytes))
        body = _Gather(b, runs, b.type(element), tables, image, columns)
        if runs.turns:
            body.emit_turned(first, steps, channel, target)
            return name
        c = b.div(first, runs.points)
        point = b.sub(first, b.mul(c, runs.points))

        def emit_rows(emit_row: Callable[[Value, Value, Value], None]) -> None:
            with b.for_(0, steps, 1, [point, b.mul(c, channel)]) as k:
                at, start = k.args
                emit_row(at, start, b.offset(target, body.element, b.mul(k.index, PANEL)))
                following = b.add(at, 1)
                ends = b.cmp("eq", following, runs.points)
                k.yield_(b.select(ends, 0, following), b.select(ends, b.add(start, channel), start))

        branch = b.if_(b.cmp("eq", body.whole, (1 << runs.vectors) - 1), has_else=True)
        with branch.then():
            emit_rows(body.emit_whole_row)
        with branch.otherwise():
            few = b.if_(b.cmp("sle", columns, FEW_COLUMNS), has_else=True)
            with few.then():
                emit_rows(body.emit_few_columns)
            with few.otherwise():
                emit_rows(body.emit_row)
    return name


class _Gather:
    """The function under construction; what every row reads is loaded ahead."""

    def __init__(self, b: Builder, runs: Runs, element: Type, tables: Value, image: Value, columns: Value) -> None:
        self.b, self.runs, self.element, self.image, self.columns = b, runs, element, image, columns
        self.offsets, self.masks, self.points = (runs.table(b, tables, name) for name in ("offsets", "masks", "points"))
        self.starts_of_columns = runs.table(b, tables, "columns")
        self.whole = b.load(runs.table(b, tables, "whole"), b.i64)
        starts = runs.table(b, tables, "starts")
        self.starts = [b.load(starts, b.i64, vector) for vector in range(runs.vectors + 1)]
        self.first = [b.load(self.offsets, b.i64, b.minimum(start, PANEL - 1)) for start in self.starts[:-1]]
        self.parts = _parts(runs)
        self.bits = [b.constant_vector(b.i32, _bits_of_part(runs, part, self.parts)) for part in range(self.parts)]

    def emit_turned(self, first: Value, steps: Value, channel: Value, target: Value) -> None:
        """All rows: as many window points of a channel as a vector has lanes at once, in a square that is turned; others row by row."""
        b, runs = self.b, self.runs

        def place(k: Value) -> tuple[Value, Value]:
            c = b.div(k, runs.points)
            return b.sub(k, b.mul(c, runs.points)), b.mul(c, channel)

        with b.for_(0, steps, runs.lanes) as block:
            point, start = place(b.add(first, block.index))
            end = b.add(block.index, runs.lanes)
            whole = b.and_(b.cmp("sle", end, steps), b.cmp("sle", b.add(point, runs.lanes), runs.points))
            branch = b.if_(whole, has_else=True)
            with branch.then():
                row = b.offset(target, self.element, b.mul(block.index, PANEL))
                self._emit_squares(b.add(start, b.load(self.points, b.i64, point)), row)
            with branch.otherwise(), b.for_(block.index, b.minimum(end, steps)) as k:
                own = place(b.add(first, k.index))
                self.emit_row(*own, b.offset(target, self.element, b.mul(k.index, PANEL)))

    def _emit_squares(self, element: Value, target: Value) -> None:
        """`lanes` rows of all columns, whose window points lie side by side from `element` on."""
        b, lanes = self.b, self.runs.lanes
        with b.for_(0, b.minimum(self.columns, PANEL), lanes) as vector:
            rows: list[Value] = []
            for lane in range(lanes):
                offset = b.load(b.offset(self.starts_of_columns, b.i64, b.add(vector.index, lane)), b.i64)
                rows.append(
                    b.load(b.offset(self.image, self.element, b.add(element, offset)), self.element, width=lanes)
                )
            for number, row in enumerate(transpose_square(b, rows)):
                b.store(row, b.offset(target, self.element, b.add(vector.index, number * PANEL)))

    def emit_whole_row(self, point: Value, start: Value, target: Value) -> None:
        """As `emit_row`, of a panel whose vectors all are `whole`."""
        element, _ = self._places(point, start)
        for vector in range(self.runs.vectors):
            self.b.store(self._load_whole(vector, element), self._at(target, vector))

    def emit_few_columns(self, point: Value, start: Value, target: Value) -> None:
        """As `emit_row`, of so few columns that nobody reads what lies beyond them."""
        b, lanes = self.b, self.runs.lanes
        element, masks = self._places(point, start)
        for first in range(0, FEW_COLUMNS, lanes):
            branch = b.if_(b.cmp("sgt", self.columns, first))
            with branch.then():
                vector = self._emit_vector(first // lanes, element, masks)
                b.store(vector, b.offset(target, self.element, first))

    def _places(self, point: Value, start: Value) -> tuple[Value, Value]:
        """The element that the window point of a channel adds, and its masks."""
        b, runs = self.b, self.runs
        element = b.add(start, b.load(self.points, b.i64, point))
        return element, self.masks if runs.is_inside else b.offset(self.masks, b.i32, b.mul(point, PANEL))

    def emit_row(self, point: Value, start: Value, target: Value) -> None:
        """All columns of one k: a window point, and the channel that starts at element `start`."""
        b, runs = self.b, self.runs
        element, masks = self._places(point, start)
        for vector in range(runs.vectors):
            at = self._at(target, vector)
            # The same in every row: no branch is mispredicted for long.
            whole = b.if_(b.cmp("ne", b.and_(self.whole, 1 << vector), 0), has_else=True)
            with whole.then():
                b.store(self._load_whole(vector, element), at)
            with whole.otherwise():
                branch = b.if_(b.cmp("slt", b.const(b.i64, vector * runs.lanes), self.columns), has_else=True)
                with branch.then():
                    b.store(self._emit_vector(vector, element, masks), at)
                with branch.otherwise():
                    b.store(b.splat(0, self.element, runs.lanes), at)

    def _at(self, target: Value, vector: int) -> Value:
        return self.b.offset(target, self.element, vector * self.runs.lanes)

    def _load_whole(self, vector: int, element: Value) -> Value:
        """A vector that is one run with all its lanes inside."""
        b, lanes = self.b, self.runs.lanes
        address = b.offset(self.image, self.element, b.add(element, self.first[vector]))
        if self.runs.stride == 1:
            return b.load(address, self.element, width=lanes)
        zeros = [b.splat(0, self.element, lanes)] * self.parts
        parts = self._load_parts(address, [b.cmp("ne", bits, 0) for bits in self.bits], zeros)
        return _picked(b, parts, self.parts, lanes)

    def _emit_vector(self, vector: int, element: Value, masks: Value) -> Value:
        b = self.b
        first, end = self.starts[vector], self.starts[vector + 1]
        zero = b.splat(0, self.element, self.runs.lanes)
        parts = self._load_run(b.add(element, self.first[vector]), b.load(masks, b.i32, first), [zero] * self.parts)
        with b.for_(b.add(first, 1), end, 1, parts) as run:
            offset = b.load(self.offsets, b.i64, run.index)
            run.yield_(*self._load_run(b.add(element, offset), b.load(masks, b.i32, run.index), run.args))
        return _picked(b, run.results, self.parts, self.runs.lanes)

    def _load_run(self, element: Value, mask: Value, others: Sequence[Value]) -> list[Value]:
        """The vectors whose elements the lanes of one run are among; `others` where the mask is off."""
        b, lanes = self.b, self.runs.lanes
        address = b.offset(self.image, self.element, element)
        masks = [b.cmp("ne", b.and_(b.broadcast(mask, lanes), bits), 0) for bits in self.bits]
        return self._load_parts(address, masks, others)

    def _load_parts(self, address: Value, masks: Sequence[Value], others: Sequence[Value]) -> list[Value]:
        b, lanes, stride = self.b, self.runs.lanes, self.runs.stride
        if self.parts != stride:
            places = b.mul(b.lane_numbers(lanes), stride)
            return [b.gather(address, self.element, places, mask=masks[0], passthru=others[0])]
        return [
            b.load(b.offset(address, self.element, part * lanes), self.element, width=lanes, mask=own, passthru=other)
            for part, (own, other) in enumerate(zip(masks, others, strict=True))
        ]


def _parts(runs: Runs) -> int:
    """Vectors that a run is loaded as: `stride` whole ones, of which every stride-th element is taken, or one of single elements."""
    return runs.stride if runs.stride <= MAX_PARTS and runs.lanes % runs.stride == 0 else 1


def _bits_of_part(runs: Runs, part: int, parts: int) -> list[int]:
    """For each element of a part the bit of the lane that takes it, or none."""
    first = part * runs.lanes // parts
    return [0 if element % parts else 1 << (first + element // parts) for element in range(runs.lanes)]


def _picked(b: Builder, vectors: Sequence[Value], step: int, lanes: int) -> Value:
    """Every step-th element of vectors of so many lanes one after another."""
    if step == 1:
        return vectors[0]
    rows: list[Value] = []
    for pair in range(0, step, 2):
        rows.append(b.shuffle(vectors[pair], vectors[pair + 1], list(range(0, 2 * lanes, step))))
    while len(rows) > 1:
        count = 2 * (b.width(rows[0]) or 1)
        rows = [b.shuffle(rows[pair], rows[pair + 1], list(range(count))) for pair in range(0, len(rows), 2)]
    return rows[0]


__all__ = ["Context", "emit_gather", "gather_arguments"]
