"""`compress`: the places where a mask holds, found by one thread, eight of the mask's bytes at a time where they are all 0."""

from __future__ import annotations

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.dialects.dhlo.compaction import Compress
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

_AT_ONCE = 8
"""Bytes of the mask in a word."""


def compress_schedule(op: Compress, machine: Machine) -> Schedule:
    """One point: where a place is written depends on all before it."""
    return Schedule(Size.const(1), Size.const(1), Size.const(_AT_ONCE))


def emit_compress(body: WholeBody) -> None:
    """The code of a `compress`."""
    b, op = body.b, body.op.op
    assert isinstance(op, Compress)
    extent, room = body.size(op.operand_sizes()[0]), body.size(op.result_sizes[0])
    mask, result = body.inputs[0], body.outputs[0]

    def note(place: Value, count: Value) -> Value:
        """The number of places after this one was looked at; it is written in any case, beside the result where that has no room."""
        holds = b.cmp("ne", b.load(mask, b.i8, place), 0)
        b.store(place, b.select(b.cmp("slt", count, room), b.offset(result, b.i64, count), body.scratch))
        return b.add(count, b.convert(holds, b.i64, signed=False))

    words = b.sub(extent, b.rem(extent, _AT_ONCE))
    with b.for_(0, words, _AT_ONCE, initial=[b.const(b.i64, 0)]) as loop:
        some = b.cmp("ne", b.load(b.offset(mask, b.i8, loop.index), b.i64, alignment=1), 0)
        branch = b.if_(some, [b.i64])
        with branch.then():
            count = loop.args[0]
            for byte in range(_AT_ONCE):
                count = note(b.add(loop.index, byte), count)
            branch.yield_(count)
        with branch.otherwise():
            branch.yield_(loop.args[0])
        loop.yield_(branch.results[0])
    with b.for_(words, extent, initial=[loop.results[0]]) as rest:
        rest.yield_(note(rest.index, rest.args[0]))


__all__ = ["compress_schedule", "emit_compress"]
