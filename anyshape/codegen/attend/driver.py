"""The driver of attention: query rows of one head against its keys, sizes and strides known at run time only.

`as_attend_<element>` takes a task record of 8-byte slots (`Slot`) and walks

    for each super-block of query rows
        for each chunk of keys                    K and V of a chunk, packed in panels, stay in the second-level cache
            for each tile of 1 to 6 query rows    scores in scratch, a row at a time to probabilities, then times V

Tiles are those of products: q·kᵀ with K in transposed panels, p·V with V in panels. Between chunks a row keeps its maximum and its sum
(online softmax), and its accumulated output is rescaled; with a single chunk this costs nothing, and what is packed then
serves every later call for the same head. One or two queries read K and V where they lie (`few`).

A tile's queries are copied, multiplied by the scale. Narrow elements are computed in f32: queries are widened in that copy, keys and
values when they are packed or read, and the result is rounded once. Scales of keys multiply their scores, and scales of values
their probabilities.

Chunks begin at multiples of the chunk's size, whatever the rows, so a row's result does not depend on how rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, auto

from anyshape.codegen.attend.elements import Elements
from anyshape.codegen.attend.few import Dots, Weigh, dots_name, emit_dots, emit_weigh, weigh_name
from anyshape.codegen.attend.pack import (
    emit_pack_panel,
    emit_pack_query,
    pack_panel_name,
    pack_query_name,
)
from anyshape.codegen.attend.softmax import MASK_KINDS, emit_softmax, softmax_arguments, softmax_name
from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.microkernel import AHEAD_LINES, TileTable
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, TileShape
from anyshape.dialects.packed_panels import PANEL

SUPER_ROWS = 32 * MAX_ROWS
"""Query rows whose accumulated outputs are in scratch at once."""
DIRECT_QUERIES = 2
"""Up to that many queries of a head nothing is packed."""


class Slot(IntEnum):
    """Slots of a task record; pointers, 64-bit integers, and the factor in the type of sums. Strides in elements."""

    ROWS = 0
    FIRST_ROW = auto()
    """Position of the first query among the keys, for causal masks."""
    KEYS = auto()
    HEAD = auto()
    VALUE_HEAD = auto()
    CHUNK = auto()
    """Keys of a chunk: a multiple of 64."""
    FACTOR = auto()
    """What queries are multiplied by: `query_factor`."""
    CAUSAL = auto()
    WINDOW = auto()
    """Keys that a query of a causal attention sees at most, its own position the last of them."""
    DIRECT = auto()
    PACK = auto()
    """0 when scratch holds this head's only chunk from the call before."""
    MASK_KIND = auto()
    """Index into `MASK_KINDS`."""
    QUERY = auto()
    QUERY_ROW = auto()
    QUERY_COLUMN = auto()
    KEY = auto()
    KEY_ROW = auto()
    KEY_COLUMN = auto()
    VALUE = auto()
    VALUE_ROW = auto()
    VALUE_COLUMN = auto()
    OUT = auto()
    OUT_ROW = auto()
    OUT_COLUMN = auto()
    MASK = auto()
    MASK_ROW = auto()
    MASK_KEY = auto()
    KEY_SCALE = auto()
    """Scales of the head's keys and values, where there are any."""
    KEY_SCALE_STEP = auto()
    VALUE_SCALE = auto()
    VALUE_SCALE_STEP = auto()
    NEXT_OUT = auto()
    """What the worker's next task reads and writes, with the same strides: prefetched; or this task's own."""
    NEXT_QUERY = auto()
    NEXT_VALUE = auto()
    NEXT_KEY = auto()
    PACKED_KEYS = auto()
    """Scratch: head size × chunk."""
    PACKED_VALUES = auto()
    """Scratch: value head rounded up to 64, × chunk."""
    SCORES = auto()
    """Scratch: six rows × chunk."""
    SUMS = auto()
    """Scratch: super-block rows × value head rounded up to 64."""
    STATE = auto()
    """Scratch: super-block rows × (maximum, sum)."""
    QUERY_COPY = auto()
    """Scratch: six rows × head size."""


SLOTS = len(Slot)
_POINTERS = {
    Slot.QUERY,
    Slot.KEY,
    Slot.VALUE,
    Slot.OUT,
    Slot.MASK,
    Slot.KEY_SCALE,
    Slot.VALUE_SCALE,
    *(slot for slot in Slot if slot >= Slot.NEXT_OUT),
}


_NEXT = (
    (Slot.NEXT_OUT, Slot.OUT_ROW),
    (Slot.NEXT_QUERY, Slot.QUERY_ROW),
    (Slot.NEXT_VALUE, Slot.VALUE_ROW),
    (Slot.NEXT_KEY, Slot.KEY_ROW),
)
"""What is prefetched, the last first, and from one row of it to the next."""
_OWN, _CACHED = (Slot.QUERY, Slot.OUT), (Slot.KEY, Slot.VALUE)
"""Buffers of the task's own element types; scratch has that of the tiles."""


def attend_name(element: str) -> str:
    """The symbol of the driver."""
    return f"as_attend_{element}"


def attend_arguments(b: Builder) -> list[Type]:
    """(task record)."""
    return [b.ptr]


def emit_attend_driver(module: ModuleBuilder, elements: Elements) -> None:
    """Define `attend_name(elements.name)`, its packing and its row functions; register tiles are those of products."""
    for kind in MASK_KINDS:
        emit_softmax(module, elements, kind)
    emit_pack_panel(module, elements)
    emit_pack_query(module, elements)
    shape = elements.shape
    b = Builder(shape.machine.features)
    emit_dots(module, elements)
    emit_weigh(module, elements)
    zeros = module.constant_bytes(bytes(PANEL * shape.element_bytes), alignment=64)
    with module.function(attend_name(elements.name), attend_arguments(b)) as f:
        head = _Head.read(b, elements, f.args[0], zeros)
        with b.for_(0, head.slot[Slot.ROWS], SUPER_ROWS) as loop:
            head.emit_super_block(loop.index)


@dataclass(frozen=True)
class _Chunk:
    """Keys [first, first + size) of the head."""

    first: Value
    size: Value


@dataclass
class _Head:
    """The driver under construction: the task's slots as values."""

    b: Builder
    elements: Elements
    slot: dict[Slot, Value]
    element: Type
    zeros: Value
    table: TileTable
    softmax: Value
    causal: Value
    direct: Value
    value_row: Value
    """From one row of accumulated outputs to the next: the value head rounded up to 64."""

    @staticmethod
    def read(b: Builder, elements: Elements, task: Value, zeros: str) -> _Head:
        element = b.type(elements.shape.element)
        types = dict.fromkeys(_POINTERS, b.ptr) | {Slot.FACTOR: element}
        slot = {slot: b.load(b.offset(task, b.i64, slot.value), types.get(slot, b.i64)) for slot in Slot}
        arguments = softmax_arguments(b, elements)
        rows = [b.function_address(softmax_name(elements.name, kind), arguments, [element]) for kind in MASK_KINDS]
        softmax = rows[0]
        for number, function in enumerate(rows[1:], 1):
            softmax = b.select(b.cmp("eq", slot[Slot.MASK_KIND], number), function, softmax)
        causal, direct = (b.cmp("ne", slot[name], 0) for name in (Slot.CAUSAL, Slot.DIRECT))
        value_row = b.and_(b.add(slot[Slot.VALUE_HEAD], PANEL - 1), -PANEL)
        table = TileTable.at_entry(b, elements.shape.element)
        return _Head(b, elements, slot, element, b.address_of(zeros), table, softmax, causal, direct, value_row)

    @property
    def shape(self) -> TileShape:
        return self.elements.shape

    def _at(self, slot: Slot, index: Value) -> Value:
        element = self.element
        if slot in (*_OWN, *_CACHED):
            element = (self.elements.own if slot in _OWN else self.elements.cached).in_memory(self.b)
        return self.b.offset(self.slot[slot], element, index)

    def _panels(self, count: Value, body: Callable[[Value, Value], None]) -> None:
        """`body(first column, columns)` for each panel of `count` columns."""
        b = self.b
        with b.for_(0, count, PANEL) as loop:
            body(loop.index, b.minimum(b.sub(count, loop.index), PANEL))

    # ---- super-blocks and chunks ---------------------------------------------------------------------------------

    def emit_super_block(self, first: Value) -> None:
        b, slot = self.b, self.slot
        rows = b.minimum(b.sub(slot[Slot.ROWS], first), SUPER_ROWS)
        with b.for_(0, rows) as row:
            state = self._at(Slot.STATE, b.mul(row.index, 2))
            b.store(b.const(self.element, float("-inf")), state)
            b.store(b.const(self.element, 0), state, 1)
        # A causal row i keeps keys up to i, so keys beyond the block's last row are never read.
        last = b.add(b.add(slot[Slot.FIRST_ROW], first), rows)
        keys = b.select(self.causal, b.minimum(slot[Slot.KEYS], last), slot[Slot.KEYS])
        oldest = self._first_seen(b.add(slot[Slot.FIRST_ROW], first))
        start = b.sub(oldest, b.rem(oldest, slot[Slot.CHUNK]))
        is_only = b.cmp("sle", slot[Slot.KEYS], slot[Slot.CHUNK])
        is_packed = b.or_(b.cmp("sgt", first, 0), b.cmp("eq", slot[Slot.PACK], 0))
        must_pack = b.not_(b.or_(self.direct, b.and_(is_only, is_packed)))
        with b.for_(start, keys, slot[Slot.CHUNK]) as loop:
            chunk = _Chunk(loop.index, b.minimum(b.sub(slot[Slot.KEYS], loop.index), slot[Slot.CHUNK]))
            packs = b.if_(must_pack)
            with packs.then():
                self._emit_pack(chunk)
            self._emit_tiles(chunk, first, rows)
        with b.for_(0, rows) as row:
            self._emit_result(row.index, b.add(first, row.index))

    def _emit_query(self, first: Value, rows: Value) -> None:
        """Copy a tile's queries, multiplied and widened."""
        b, slot = self.b, self.slot
        source = self._at(Slot.QUERY, b.mul(first, slot[Slot.QUERY_ROW]))
        steps = [slot[Slot.QUERY_ROW], slot[Slot.QUERY_COLUMN]]
        arguments = [source, *steps, rows, slot[Slot.HEAD], slot[Slot.FACTOR], slot[Slot.QUERY_COPY]]
        b.call(pack_query_name(self.elements.name), arguments)

    def _emit_pack(self, chunk: _Chunk) -> None:
        b, slot = self.b, self.slot
        pack = pack_panel_name(self.elements.name)

        def pack_keys(key: Value, keys: Value) -> None:
            source = self._at(Slot.KEY, b.mul(b.add(chunk.first, key), slot[Slot.KEY_ROW]))
            target = self._at(Slot.PACKED_KEYS, b.mul(key, slot[Slot.HEAD]))
            b.call(pack, [source, slot[Slot.KEY_COLUMN], slot[Slot.KEY_ROW], slot[Slot.HEAD], keys, target])

        def pack_values(column: Value, columns: Value) -> None:
            self._emit_pack_values(chunk, column, columns)

        self._panels(chunk.size, pack_keys)
        self._panels(slot[Slot.VALUE_HEAD], pack_values)

    def _emit_pack_values(self, chunk: _Chunk, column: Value, columns: Value) -> None:
        b, slot = self.b, self.slot
        source = self._value_source(chunk, column)
        steps = [slot[Slot.VALUE_ROW], slot[Slot.VALUE_COLUMN]]
        target = self._at(Slot.PACKED_VALUES, b.mul(column, slot[Slot.CHUNK]))
        b.call(pack_panel_name(self.elements.name), [source, *steps, chunk.size, columns, target])

    def _value_source(self, chunk: _Chunk, column: Value) -> Value:
        b, slot = self.b, self.slot
        index = b.add(b.mul(chunk.first, slot[Slot.VALUE_ROW]), b.mul(column, slot[Slot.VALUE_COLUMN]))
        return self._at(Slot.VALUE, index)

    # ---- tiles ---------------------------------------------------------------------------------------------------

    def _emit_tiles(self, chunk: _Chunk, first: Value, rows: Value) -> None:
        b, slot = self.b, self.slot
        tiles = b.div(b.add(rows, MAX_ROWS - 1), MAX_ROWS)
        low = b.div(rows, tiles)
        extra = b.sub(rows, b.mul(low, tiles))
        picked_high, picked_low = self.table.pick(b.add(low, 1)), self.table.pick(low)
        with b.for_(0, tiles) as tile:
            is_high = b.cmp("slt", tile.index, extra)
            row = b.add(b.mul(tile.index, low), b.minimum(tile.index, extra))
            count = b.select(is_high, b.add(low, 1), low)
            wide, narrow = (b.select(is_high, high, low_) for high, low_ in zip(picked_high, picked_low, strict=True))
            # Keys of the chunk that the tile's last row keeps.
            position = b.sub(b.add(b.add(slot[Slot.FIRST_ROW], first), row), chunk.first)
            limit = b.select(self.causal, b.minimum(b.add(position, count), chunk.size), chunk.size)
            # The chunk in which the tile's first row begins to see keys is the first one for all its rows.
            seen = b.sub(self._first_seen(b.add(position, chunk.first)), chunk.first)
            is_first = b.cmp("sge", seen, 0)
            some = b.if_(b.and_(b.cmp("sgt", limit, 0), b.cmp("slt", seen, chunk.size)))
            with some.then():
                self._emit_query(b.add(first, row), count)
                self._emit_scores(chunk, count, limit, (wide, narrow))
                self._emit_rows(chunk, b.add(first, row), row, count, limit, position, is_first)
                ahead = self._emit_ahead(b.sub(b.sub(tiles, 1), tile.index))
                self._emit_values(chunk, row, count, limit, (wide, narrow), ahead, is_first)

    def _first_seen(self, position: Value) -> Value:
        """The first key that the query at a position sees."""
        b = self.b
        return b.select(self.causal, b.maximum(b.sub(b.add(position, 1), self.slot[Slot.WINDOW]), 0), b.const(b.i64, 0))

    def _emit_ahead(self, tiles_left: Value) -> tuple[Value, Value]:
        """(address, bytes from a step to the next) of what a tile prefetches: the last tiles of a task take the next one's rows.

        A tile takes as many rows as it has keys, and of each as many bytes as it prefetches a step.
        """
        b, slot = self.b, self.slot
        taken = AHEAD_LINES * LINE
        # A head of no features has nothing to take, and must not be divided by.
        parts = b.maximum(b.div(b.add(b.mul(slot[Slot.HEAD], self.elements.own.bytes), taken - 1), taken), 1)
        turn = b.div(tiles_left, parts)
        pointer, row = slot[Slot.NEXT_OUT], b.const(b.i64, 0)
        for number, (next_, stride) in enumerate(_NEXT):
            stored = self.elements.cached if next_ in (Slot.NEXT_KEY, Slot.NEXT_VALUE) else self.elements.own
            is_turn = b.cmp("eq", turn, number)
            pointer = b.select(is_turn, slot[next_], pointer)
            row = b.select(is_turn, b.mul(slot[stride], stored.bytes), row)
        part = b.sub(tiles_left, b.mul(turn, parts))
        return b.offset(pointer, b.i8, b.mul(part, taken)), row

    def _emit_scores(self, chunk: _Chunk, rows: Value, limit: Value, picked: tuple[Value, Value]) -> None:
        b, slot = self.b, self.slot
        branch = b.if_(self.direct, has_else=True)
        with branch.then():
            # Values of the same keys are needed next.
            values = self._value_source(chunk, b.const(b.i64, 0))
            key = self._at(Slot.KEY, b.mul(chunk.first, slot[Slot.KEY_ROW]))
            arguments = Dots(
                slot[Slot.QUERY_COPY], rows, key, slot[Slot.KEY_ROW], slot[Slot.HEAD], limit,
                slot[Slot.SCORES], slot[Slot.CHUNK], values, self._row_bytes(Slot.VALUE_ROW),
            )  # fmt: skip
            b.call(dots_name(self.elements), arguments)

        def panel(key: Value, keys: Value) -> None:
            keys_panel = self._at(Slot.PACKED_KEYS, b.mul(key, slot[Slot.HEAD]))
            arguments = [
                slot[Slot.QUERY_COPY], slot[Slot.HEAD], keys_panel, b.const(b.i64, PANEL), self._at(Slot.SCORES, key), slot[Slot.CHUNK],
                slot[Slot.HEAD], self.zeros, b.const(b.i64, 0), keys, keys_panel, b.const(b.i64, 0),
            ]  # fmt: skip
            b.call_pointer(self.table.function(picked, keys), arguments)

        with branch.otherwise():
            self._panels(limit, panel)

    def _row_bytes(self, stride: Slot) -> Value:
        """Bytes from a key, or a value, to the next."""
        return self.b.mul(self.slot[stride], self.elements.cached.bytes)

    def _keys_behind(self, chunk: _Chunk) -> tuple[Value, Value]:
        """(address, bytes from a key to the next) of what is multiplied after a chunk: the next one, or the next task's first."""
        b, slot = self.b, self.slot
        end = b.add(chunk.first, chunk.size)
        is_last = b.cmp("sge", end, slot[Slot.KEYS])
        follows = self._at(Slot.KEY, b.mul(end, slot[Slot.KEY_ROW]))
        numbers = [b.address_number(slot[each]) for each in (Slot.KEY, Slot.NEXT_KEY)]
        nothing = b.and_(is_last, b.cmp("eq", *numbers))
        step = b.select(nothing, b.const(b.i64, 0), self._row_bytes(Slot.KEY_ROW))
        return b.select(is_last, slot[Slot.NEXT_KEY], follows), step

    def _emit_rows(
        self, chunk: _Chunk, query: Value, row: Value, rows: Value, limit: Value, position: Value, is_first: Value
    ) -> None:
        """Scores to probabilities; earlier chunks' sums to the new maximum. `query` counts from the task's first."""
        b, slot = self.b, self.slot
        with b.for_(0, rows) as loop:
            kept = b.minimum(b.add(b.add(position, loop.index), 1), limit)
            # The first rows of a causal tile may keep nothing of a later chunk.
            valid = b.select(self.causal, b.maximum(kept, 0), limit)
            mask_row = b.mul(b.add(query, loop.index), slot[Slot.MASK_ROW])
            state_row = b.add(row, loop.index)
            own = b.add(b.add(position, chunk.first), loop.index)
            row_of_scores = self._at(Slot.SCORES, b.mul(loop.index, slot[Slot.CHUNK]))
            self._emit_scale(row_of_scores, limit, chunk, Slot.KEY_SCALE)
            hidden = b.maximum(b.sub(self._first_seen(own), chunk.first), 0)
            scores, skipped = self._hide_first(row_of_scores, hidden, limit)
            arguments = [
                scores,
                self._mask_address(b.add(mask_row, b.mul(chunk.first, slot[Slot.MASK_KEY]))),
                slot[Slot.MASK_KEY],
                b.maximum(b.sub(valid, skipped), 0),
                b.sub(limit, skipped),
                self._at(Slot.STATE, b.mul(state_row, 2)),
            ]
            alpha = b.call_pointer(self.softmax, arguments, self.element)
            self._emit_scale(row_of_scores, limit, chunk, Slot.VALUE_SCALE)
            later = b.if_(b.not_(is_first))
            with later.then():
                self._emit_rescale(state_row, alpha)

    def _emit_scale(self, scores: Value, limit: Value, chunk: _Chunk, scale: Slot) -> None:
        """Multiply a row of scores, or of probabilities, by the scales of its keys, or values."""
        if not self.elements.are_scaled:
            return
        b, lanes, step = self.b, self.shape.lanes, self.slot[Slot(scale + 1)]
        with b.for_(0, limit, lanes) as loop:
            exists = b.tail_mask(b.sub(limit, loop.index), lanes)
            numbers = b.add(b.lane_numbers(lanes), b.add(chunk.first, loop.index))
            adjacent = b.if_(b.cmp("eq", step, 1), [b.vector_type(self.element, lanes)])
            with adjacent.then():
                first = b.add(chunk.first, loop.index)
                adjacent.yield_(b.load(self.slot[scale], self.element, first, width=lanes, mask=exists))
            with adjacent.otherwise():
                adjacent.yield_(b.gather(self.slot[scale], self.element, b.mul(numbers, step), mask=exists))
            scaled = b.mul(b.load(scores, self.element, loop.index, width=lanes), adjacent.results[0])
            b.store(scaled, scores, loop.index)

    def _hide_first(self, scores: Value, hidden: Value, limit: Value) -> tuple[Value, Value]:
        """A row of scores without the first `hidden` ones: (where it begins, how many come before that), whole vectors of which
        become 0, and the rest −∞."""
        b, lanes = self.b, self.shape.lanes
        count = b.minimum(hidden, limit)
        skipped = b.sub(count, b.rem(count, lanes))
        start = b.offset(scores, self.element, skipped)
        some = b.if_(b.cmp("sgt", count, 0))
        with some.then():
            with b.for_(0, skipped, lanes) as loop:
                b.store(b.splat(0, self.element, lanes), scores, loop.index)
            lowest = b.splat(float("-inf"), self.element, lanes)
            before = b.tail_mask(b.sub(count, skipped), lanes)
            b.store(b.select(before, lowest, b.load(start, self.element, width=lanes)), start)
        return start, skipped

    def _mask_address(self, index: Value) -> Value:
        """Address of a mask element: bytes for bool masks, else elements."""
        b = self.b
        is_bool = b.cmp("eq", self.slot[Slot.MASK_KIND], MASK_KINDS.index("bool"))
        step = b.select(is_bool, b.const(b.i64, 1), b.const(b.i64, self.elements.own.bytes))
        return b.offset(self.slot[Slot.MASK], b.i8, b.mul(index, step))

    def _emit_rescale(self, row: Value, alpha: Value | None) -> None:
        b, lanes = self.b, self.shape.lanes
        sums = self._at(Slot.SUMS, b.mul(row, self.value_row))
        with b.for_(0, self.slot[Slot.VALUE_HEAD], lanes) as loop:
            b.store(b.mul(b.load(sums, self.element, loop.index, width=lanes), alpha), sums, loop.index)

    def _emit_values(
        self,
        chunk: _Chunk,
        row: Value,
        rows: Value,
        limit: Value,
        picked: tuple[Value, Value],
        ahead: tuple[Value, Value],
        is_first: Value,
    ) -> None:
        b, slot = self.b, self.slot

        def panel(column: Value, columns: Value) -> None:
            packed = self._at(Slot.PACKED_VALUES, b.mul(column, slot[Slot.CHUNK]))
            sums = self._at(Slot.SUMS, b.add(b.mul(row, self.value_row), column))
            init = b.select(is_first, self.zeros, sums)
            init_stride = b.select(is_first, b.const(b.i64, 0), self.value_row)
            arguments = [
                slot[Slot.SCORES], slot[Slot.CHUNK], packed, b.const(b.i64, PANEL), sums, self.value_row, limit, init, init_stride,
                columns, *ahead,
            ]  # fmt: skip
            b.call_pointer(self.table.function(picked, columns), arguments)

        branch = b.if_(self.direct, has_else=True)
        with branch.then():
            arguments = Weigh(
                slot[Slot.SCORES], slot[Slot.CHUNK], rows, self._value_source(chunk, b.const(b.i64, 0)),
                slot[Slot.VALUE_ROW], slot[Slot.VALUE_HEAD], limit, self._at(Slot.SUMS, b.mul(row, self.value_row)),
                self.value_row, b.convert(is_first, b.i64, signed=False), *self._keys_behind(chunk),
            )  # fmt: skip
            b.call(weigh_name(self.elements), arguments)
        with branch.otherwise():
            self._panels(slot[Slot.VALUE_HEAD], panel)

    # ---- results -------------------------------------------------------------------------------------------------

    def _emit_result(self, row: Value, query: Value) -> None:
        """out[query] = sums[row] / sum, zero for a row that keeps no key."""
        b, slot, lanes = self.b, self.slot, self.shape.lanes
        sum_ = b.load(self._at(Slot.STATE, b.mul(row, 2)), self.element, 1)
        is_empty = b.cmp("oeq", sum_, 0.0)
        factor = b.broadcast(b.div(1.0, sum_), lanes)
        sums = self._at(Slot.SUMS, b.mul(row, self.value_row))
        out = self._at(Slot.OUT, b.mul(query, slot[Slot.OUT_ROW]))

        def result(column: Value) -> Value:
            values = b.mul(b.load(sums, self.element, column, width=lanes), factor)
            return b.select(is_empty, b.splat(0, self.element, lanes), values)

        adjacent = b.if_(b.cmp("eq", slot[Slot.OUT_COLUMN], 1), has_else=True)
        with adjacent.then(), b.for_(0, slot[Slot.VALUE_HEAD], lanes) as loop:
            left = b.sub(slot[Slot.VALUE_HEAD], loop.index)
            self.elements.own.store_first(b, result(loop.index), out, loop.index, left)
        with adjacent.otherwise(), b.for_(0, slot[Slot.VALUE_HEAD], lanes) as loop:
            exists = b.tail_mask(b.sub(slot[Slot.VALUE_HEAD], loop.index), lanes)
            positions = b.mul(b.add(b.lane_numbers(lanes), loop.index), slot[Slot.OUT_COLUMN])
            self.elements.own.scatter(b, result(loop.index), out, positions, mask=exists)
