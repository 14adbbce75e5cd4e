"""`tile.attend` as a kernel: what its tasks are, and the small function that hands each of them to the driver.

A task is (batch, head, block of query rows), blocks running fastest. The blocks of a head that fall to one worker are one call of
the driver, and what was packed for a head serves the next ones that share its keys. With a single query the heads that share keys
take the part of its rows, so that keys are read once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from anyshape.codegen.attend.driver import (
    DIRECT_QUERIES,
    SLOTS,
    SUPER_ROWS,
    Slot,
    attend_arguments,
    attend_name,
)
from anyshape.codegen.attend.elements import ATTEND_ELEMENTS, CACHED_ELEMENTS, SCALED, Elements, attend_elements
from anyshape.codegen.attend.softmax import MASK_KINDS, query_factor
from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.points import EmittedKernel
from anyshape.codegen.sizes import emit_size
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.tiles.shape import MAX_ROWS
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile.ops import AttendOp, KernelOp, buffer_of
from anyshape.kernels.cost import AttentionWork, attention_time, grain_of
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_BLOCK_ROWS = 8 * MAX_ROWS
_OWN = (Slot.QUERY, Slot.KEY, Slot.VALUE, Slot.OUT, Slot.MASK)
_SCALES = (Slot.KEY_SCALE, Slot.VALUE_SCALE)
_NEXT = (Slot.NEXT_QUERY, Slot.NEXT_KEY, Slot.NEXT_VALUE, Slot.NEXT_OUT)
_NO_WINDOW = 1 << 40
"""More keys than there are."""
_AHEAD_KEYS = 512
"""Up to that many keys the next line's rows are prefetched: of more, what is multiplied outweighs what is read."""
_KNOWN = f"{', '.join(ATTEND_ELEMENTS)} throughout, or keys and values of {', '.join(CACHED_ELEMENTS)} beside f32"
_USUAL_HEAD = 64
"""What chunks are sized for where a head's size is unknown."""


def can_attend(op: AttendOp) -> str | None:
    """None when `emit_attend` takes the op, else the reason why it does not."""
    types = [buffer_of(value).element_type for value in (op.query, op.key, op.value, op.out)]
    own, cached = str(types[0]), str(types[1])
    known = own in ATTEND_ELEMENTS and (cached == own or (own == "f32" and cached in CACHED_ELEMENTS))
    if types[0] != types[3] or types[1] != types[2] or not known:
        return f"attention over {', '.join(map(str, types))}; the driver exists for {_KNOWN}"
    if (cached == SCALED) != bool(op.scales):
        return f"scales belong to keys and values of {SCALED}, and to no others"
    mask = None if op.mask is None else buffer_of(op.mask).element_type
    if mask not in (None, IntegerType(1), types[0]):
        return f"the mask is {mask}; expected i1 or {types[0]}"
    if any(str(buffer_of(each).element_type) != "f32" for each in op.scales):
        return "scales are f32"
    return None


def attend_schedule(op: AttendOp, machine: Machine) -> Schedule:
    """The schedule of an attention; sizes over the kernel's symbols."""
    layout = _Layout.of(op, machine)
    batch, heads = op.extents.data[:2]
    extent = batch * heads * layout.blocks
    task = attention_time(_work(op, machine).task(_BLOCK_ROWS), machine, footprint=machine.l2)
    return Schedule(extent, grain_of(task, machine), layout.scratch_bytes)


def attend_time(op: AttendOp, machine: Machine) -> Size:
    """What the cost model expects of an attention on one core; see `anyshape.kernels.cost`."""
    return attention_time(_work(op, machine), machine)


def reads_in_place(op: AttendOp) -> bool:
    """Whether a few queries may read keys and values where they lie."""
    return all(buffer_of(each).strides.data[-1].constant_or(None) == 1 for each in (op.key, op.value))


def elements_name(op: AttendOp) -> str:
    """What the elements of an attention are called; see `Elements.of`."""
    own, cached = (str(buffer_of(each).element_type) for each in (op.query, op.key))
    return attend_elements(own, cached)


def _work(op: AttendOp, machine: Machine) -> AttentionWork:
    elements = _elements_of(op, machine)
    key_bytes = elements.cached.bytes
    return AttentionWork.of(op, key_bytes, elements.shape.element_bytes, DIRECT_QUERIES if reads_in_place(op) else 0)


def _elements_of(op: AttendOp, machine: Machine) -> Elements:
    return Elements.of(elements_name(op), machine)


@dataclass(frozen=True)
class _Layout:
    """Blocks of query rows, and the parts of a worker's scratch in bytes."""

    elements: Elements
    blocks: Size
    chunk: Size
    """Keys of a chunk, a multiple of 64; at least 64."""
    parts: dict[Slot, Size]
    mask_kind: int

    @staticmethod
    def of(op: AttendOp, machine: Machine) -> _Layout:
        reason = can_attend(op)
        if reason is not None:
            raise CodegenError(
                "this attention cannot be claimed",
                where="tile.attend",
                got=reason,
                expected=_KNOWN,
                remedy="check `can_attend` first",
            )
        elements = _elements_of(op, machine)
        bytes_ = elements.shape.element_bytes
        _, _, _, queries, keys, head, value_head = op.extents.data
        widths = head.constant_or(_USUAL_HEAD) + value_head.constant_or(_USUAL_HEAD)
        longest = max(PANEL, machine.l2 // 2 // (widths * bytes_ + 1) // PANEL * PANEL)
        chunk = size_max(PANEL, size_min(longest, (keys + (PANEL - 1)) // PANEL * PANEL))
        value_row = (value_head + (PANEL - 1)) // PANEL * PANEL
        counts = {
            Slot.PACKED_KEYS: chunk * head,
            Slot.PACKED_VALUES: chunk * value_row,
            Slot.SCORES: chunk * MAX_ROWS,
            Slot.SUMS: value_row * SUPER_ROWS,
            Slot.STATE: Size.const(2 * SUPER_ROWS),
            Slot.QUERY_COPY: head * MAX_ROWS,
        }
        blocks = (queries + (_BLOCK_ROWS - 1)) // _BLOCK_ROWS
        parts = {slot: count * bytes_ for slot, count in counts.items()}
        mask = None if op.mask is None else buffer_of(op.mask).element_type
        kind = "none" if mask is None else "bool" if isinstance(mask, IntegerType) else "float"
        return _Layout(elements, blocks, chunk, parts, MASK_KINDS.index(kind))

    @property
    def scratch_bytes(self) -> Size:
        return sum(self.parts.values(), Size.const(0))


def emit_attend(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of an attention. Its driver is external: link `microkernels.shared_objects`."""
    op = cast(AttendOp, op)
    layout = _Layout.of(op, machine)
    b = Builder()
    module.declare(attend_name(layout.elements.name), attend_arguments(b))
    name = kernel.sym_name.data
    with module.function(name, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as f:
        task = b.alloca(b.i64, SLOTS)
        last_head = b.alloca(b.i64, 1)
        body = _KernelBody(b, kernel, op, layout, f.args, task, last_head)
        body.store_fixed_slots()
        body.emit()
    return EmittedKernel(name, layout.scratch_bytes)


@dataclass(frozen=True)
class _Lines:
    """A line is what of the tasks shares keys: a head with its queries, or, with a single query, all heads of the same keys.

    Args:
        heads: lines of a batch point.
        blocks: tasks of a line.
        rows: query rows of a line.
        shared_by: lines that share a key head.
        grouped: (whether lines are groups of heads, heads of a group); None where they never are.
    """

    heads: Value
    blocks: Value
    rows: Value
    shared_by: Value
    grouped: tuple[Value, Value] | None


class _KernelBody:
    """The body of a kernel under construction."""

    def __init__(
        self,
        b: Builder,
        kernel: KernelOp,
        op: AttendOp,
        layout: _Layout,
        args: list[Value],
        task: Value,
        last_head: Value,
    ) -> None:
        self.b, self.op, self.layout, self.args, self.task, self.last_head = b, op, layout, args, task, last_head
        self.symbols = {name: b.load(args[1], b.i64, number) for number, name in enumerate(kernel.symbol_names)}
        self.element = b.type(layout.elements.shape.element)
        names = ("batch", "heads", "key_heads", "queries", "keys", "head", "value_head")
        self.extents = {
            name: emit_size(b, size, self.symbols) for name, size in zip(names, op.extents.data, strict=True)
        }
        self.strides = {
            buffer: [emit_size(b, stride, self.symbols) for stride in buffer_of(buffer).strides.data]
            for buffer in (op.query, op.key, op.value, op.out, *([] if op.mask is None else [op.mask]), *op.scales)
        }
        self.lines = self._make_lines()
        keys, queries = self.extents["keys"], self.extents["queries"]
        self.past = b.const(b.i64, 0) if op.after_past is None else b.sub(keys, queries)
        self.first_key = self._first_key()
        adjacent = b.and_(*(b.cmp("eq", self.strides[buffer][-1], 1) for buffer in (op.key, op.value)))
        self.direct = b.and_(adjacent, b.cmp("sle", queries, DIRECT_QUERIES))

    def _make_lines(self) -> _Lines:
        b, extents = self.b, self.extents
        blocks = emit_size(b, self.layout.blocks, self.symbols)
        shared_by = b.div(extents["heads"], extents["key_heads"])
        plain = _Lines(extents["heads"], blocks, extents["queries"], shared_by, None)
        single = self.op.extents.data[3].constant_or(1) == 1
        if not single or self.op.extents.data[1] == self.op.extents.data[2] or self._hides_from_one:
            return plain
        grouped = b.cmp("eq", extents["queries"], 1)

        def choose(x: Value, y: Value) -> Value:
            return b.select(grouped, x, y)

        return _Lines(
            choose(extents["key_heads"], plain.heads),
            choose(shared_by, plain.blocks),
            choose(shared_by, plain.rows),
            choose(b.const(b.i64, 1), plain.shared_by),
            (grouped, shared_by),
        )

    def _first_key(self) -> Value:
        """The first key that is looked at: of a single query behind its past, the first of its window, so that none has to be hidden."""
        b, zero = self.b, self.b.const(self.b.i64, 0)
        if self.op.window is None or self.op.after_past is None:
            return zero
        first = b.maximum(b.sub(self.extents["keys"], self.op.window.value.data), 0)
        return b.select(b.cmp("eq", self.extents["queries"], 1), first, zero)

    @property
    def _hides_from_one(self) -> bool:
        """Whether a single query may be hidden keys by its position: not where it is the last of them."""
        return self.op.causal is not None and self.op.after_past is None

    def _line_strides(self, buffer: SSAValue) -> list[Value]:
        """Strides of (batch, line's head, line's row) for a buffer with the queries' heads."""
        b = self.b
        batch, head, row = self.strides[buffer][:3]
        if self.lines.grouped is None:
            return [batch, head, row]
        grouped, shared_by = self.lines.grouped
        return [batch, b.select(grouped, b.mul(head, shared_by), head), b.select(grouped, head, row)]

    def _set(self, slot: Slot, value: Value | int) -> None:
        value = self.b.const(self.b.i64, value) if isinstance(value, int) else value
        self.b.store(value, self.b.offset(self.task, self.b.i64, slot.value))

    def store_fixed_slots(self) -> None:
        """The slots that are the same for every head."""
        b, op, extents = self.b, self.op, self.extents
        self._set(Slot.KEYS, b.sub(extents["keys"], self.first_key))
        self._set(Slot.WINDOW, _NO_WINDOW if op.window is None else op.window.value.data)
        self._set(Slot.HEAD, extents["head"])
        self._set(Slot.VALUE_HEAD, extents["value_head"])
        self._set(Slot.CHUNK, emit_size(b, self.layout.chunk, self.symbols))
        factor = query_factor(op.scale.value.data, MASK_KINDS[self.layout.mask_kind])
        self._set(Slot.FACTOR, b.const(self.element, factor))
        several = b.convert(b.cmp("ne", extents["queries"], 1), b.i64, signed=False)
        self._set(
            Slot.CAUSAL, several if op.causal is not None and not self._hides_from_one else int(op.causal is not None)
        )
        self._set(Slot.DIRECT, b.convert(self.direct, b.i64, signed=False))
        self._set(Slot.MASK_KIND, self.layout.mask_kind)
        for slot, buffer in ((Slot.KEY_ROW, op.key), (Slot.VALUE_ROW, op.value)):
            self._set(slot, self.strides[buffer][2])
            self._set(Slot(slot + 1), self.strides[buffer][3])
        for slot, buffer in ((Slot.QUERY_ROW, op.query), (Slot.OUT_ROW, op.out)):
            self._set(slot, self._line_strides(buffer)[2])
            self._set(Slot(slot + 1), self.strides[buffer][3])
        self._set(Slot.MASK_ROW, 0 if op.mask is None else self._line_strides(op.mask)[2])
        self._set(Slot.MASK_KEY, 0 if op.mask is None else self.strides[op.mask][3])
        for slot, buffer in zip(_SCALES, op.scales, strict=False):
            self._set(Slot(slot + 1), self.strides[buffer][2])
        if op.mask is None:
            self._set(Slot.MASK, 0)
        pointer = self.args[4]
        for slot, size in self.layout.parts.items():
            self._set(slot, pointer)
            pointer = b.offset(pointer, b.i8, emit_size(b, size, self.symbols))
        b.store(b.const(b.i64, -1), self.last_head)

    def emit(self) -> None:
        """For each line, the part of its blocks that lies in [begin, end)."""
        b, lines = self.b, self.lines
        begin, end = self.args[2], self.args[3]
        past = b.ceildiv(end, lines.blocks)
        ahead = b.or_(self.direct, b.cmp("sle", self.extents["keys"], _AHEAD_KEYS))
        with b.for_(b.div(begin, lines.blocks), past) as line:
            start = b.mul(line.index, lines.blocks)
            first = b.maximum(b.sub(begin, start), 0)
            last = b.minimum(b.sub(end, start), lines.blocks)
            first_row = b.div(b.mul(lines.rows, first), lines.blocks)
            last_row = b.div(b.mul(lines.rows, last), lines.blocks)
            self._set(Slot.ROWS, b.sub(last_row, first_row))
            self._set(Slot.FIRST_ROW, b.add(first_row, self.past))
            batch, head = self._split(line.index)
            self._set_addresses(_OWN, batch, head, first_row)
            next_ = b.select(ahead, b.minimum(b.add(line.index, 1), b.sub(past, 1)), line.index)
            self._set_addresses(_NEXT, *self._split(next_), b.const(b.i64, 0))
            number = b.add(b.mul(batch, self.extents["key_heads"]), b.div(head, lines.shared_by))
            is_new = b.cmp("ne", number, b.load(self.last_head, b.i64))
            self._set(Slot.PACK, b.convert(is_new, b.i64, signed=False))
            b.store(number, self.last_head)
            b.call(attend_name(self.layout.elements.name), [self.task])

    def _split(self, line: Value) -> tuple[Value, Value]:
        """(batch point, head of it) of a line."""
        b = self.b
        batch = b.div(line, self.lines.heads)
        return batch, b.sub(line, b.mul(batch, self.lines.heads))

    def _set_addresses(self, slots: Sequence[Slot], batch: Value, head: Value, row: Value) -> None:
        """Where a line's query, key, value, result and mask begin, as many of them as there are slots."""
        key_head = self.b.div(head, self.lines.shared_by)
        op = self.op
        for slot, buffer in zip(slots, (op.query, op.key, op.value, op.out, op.mask), strict=False):
            if buffer is None:
                continue
            if buffer is op.key or buffer is op.value:
                self._set(slot, self._address(buffer, self.strides[buffer], [batch, key_head, self.first_key]))
            else:
                self._set(slot, self._address(buffer, self._line_strides(buffer), [batch, head, row]))
        if slots is _OWN:
            for slot, buffer in zip(_SCALES, op.scales, strict=False):
                self._set(slot, self._address(buffer, self.strides[buffer], [batch, key_head, self.first_key]))

    def _in_memory(self, buffer: SSAValue) -> Type:
        b, elements = self.b, self.layout.elements
        if buffer in (self.op.key, self.op.value):
            return elements.cached.in_memory(b)
        is_mask = isinstance(buffer_of(buffer).element_type, IntegerType)
        return b.i8 if is_mask else elements.own.in_memory(b)

    def _address(self, buffer: SSAValue, strides: Sequence[Value], indices: Sequence[Value]) -> Value:
        """The address of buffer[indices, 0…]."""
        b = self.b
        assert isinstance(buffer, BlockArgument)
        element = self._in_memory(buffer)
        pointer = b.load(b.offset(self.args[0], b.i64, buffer.index), b.ptr)
        for stride, index in zip(strides, indices, strict=False):
            pointer = b.offset(pointer, element, b.mul(index, stride))
        return pointer
