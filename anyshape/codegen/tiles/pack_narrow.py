"""Packing of factors that are not summed in their own type (bf16, f16, i8): right-hand sides to words, left-hand sides widened.

A word is what a panel holds of one column for one step: an element, or a group of k (`product`). Words go through registers, whole vectors
at a time; the last vector overlaps the one before. What is less than one vector, or no whole group, goes word by word. In a last
group k beyond the last one are 0; columns beyond the last one are not written.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Operand, Type, Value
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.pack import (
    copied_row,
    pack_lhs_arguments,
    pack_lhs_name,
    pack_rhs_arguments,
    transpose_square,
)
from anyshape.codegen.tiles.product import OFFSET, load_as_lhs, vector_bitcast
from anyshape.codegen.tiles.shape import TileShape
from anyshape.dialects.packed_panels import PANEL

_WORD_TYPES = {1: "i8", 2: "i16", 4: "i32"}


def emit_pack_rhs_narrow(module: ModuleBuilder, shape: TileShape) -> None:
    """Define `pack_rhs_name(element)`: the panel of `product` from source[k·sk + j·sj], k < depth, j < columns <= 64."""
    b = Builder()
    with module.function(pack_rhs_name(shape.element), pack_rhs_arguments(b)) as f:
        packer = _Packer(b, shape, *f.args)
        whole_steps = b.div(packer.depth, shape.group)
        zero = b.const(b.i64, 0)
        rows = b.if_(b.cmp("eq", packer.stride_j, 1), [b.i64, b.i64])
        with rows.then():
            if shape.is_interleaved:
                whole_columns = b.mul(b.div(packer.columns, packer.unit), packer.unit)
            else:
                whole_columns = packer.none_if_short(packer.columns, packer.unit)
            packer.emit_rows(whole_steps, whole_columns)
            rows.yield_(whole_steps, whole_columns)
        with rows.otherwise():
            columnar = b.if_(b.cmp("eq", packer.stride_k, 1), [b.i64, b.i64])
            with columnar.then():
                steps = packer.none_if_short(whole_steps, shape.lanes)
                packer.emit_columns(steps)
                columnar.yield_(steps, packer.columns)
            with columnar.otherwise():
                columnar.yield_(zero, zero)
            rows.yield_(*columnar.results)
        steps_done, columns_done = rows.results
        packer.emit_words((zero, steps_done), (columns_done, packer.columns))
        packer.emit_words((steps_done, b.ceildiv(packer.depth, shape.group)), (zero, packer.columns))


@dataclass(frozen=True)
class _Packer:
    b: Builder
    shape: TileShape
    source: Value
    stride_k: Value
    stride_j: Value
    depth: Value
    columns: Value
    target: Value

    @property
    def element(self) -> Type:
        """The element as an integer of its size."""
        return self.b.type(_WORD_TYPES[self.shape.element_bytes])

    @property
    def word(self) -> Type:
        return self.b.type(_WORD_TYPES[self.shape.element_bytes * self.shape.group])

    @property
    def unit(self) -> int:
        """Columns that are stored together."""
        return self.shape.lanes * (2 if self.shape.is_interleaved else 1)

    def none_if_short(self, count: Value, vector: int) -> Value:
        """`count` if vectors can cover it, else 0."""
        b = self.b
        return b.select(b.cmp("sge", count, vector), count, b.const(b.i64, 0))

    def emit_rows(self, steps: Value, columns: Value) -> None:
        """Adjacent columns: words out of `group` vectors of bytes, or elements as they are."""
        b, shape = self.b, self.shape
        with b.for_(0, columns, self.unit) as loop, b.for_(0, steps) as step:
            column = b.minimum(loop.index, b.sub(columns, self.unit))
            words: list[Value] = []
            for first in range(0, self.unit, shape.lanes):
                word = None
                for number in range(shape.group):
                    k = b.add(b.mul(step.index, shape.group), number)
                    row = b.offset(self.source, self.element, b.add(b.mul(k, self.stride_k), column))
                    part = b.convert(b.load(row, self.element, first, width=shape.lanes), b.i32, signed=False)
                    part = b.shl(part, 8 * shape.element_bytes * number) if number else part
                    word = part if word is None else b.or_(word, part)
                assert word is not None
                words.append(word)
            self._store(step.index, column, words)

    def emit_columns(self, steps: Value) -> None:
        """Adjacent k: squares of words, transposed in registers."""
        b, shape = self.b, self.shape
        lanes = shape.lanes
        with b.for_(0, self.columns, self.unit) as column, b.for_(0, steps, lanes) as loop:
            step = b.minimum(loop.index, b.sub(steps, lanes))
            squares: list[list[Value]] = []
            for first in range(0, self.unit, lanes):
                square: list[Value] = []
                for lane in range(lanes):
                    number = b.minimum(b.add(column.index, first + lane), b.sub(self.columns, 1))
                    index = b.add(b.mul(number, self.stride_j), b.mul(step, shape.group))
                    loaded = b.load(self.source, self.element, index, width=lanes * shape.group)
                    words = loaded if shape.group == 1 else vector_bitcast(b, loaded, self.word, lanes)
                    square.append(b.convert(words, b.i32, signed=False))
                squares.append(transpose_square(b, square))
            for lane, words in enumerate(zip(*squares, strict=True)):
                self._store(b.add(step, lane), column.index, list(words))

    def _store(self, step: Value, column: Value, words: list[Value]) -> None:
        """The words of `unit` columns, zero-extended to 32 bits."""
        b = self.b
        row = self._row(step)
        if self.shape.is_interleaved:
            # 16-bit words two by two: half as many 32-bit ones.
            both = b.or_(words[0], b.shl(words[1], 16))
            b.store(both, b.offset(row, self.word, column), alignment=self.shape.element_bytes)
        else:
            (word,) = words
            value = b.convert(self._offset(word), self.word)
            b.store(value, b.offset(row, self.word, column), alignment=self.shape.element_bytes)

    def _row(self, step: Operand) -> Value:
        return self.b.offset(self.target, self.word, self.b.mul(step, PANEL))

    def _offset(self, word: Value) -> Value:
        """The bytes of a word + 128 where the method takes them as unsigned."""
        return self.b.xor(word, OFFSET * 0x01010101) if self.shape.method == "vnni" else word

    def emit_words(self, steps: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """A rectangle, one word at a time."""
        b, shape = self.b, self.shape
        with b.for_(*steps) as step, b.for_(*columns) as column:
            start = b.mul(column.index, self.stride_j)
            word = None
            for number in range(shape.group):
                k = b.add(b.mul(step.index, shape.group), number)
                last = b.sub(self.depth, 1)
                value = b.load(self.source, self.element, b.add(start, b.mul(b.minimum(k, last), self.stride_k)))
                part = b.convert(b.select(b.cmp("sle", k, last), value, 0), b.i32, signed=False)
                part = b.shl(part, 8 * shape.element_bytes * number) if number else part
                word = part if word is None else b.or_(word, part)
            assert word is not None
            value = b.convert(self._offset(word), self.word)
            b.store(value, self._row(step.index), self._position(column.index), alignment=shape.element_bytes)

    def _position(self, column: Value) -> Value:
        """Where a column's word is in its row."""
        if not self.shape.is_interleaved:
            return column
        b, lanes = self.b, self.shape.lanes
        inside = b.rem(column, self.unit)
        high = b.div(inside, lanes)
        return b.add(b.sub(column, inside), b.add(b.mul(b.sub(inside, b.mul(high, lanes)), 2), high))


def emit_pack_lhs_narrow(module: ModuleBuilder, shape: TileShape) -> None:
    """Define `pack_lhs_name(element)`: rows of source[i·si + k·sk] as a tile reads them, `copied_row` elements apart."""
    b = Builder()
    with module.function(pack_lhs_name(shape.element), pack_lhs_arguments(b)) as f:
        source, stride_i, stride_k, rows, depth, target = f.args
        lhs, row_elements = b.type(shape.lhs_element), copied_row(b, shape, depth)
        with b.for_(0, rows) as i:
            row = b.offset(source, b.type(shape.lhs_memory), b.mul(i.index, stride_i))
            start = b.offset(target, lhs, b.mul(i.index, row_elements))
            into = b.offset(start, lhs, shape.row_header)
            whole = b.sub(depth, b.rem(depth, shape.lanes))
            whole = b.select(b.cmp("eq", stride_k, 1), whole, b.const(b.i64, 0))
            sums = _widen_vectors(b, shape, row, into, whole)
            sum_ = _widen_elements(b, shape, row, stride_k, into, (whole, depth))
            with b.for_(depth, b.sub(row_elements, shape.row_header)) as pad:
                b.store(b.const(lhs, 0), into, pad.index)
            if shape.row_header:
                total = b.add(sum_, b.reduce("add", sums))
                b.store(b.mul(total, -OFFSET), start, alignment=1)


def _widen_vectors(b: Builder, shape: TileShape, row: Value, into: Value, count: Value) -> Value:
    """Whole vectors of adjacent elements; their sums, lane by lane, for bytes."""
    lanes = shape.lanes
    with b.for_(0, count, lanes, [b.splat(0, b.i32, lanes)]) as loop:
        value = load_as_lhs(b, shape, row, loop.index, lanes)
        b.store(value, into, loop.index)
        loop.yield_(b.add(loop.args[0], b.convert(value, b.i32)) if shape.row_header else loop.args[0])
    return loop.results[0]


def _widen_elements(
    b: Builder, shape: TileShape, row: Value, stride: Value, into: Value, bounds: tuple[Value, Value]
) -> Value:
    """Elements one by one; their sum for bytes."""
    with b.for_(*bounds, 1, [b.const(b.i32, 0)]) as loop:
        value = load_as_lhs(b, shape, row, b.mul(loop.index, stride), None)
        b.store(value, into, loop.index)
        loop.yield_(b.add(loop.args[0], b.convert(value, b.i32)) if shape.row_header else loop.args[0])
    return loop.results[0]
