"""`scatter`: rows of x that are updated at indices, each row by the thread that owns it.

A point is a row of x. A part of the points copies its rows, then goes through all indices in order and takes the updates that fall
on its rows, so an element's updates are taken in order whatever the parts are, and nothing is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import Strip, WholeBody
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dtypes import BF16, F16, DType
from anyshape.dialects.sizes import numel
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

_WIDE = 16
"""Elements of a row that outweigh reading an index in another part."""
_WORTH = 1 << 15
"""Elements copied or updated that are worth another thread."""


def scatter_schedule(op: Scatter, machine: Machine) -> Schedule:
    """Rows of x; one at least for each batch point, so that indices into nothing are found."""
    batch, rows, window = _extents(op)
    updates = op.operand_sizes(op.indices)[op.batch]
    rows = size_max(rows, 1)
    parts = size_max(1, size_min(machine.threads, window // _WIDE))
    of_part = (rows + parts - 1) // parts
    worth = _WORTH * rows // size_max(1, (rows + updates) * window) + 1
    return Schedule(batch * rows, size_max(of_part, worth), Size.const(0))


def _extents(op: Scatter) -> tuple[Size, Size, Size]:
    """Batch points, rows of each, elements of a row."""
    sizes = op.result_sizes
    return numel(sizes[: op.batch]), numel(op.scattered), numel(sizes[op.batch + len(op.scattered) :])


def emit_scatter(body: WholeBody) -> None:
    """The code of a `scatter`."""
    b, op = body.b, body.op.op
    assert isinstance(op, Scatter)
    _, rows_size, window_size = _extents(op)
    rows, window = body.size(rows_size), body.size(window_size)
    owned_rows = b.maximum(rows, 1)
    element = body.element(op.result_dtype)
    with b.for_(b.div(body.begin, owned_rows), b.ceildiv(body.end, owned_rows)) as batch:
        start = b.mul(batch.index, owned_rows)
        low = b.maximum(b.sub(body.begin, start), 0)
        high = b.minimum(b.sub(body.end, start), rows)
        first_row = b.mul(batch.index, rows)
        own = b.maximum(b.sub(high, low), 0)
        first, count = b.mul(b.add(first_row, low), window), b.mul(own, window)
        if op.indices:
            body.copy(body.outputs[0], body.inputs[0], element, first, count)
        else:
            body.fill(body.outputs[0], b.const(element, op.attribute("start")), first, count)
        if window_size == Size.const(1):
            _take_updates(body, op, batch.index, (low, high), None)
        else:
            with body.strips(window_size, element) as strip:
                _take_updates(body, op, batch.index, (low, high), strip)


def _take_updates(body: WholeBody, op: Scatter, batch: Value, own: tuple[Value, Value], strip: Strip | None) -> None:
    """The updates of one batch point that fall on its rows [low, high): a strip of each, or its only element."""
    b = body.b
    low, high = own
    count = body.size(op.operand_sizes(op.indices)[op.batch])
    rows, window = (body.size(size) for size in _extents(op)[1:])
    bounds = [body.size(size) for size in op.scattered]
    index_type = body.element(op.operand_dtype(op.indices))
    first_update, first_row = b.mul(batch, count), b.mul(batch, rows)
    combine, element = combiner(body, op.result_dtype, op.kind), body.element(op.result_dtype)
    with b.for_(0, count) as update:
        number = b.add(first_update, update.index)
        row, valid = b.const(b.i64, 0), b.const(b.i1, 1)
        for component, bound in enumerate(bounds):
            at = b.add(b.mul(number, len(bounds)), component)
            index = b.convert(b.load(body.inputs[op.indices], index_type, at), b.i64)
            inside = b.cmp("ult", index, bound)
            body.report(b.not_(inside), index, bound)
            row, valid = b.add(b.mul(row, bound), index), b.and_(valid, inside)
        mine = b.and_(valid, b.and_(b.cmp("sge", row, low), b.cmp("slt", row, high)))
        with b.if_(mine).then():
            target = b.offset(body.outputs[0], element, b.mul(b.add(first_row, row), window))
            source = b.offset(body.inputs[op.indices + 1], element, b.mul(number, window))
            width = None if strip is None else strip.width
            for at, mask in [(b.const(b.i64, 0), None)] if strip is None else strip.places(b):
                old, new = (b.load(each, element, at, width=width, mask=mask) for each in (target, source))
                b.store(combine(old, new), target, at, mask=mask)


def combiner(body: WholeBody, dtype: DType, kind: str) -> Callable[[Value, Value], Value]:
    """What becomes of an element and its update; f16 and bf16 by way of f32, bools as bytes."""
    b = body.b
    if kind == "set":
        return lambda _, new: new
    if dtype.is_bool:
        return b.or_ if kind in ("sum", "max") else b.and_
    signed = not dtype.is_unsigned
    combine: Mapping[str, Callable[[Value, Value], Value]] = {
        "sum": b.add,
        "prod": b.mul,
        "max": lambda x, y: b.maximum(x, y, signed=signed),
        "min": lambda x, y: b.minimum(x, y, signed=signed),
    }
    if dtype not in (F16, BF16):
        return combine[kind]
    narrow: Type = body.element(dtype)
    return lambda x, y: b.convert(combine[kind](b.convert(x, b.f32), b.convert(y, b.f32)), narrow)


__all__ = ["combiner", "emit_scatter", "scatter_schedule"]
