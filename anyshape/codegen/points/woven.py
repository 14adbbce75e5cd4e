"""Stores that together fill neighbours: for each lane i the values v₀ … vₙ₋₁ go to out[…, i, 0] … out[…, i, n − 1].

One by one they would be scattered. Woven in registers they are n whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.dialects.tile import SizeOp, StoreOp, buffer_of
from anyshape.symbolic import Size


def woven_stores(op: StoreOp) -> list[StoreOp]:
    """The stores of which this is one, all points of the last axis in order, one behind another in the block; else only itself."""
    type_ = buffer_of(op.buffer)
    if type_.rank < 2 or _number(op) is None:
        return [op]
    found = [op]
    while (before := found[0].prev_op) is not None and isinstance(before, StoreOp) and _is_next(before, found[0]):
        found.insert(0, before)
    while (after := found[-1].next_op) is not None and isinstance(after, StoreOp) and _is_next(found[-1], after):
        found.append(after)
    count = Size.const(len(found))
    is_whole = _number(found[0]) == 0 and type_.sizes.data[-1] == count
    return found if is_whole and type_.strides.data[-2:] == (count, Size.const(1)) else [op]


def _is_next(first: StoreOp, second: StoreOp) -> bool:
    numbers = _number(first), _number(second)
    same = first.buffer is second.buffer and list(first.indices)[:-1] == list(second.indices)[:-1]
    return same and numbers[0] is not None and numbers[1] == numbers[0] + 1


def _number(op: StoreOp) -> int | None:
    """The last index, where it is a number."""
    last: SSAValue = op.indices[-1]
    return last.owner.expression.constant_or(None) if isinstance(last.owner, SizeOp) else None


def woven(b: Builder, vectors: Sequence[Value], mask: Value | None) -> list[tuple[Value, Value | None]]:
    """The lanes of vectors in turn, v₀[0], v₁[0], …, v₀[1], …, as vectors of the same width, and which of their lanes are on."""
    count, width = len(vectors), b.width(vectors[0]) or 1
    found: list[tuple[Value, Value | None]] = []
    for part in range(count):
        places = [divmod(part * width + lane, count) for lane in range(width)]
        value = vectors[0]
        for number, vector in enumerate(vectors[1:], 1):
            # Lanes of the vectors before stay where they are; of the first, they come from anywhere.
            lanes = [
                width + at if own == number else at if number == 1 else lane for lane, (at, own) in enumerate(places)
            ]
            value = b.shuffle(value, vector, lanes)
        on = None if mask is None else b.shuffle(mask, mask, [at for at, _ in places])
        found.append((value, on))
    return found


__all__ = ["woven", "woven_stores"]
