"""`search_sorted`: values in parallel, each by bisection without branches."""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.sort import SearchSorted
from anyshape.dialects.dtypes import BF16, F16, DType
from anyshape.dialects.sizes import numel
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

_WORTH = 1 << 10
"""Values to search that are worth another thread."""


def search_schedule(op: SearchSorted, machine: Machine) -> Schedule:
    """One point a value."""
    return Schedule(numel(op.result_sizes), Size.const(_WORTH), Size.const(0))


def emit_search(body: WholeBody) -> None:
    """The code of a `search_sorted`."""
    b, op = body.b, body.op.op
    assert isinstance(op, SearchSorted)
    dtype, extent = op.operand_dtype(), body.size(op.operand_sizes()[-1])
    element = body.element(dtype)
    is_shared = len(op.operand_sizes()) == 1
    values = None if is_shared else body.size(op.operand_sizes(1)[-1])
    steps = _steps(b, extent)
    predicate = _predicate(dtype, right=op.attribute("right"))

    def wide(x: Value) -> Value:
        return b.convert(x, b.f32) if dtype in (F16, BF16) else x

    with b.for_(body.begin, body.end) as point:
        rows = body.inputs[0]
        if values is not None:
            rows = b.offset(rows, element, b.mul(b.div(point.index, values), extent))
        value = wide(b.load(body.inputs[1], element, point.index))
        with b.for_(0, steps, initial=[b.const(b.i64, 0), extent]) as loop:
            low, high = loop.args
            is_open = b.cmp("slt", low, high)
            middle = b.shr(b.add(low, high), 1)
            found = wide(b.load(rows, element, b.minimum(middle, b.sub(extent, 1))))
            reached = b.cmp(predicate, found, value)
            low_is_moved = b.and_(is_open, b.not_(reached))
            loop.yield_(b.select(low_is_moved, b.add(middle, 1), low), b.select(b.and_(is_open, reached), middle, high))
        b.store(loop.results[0], body.outputs[0], point.index)


def _steps(b: Builder, extent: Value) -> Value:
    """Bits of the extent: so often an interval of that length is halved until nothing is left."""
    with b.for_(0, 63, initial=[b.const(b.i64, 0)]) as bit:
        has_more = b.cmp("ne", b.shr(extent, bit.index), 0)
        bit.yield_(b.add(bit.args[0], b.convert(has_more, b.i64, signed=False)))
    return bit.results[0]


def _predicate(dtype: DType, *, right: bool) -> str:
    """`found ∘ value` where the place is at or before the element found."""
    kind = "gt" if right else "ge"
    return f"o{kind}" if dtype.is_float else f"u{kind}" if dtype.is_unsigned else f"s{kind}"


__all__ = ["emit_search", "search_schedule"]
