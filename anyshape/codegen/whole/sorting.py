"""`argsort` and `top_k`: rows in parallel, each sorted in the worker's scratch.

Of a row of which few are wanted, items that could be among them are collected: those whose keys do not come behind the last one wanted
so far, which a vector of elements is asked at once. Whenever there is no more room, what was collected is sorted and all but the wanted
ones are dropped. So most elements of a long row are compared once, and a row in the worst order is sorted piece by piece.
"""

from __future__ import annotations

from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.items import Items, sort_key
from anyshape.dialects.dhlo.sort import ArgSort, TopK
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import numel
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_min

_WORTH = 1 << 12
"""Elements to sort that are worth another thread."""
_WORTH_SCANNED = 1 << 15
"""Elements to look at that are worth another thread."""
_ROOM = 16
"""Items collected beside three times as many as are wanted: of few wanted ones so few that they are sorted by counting."""


def _key_bits(dtype: DType) -> int:
    return 8 * dtype.bytes


def argsort_schedule(op: ArgSort, machine: Machine) -> Schedule:
    """One point a row."""
    *outer, row = op.operand_sizes()
    scratch = 2 * Items.bytes_of(_key_bits(op.operand_dtype()), row)
    return Schedule(numel(outer), _WORTH // (row + 1) + 1, scratch)


def emit_argsort(body: WholeBody) -> None:
    """The code of an `argsort`."""
    b, op = body.b, body.op.op
    assert isinstance(op, ArgSort)
    dtype, row = op.operand_dtype(), body.size(op.operand_sizes()[-1])
    items, bits = Items(b, _key_bits(dtype), row), b.type(f"i{_key_bits(dtype)}")
    array, spare, buckets = body.scratch, b.offset(body.scratch, b.i8, items.bytes), items.allocate_buckets()
    with b.for_(body.begin, body.end) as rows:
        first = b.mul(rows.index, row)
        x, result = b.offset(body.inputs[0], bits, first), b.offset(body.outputs[0], b.i64, first)
        with b.for_(0, row) as loop:
            key = sort_key(b, b.load(x, bits, loop.index), dtype, descending=op.attribute("descending"))
            items.store(items.pack(key, loop.index), array, loop.index)
        in_order = items.sort(array, spare, row, buckets)
        with b.for_(0, row) as loop:
            b.store(items.position(items.load(in_order, loop.index)), result, loop.index)


# -- the first ones --------------------------------------------------------------------------------------------------


def _lanes(dtype: DType, machine: Machine) -> int:
    """Elements that are compared at once."""
    return 2 * machine.lanes(_key_bits(dtype))


def _room(op: TopK, machine: Machine) -> Size:
    """Items that are collected at most."""
    return size_min(op.operand_sizes()[-1], 3 * op.k + _ROOM) + _lanes(op.operand_dtype(), machine)


def top_k_schedule(op: TopK, machine: Machine) -> Schedule:
    """One point a row."""
    *outer, row = op.operand_sizes()
    scratch = 2 * Items.bytes_of(_key_bits(op.operand_dtype()), _room(op, machine))
    return Schedule(numel(outer), _WORTH_SCANNED // (row + 8 * op.k + 1) + 1, scratch)


def emit_top_k(body: WholeBody) -> None:
    """The code of a `top_k`."""
    b, op = body.b, body.op.op
    assert isinstance(op, TopK)
    dtype = op.operand_dtype()
    bits = b.type(f"i{_key_bits(dtype)}")
    selection = _Selection(body, op, Items(b, _key_bits(dtype), body.size(_room(op, body.machine))), bits)
    row = body.size(op.operand_sizes()[-1])
    with b.for_(body.begin, body.end) as rows:
        selection.select(
            b.offset(body.inputs[0], bits, b.mul(rows.index, row)),
            b.offset(body.outputs[0], b.i64, b.mul(rows.index, selection.k)),
        )


class _Selection:
    """The first k items of rows. The bound of a row is the key of the last one wanted, all ones before k were seen."""

    def __init__(self, body: WholeBody, op: TopK, items: Items, bits: Type) -> None:
        self.b, self.items, self.bits = body.b, items, bits
        self.dtype, self.descending = op.operand_dtype(), bool(op.attribute("largest"))
        self.row, self.k = body.size(op.operand_sizes()[-1]), body.size(op.k)
        self.width = _lanes(self.dtype, body.machine)
        self.array = body.scratch
        self.spare = body.b.offset(body.scratch, body.b.i8, items.bytes)
        self.buckets = items.allocate_buckets()

    def select(self, x: Value, result: Value) -> None:
        """result[i] = the position of item i in the row at x."""
        b, width = self.b, self.width
        start = [b.const(b.i64, 0), b.const(self.bits, -1)]
        looked_at = b.select(b.cmp("sgt", self.k, 0), self.row, 0)
        with b.for_(0, looked_at, width, initial=start) as loop:
            count, bound = loop.args
            mask = b.tail_mask(b.sub(self.row, loop.index), width)
            keys = self._keys(b.load(x, self.bits, loop.index, width=width, mask=mask))
            chosen = b.mask_bits(b.and_(mask, b.cmp("ule", keys, bound)))
            branch = b.if_(b.cmp("ne", chosen, 0), [b.i64, self.bits])
            with branch.then():
                branch.yield_(*self._with_room(self._collected(x, loop.index, count, chosen), bound))
            with branch.otherwise():
                branch.yield_(count, bound)
            loop.yield_(*branch.results)
        in_order = self.items.sort(self.array, self.spare, loop.results[0], self.buckets)
        with b.for_(0, self.k) as loop:
            b.store(self.items.position(self.items.load(in_order, loop.index)), result, loop.index)

    def _keys(self, bits: Value) -> Value:
        return sort_key(self.b, bits, self.dtype, descending=self.descending)

    def _collected(self, x: Value, first: Value, count: Value, chosen: Value) -> Value:
        """The number of items after those of the vector at `first` whose bits are set in `chosen` were added, in their order."""
        b, type_ = self.b, chosen.type
        added = b.convert(b.intrinsic("llvm.ctpop", type_, [chosen]), b.i64, signed=False)
        with b.for_(0, added, initial=[chosen]) as loop:
            (rest,) = loop.args
            lane = b.intrinsic("llvm.cttz", type_, [rest, b.const(b.i1, 1)])
            position = b.add(first, b.convert(lane, b.i64, signed=False))
            key = self._keys(b.load(x, self.bits, position))
            self.items.store(self.items.pack(key, position), self.array, b.add(count, loop.index))
            loop.yield_(b.and_(rest, b.sub(rest, 1)))
        return b.add(count, added)

    def _with_room(self, count: Value, bound: Value) -> tuple[Value, Value]:
        """The items in the array and the bound once there is room for another vector."""
        b = self.b
        is_full = b.cmp("sgt", count, b.sub(self.items.capacity, self.width))
        branch = b.if_(is_full, [b.i64, self.bits])
        with branch.then():
            in_order = self.items.sort(self.array, self.spare, count, self.buckets)
            with b.for_(0, self.k) as loop:
                self.items.store(self.items.load(in_order, loop.index), self.array, loop.index)
            last = self.items.load(self.array, b.sub(self.k, 1))
            branch.yield_(self.k, b.convert(self.items.key(last), self.bits))
        with branch.otherwise():
            branch.yield_(count, bound)
        return branch.results[0], branch.results[1]


__all__ = ["argsort_schedule", "emit_argsort", "emit_top_k", "top_k_schedule"]
