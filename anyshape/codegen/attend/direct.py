"""Scores of one query against keys that lie in memory as they are: for a query or two packing would cost more than it saves."""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.tile_shape import TileShape
from anyshape.codegen.mlir import ModuleBuilder, Type, Value

_PREFETCH_KEYS = 16
_LINE = 64


def direct_name(element: str) -> str:
    """The symbol of `emit_direct_scores`."""
    return f"as_direct_scores_{element}"


def direct_arguments(b: Builder) -> list[Type]:
    """(query, keys, stride of a key, head size, number of keys, scores)."""
    return [b.ptr, b.ptr, b.i64, b.i64, b.i64, b.ptr]


def emit_direct_scores(module: ModuleBuilder, shape: TileShape) -> None:
    """Define scores[j] = Σ_c query[c]·keys[j, c] for j < number of keys; elements of a key are adjacent.

    As many keys as there are lanes go together: one accumulator for each, then all of them folded into one vector of sums. Scores are
    written up to the next multiple of the lanes.
    """
    b = Builder()
    element, lanes = b.type(shape.element), shape.lanes
    with module.function(direct_name(shape.element), direct_arguments(b)) as f:
        query, keys, stride, head, count, scores = f.args
        whole = b.sub(head, b.rem(head, lanes))
        rest = b.tail_mask(b.sub(head, whole), lanes)
        zero = b.splat(0, element, lanes)
        with b.for_(0, count, lanes) as group:
            # Keys beyond the last one are the last one again; their scores are ignored.
            rows = [
                b.offset(keys, element, b.mul(stride, b.minimum(b.add(group.index, lane), b.sub(count, 1))))
                for lane in range(lanes)
            ]
            _prefetch(b, shape, rows, stride, head)
            with b.for_(0, whole, lanes, [zero] * lanes) as loop:
                factor = b.load(query, element, loop.index, width=lanes)
                loop.yield_(
                    *(
                        b.fma(b.load(row, element, loop.index, width=lanes), factor, sum_)
                        for row, sum_ in zip(rows, loop.args, strict=True)
                    )
                )
            tail = b.if_(b.cmp("slt", whole, head), [zero.type] * lanes)
            with tail.then():
                factor = b.load(query, element, whole, width=lanes, mask=rest)
                tail.yield_(
                    *(
                        b.fma(b.load(row, element, whole, width=lanes, mask=rest), factor, sum_)
                        for row, sum_ in zip(rows, loop.results, strict=True)
                    )
                )
            with tail.otherwise():
                tail.yield_(*loop.results)
            b.store(fold_square(b, tail.results), scores, group.index)


def _prefetch(b: Builder, shape: TileShape, rows: list[Value], stride: Value, head: Value) -> None:
    """Ask for the keys of the next group."""
    element = b.type(shape.element)
    with b.for_(0, head, _LINE // shape.element_bytes) as loop:
        for row in rows:
            b.prefetch(row, element, b.add(b.mul(stride, len(rows)), loop.index))


def fold_square(b: Builder, rows: list[Value]) -> Value:
    """The vector whose lane i is the sum of the lanes of rows[i].

    Stage s adds lane l and lane l ⊕ s, of the first row of a pair where bit s of l is 0, of the second where it is 1.
    """
    lanes, step = len(rows), len(rows) // 2
    while step:
        keep = [lane + (lanes if lane & step else 0) for lane in range(lanes)]
        cross = [(lane ^ step) + (lanes if lane & step else 0) for lane in range(lanes)]
        half = len(rows) // 2
        rows = [
            b.add(b.shuffle(rows[i], rows[i + half], keep), b.shuffle(rows[i], rows[i + half], cross)) for i in range(half)
        ]
        step //= 2
    return rows[0]
