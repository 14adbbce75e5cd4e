"""Dot products of one vector with many, all adjacent in memory: a product whose right-hand side is not worth packing."""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value, byte_size
from anyshape.codegen.tiles.shape import TileShape

_LINE = 64


def dots_name(element: str) -> str:
    """The symbol of `emit_dots`."""
    return f"as_dots_{element}"


def dots_arguments(b: Builder) -> list[Type]:
    """(vector, others, stride from one to the next, depth, count, result)."""
    return [b.ptr, b.ptr, b.i64, b.i64, b.i64, b.ptr]


def emit_dots(module: ModuleBuilder, shape: TileShape) -> None:
    """Define `dots_name(element)`: result[j] = Σ_k vector[k]·others[j, k] for j < count.

    As many of the others as there are lanes go together: one accumulator for each, then all of them folded into one vector of sums.
    The sum's order differs from that of register tiles. Results are written up to the next multiple of the lanes.
    """
    b = Builder()
    element, lanes = b.type(shape.element), shape.lanes
    with module.function(dots_name(shape.element), dots_arguments(b)) as f:
        vector, others, stride, depth, count, result = f.args
        whole = b.sub(depth, b.rem(depth, lanes))
        rest = b.tail_mask(b.sub(depth, whole), lanes)
        zero = b.splat(0, element, lanes)
        with b.for_(0, count, lanes) as group:
            # Beyond the last one comes the last one again; nobody reads its result.
            rows = [
                b.offset(others, element, b.mul(stride, b.minimum(b.add(group.index, lane), b.sub(count, 1))))
                for lane in range(lanes)
            ]
            _prefetch(b, element, rows, stride, depth)
            with b.for_(0, whole, lanes, [zero] * lanes) as loop:
                factor = b.load(vector, element, loop.index, width=lanes)
                loop.yield_(
                    *(
                        b.fma(b.load(row, element, loop.index, width=lanes), factor, sum_)
                        for row, sum_ in zip(rows, loop.args, strict=True)
                    )
                )
            tail = b.if_(b.cmp("slt", whole, depth), [zero.type] * lanes)
            with tail.then():
                factor = b.load(vector, element, whole, width=lanes, mask=rest)
                tail.yield_(
                    *(
                        b.fma(b.load(row, element, whole, width=lanes, mask=rest), factor, sum_)
                        for row, sum_ in zip(rows, loop.results, strict=True)
                    )
                )
            with tail.otherwise():
                tail.yield_(*loop.results)
            b.store(fold_square(b, tail.results), result, group.index)


def _prefetch(b: Builder, element: Type, rows: list[Value], stride: Value, depth: Value) -> None:
    """Ask for the next group."""
    with b.for_(0, depth, _LINE // byte_size(element)) as loop:
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
            b.add(b.shuffle(rows[i], rows[i + half], keep), b.shuffle(rows[i], rows[i + half], cross))
            for i in range(half)
        ]
        step //= 2
    return rows[0]
