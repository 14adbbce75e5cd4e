"""`row_order`: a merge sort of row numbers, from runs of one row on, by one thread."""

from __future__ import annotations

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.items import sort_key
from anyshape.dialects.dhlo.sort import RowOrder
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def rows_schedule(op: RowOrder, machine: Machine) -> Schedule:
    """One point; row numbers are merged from one half of the scratch to the other."""
    return Schedule(Size.const(1), Size.const(1), 16 * op.result_sizes[0])


def emit_rows(body: WholeBody) -> None:
    """The code of a `row_order`."""
    b, op = body.b, body.op.op
    assert isinstance(op, RowOrder)
    merge = _Merge(body, op)
    numbers, spare = body.scratch, b.offset(body.scratch, b.i64, merge.count)
    with b.for_(0, merge.count) as row:
        b.store(row.index, numbers, row.index)
    with b.for_(0, 63, initial=[numbers, spare]) as step:
        length = b.shl(b.const(b.i64, 1), step.index)
        is_open = b.cmp("slt", length, merge.count)
        with b.if_(is_open).then(), b.for_(0, merge.count, b.shl(length, 1)) as run:
            merge.emit(step.args[0], step.args[1], run.index, length)
        step.yield_(b.select(is_open, step.args[1], step.args[0]), b.select(is_open, step.args[0], step.args[1]))
    with b.for_(0, merge.count) as row:
        b.store(b.load(step.results[0], b.i64, row.index), body.outputs[0], row.index)


class _Merge:
    """Merges neighbouring runs of row numbers."""

    def __init__(self, body: WholeBody, op: RowOrder) -> None:
        self.b, self.dtype = body.b, op.operand_dtype()
        self.count, self.width = (body.size(size) for size in op.operand_sizes())
        self.x, self.bits = body.inputs[0], body.b.type(f"i{8 * self.dtype.bytes}")

    def emit(self, source: Value, target: Value, begin: Value, length: Value) -> None:
        """target[begin : begin + 2·length] = the runs of that length at `begin` in the source, merged; of equal rows the first first."""
        b = self.b
        middle = b.minimum(b.add(begin, length), self.count)
        end = b.minimum(b.add(middle, length), self.count)
        with b.for_(begin, end, initial=[begin, middle]) as loop:
            left, right = loop.args
            both = b.and_(b.cmp("slt", left, middle), b.cmp("slt", right, end))
            branch = b.if_(both, [b.i1])
            with branch.then():
                first, second = (b.load(source, b.i64, side) for side in (left, right))
                branch.yield_(self._is_before(second, first))
            with branch.otherwise():
                branch.yield_(b.cmp("sge", left, middle))
            (from_right,) = branch.results
            taken = b.load(source, b.i64, b.select(from_right, right, left))
            b.store(taken, target, loop.index)
            one = b.convert(from_right, b.i64, signed=False)
            loop.yield_(b.add(left, b.sub(1, one)), b.add(right, one))

    def _is_before(self, row: Value, other: Value) -> Value:
        """Whether a row comes before another one: the first column in which they differ says so."""
        b = self.b
        starts = [b.mul(each, self.width) for each in (row, other)]
        with b.for_(0, self.width, initial=[b.const(b.i1, 0), b.const(b.i1, 0)]) as column:
            before, decided = column.args
            mine, its = (
                sort_key(b, b.load(self.x, self.bits, b.add(start, column.index)), self.dtype, descending=False)
                for start in starts
            )
            is_less = b.and_(b.cmp("ult", mine, its), b.not_(decided))
            column.yield_(b.or_(before, is_less), b.or_(decided, b.cmp("ne", mine, its)))
        return column.results[0]


__all__ = ["emit_rows", "rows_schedule"]
