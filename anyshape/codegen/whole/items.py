"""Items: elements of a row as sort keys with their positions, and the stable sort of them.

A key is an unsigned integer in whose order elements are. An item of a key of up to 32 bits is one word, the key above the position; an
item of a wider key is two. Few items are sorted by counting, for each, those before it; more by bytes of the key from the last to the
first (LSD radix sort), where bytes that all keys share are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value, bit_width
from anyshape.dialects.dtypes import BF16, F16, F32, F64, DType
from anyshape.symbolic import Size

FEW = 96
"""Up to so many items are sorted by counting."""
_BUCKETS = 256
_WORD = 8
_INFINITY = {F16: 0x7C00, BF16: 0x7F80, F32: 0x7F800000, F64: 0x7FF0000000000000}


def sort_key(b: Builder, bits: Value, dtype: DType, *, descending: bool) -> Value:
    """The key of elements with these bits, scalars or vectors: −0 has that of 0, all NaN have one, above all numbers."""
    width = bit_width(b.element_type(bits))
    sign = 1 << (width - 1)
    if dtype.is_float:
        magnitude = b.and_(bits, sign - 1)
        is_negative = b.cmp("slt", bits, 0)
        key = b.select(is_negative, b.not_(bits), b.xor(bits, sign))
        key = b.select(b.cmp("eq", magnitude, 0), b.splat(sign, b.element_type(bits), b.width(bits)), key)
        is_nan = b.cmp("ugt", magnitude, _INFINITY[dtype])
        key = b.select(is_nan, b.splat(-1, b.element_type(bits), b.width(bits)), key)
    else:
        key = bits if dtype.is_unsigned else b.xor(bits, sign)
    return b.not_(key) if descending else key


@dataclass(frozen=True)
class Items:
    """Arrays of items of keys of so many bits, each with room for `capacity` items: its words of one kind lie together."""

    b: Builder
    key_bits: int
    capacity: Value

    @staticmethod
    def bytes_of(key_bits: int, capacity: Size) -> Size:
        """Bytes of one array."""
        return capacity * (_WORD if key_bits <= 32 else 2 * _WORD)

    @property
    def bytes(self) -> Value:
        """Bytes of one array."""
        return self.b.mul(self.capacity, _WORD if self.key_bits <= 32 else 2 * _WORD)

    def pack(self, key: Value, position: Value) -> tuple[Value, ...]:
        """The words of an item."""
        b = self.b
        wide = b.convert(key, b.i64, signed=False)
        return (b.or_(b.shl(wide, 32), position),) if self.key_bits <= 32 else (wide, position)

    def key(self, item: tuple[Value, ...]) -> Value:
        """The key as an i64, 0 above its bits."""
        return self.b.shr(item[0], 32) if self.key_bits <= 32 else item[0]

    def position(self, item: tuple[Value, ...]) -> Value:
        return self.b.and_(item[0], 0xFFFFFFFF) if self.key_bits <= 32 else item[1]

    def load(self, array: Value, at: Operand) -> tuple[Value, ...]:
        b = self.b
        first = b.load(array, b.i64, at)
        return (first,) if self.key_bits <= 32 else (first, b.load(array, b.i64, b.add(self.capacity, at)))

    def store(self, item: tuple[Value, ...], array: Value, at: Value) -> None:
        self.b.store(item[0], array, at)
        if self.key_bits > 32:
            self.b.store(item[1], array, self.b.add(self.capacity, at))

    def is_before(self, item: tuple[Value, ...], other: tuple[Value, ...]) -> Value:
        """Whether an item comes before another one, positions deciding between equal keys."""
        b = self.b
        before = b.cmp("ult", item[0], other[0])
        if self.key_bits <= 32:
            return before
        return b.or_(before, b.and_(b.cmp("eq", item[0], other[0]), b.cmp("ult", item[1], other[1])))

    def sort(self, array: Value, spare: Value, count: Value, buckets: Value) -> Value:
        """Which of the two arrays has the first `count` items of `array` in order; the other's contents are lost.

        Args:
            buckets: from `allocate_buckets`.
        """
        b = self.b
        branch = b.if_(b.cmp("sle", count, FEW), [b.ptr])
        with branch.then():
            self._sort_by_counting(array, spare, count)
            branch.yield_(spare)
        with branch.otherwise():
            branch.yield_(self._sort_by_bytes(array, spare, count, buckets))
        return branch.results[0]

    def allocate_buckets(self) -> Value:
        """What `sort` counts in, on the stack: call it in the entry block."""
        return self.b.alloca(self.b.i64, _BUCKETS * self._digits)

    @property
    def _digits(self) -> int:
        return self.key_bits // 8

    def _sort_by_counting(self, array: Value, spare: Value, count: Value) -> None:
        b = self.b
        with b.for_(0, count) as loop:
            item = self.load(array, loop.index)
            with b.for_(0, count, initial=[b.const(b.i64, 0)]) as others:
                before = self.is_before(self.load(array, others.index), item)
                others.yield_(b.add(others.args[0], b.convert(before, b.i64, signed=False)))
            self.store(item, spare, others.results[0])

    def _sort_by_bytes(self, array: Value, spare: Value, count: Value, buckets: Value) -> Value:
        b = self.b
        zero = b.const(b.i64, 0)
        with b.for_(0, _BUCKETS * self._digits) as loop:
            b.store(zero, buckets, loop.index)
        with b.for_(0, count) as loop:
            key = self.key(self.load(array, loop.index))
            for digit in range(self._digits):
                at = b.add(b.and_(b.shr(key, 8 * digit), _BUCKETS - 1), _BUCKETS * digit)
                b.store(b.add(b.load(buckets, b.i64, at), 1), buckets, at)
        with b.for_(0, self._digits, initial=[array, spare]) as digits:
            source, target = digits.args
            shift, own = b.mul(digits.index, 8), b.offset(buckets, b.i64, b.mul(digits.index, _BUCKETS))
            first = self._digit(self.load(source, zero), shift)
            differs = b.cmp("ne", b.load(own, b.i64, first), count)
            with b.if_(differs).then():
                self._move_by_byte(source, target, count, shift, own)
            digits.yield_(b.select(differs, target, source), b.select(differs, source, target))
        return digits.results[0]

    def _digit(self, item: tuple[Value, ...], shift: Value) -> Value:
        return self.b.and_(self.b.shr(self.key(item), shift), _BUCKETS - 1)

    def _move_by_byte(self, source: Value, target: Value, count: Value, shift: Value, buckets: Value) -> None:
        """Items to where those with the same byte begin, in order; `buckets` counts them on entry."""
        b = self.b
        with b.for_(0, _BUCKETS, initial=[b.const(b.i64, 0)]) as bucket:
            number = b.load(buckets, b.i64, bucket.index)
            b.store(bucket.args[0], buckets, bucket.index)
            bucket.yield_(b.add(bucket.args[0], number))
        with b.for_(0, count) as loop:
            item = self.load(source, loop.index)
            digit = self._digit(item, shift)
            place = b.load(buckets, b.i64, digit)
            b.store(b.add(place, 1), buckets, digit)
            self.store(item, target, place)


__all__ = ["Items", "sort_key"]
