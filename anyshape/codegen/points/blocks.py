"""Loops that carry sums, in blocks.

The error of a sum of n floats taken one by one grows like n (like √n at best); in blocks of 256, whose sums are then added up, it
grows like 256 + n / 256.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value

BLOCK = 256
"""Turns of a loop that are summed by themselves."""


def blocked_for(
    b: Builder,
    bounds: tuple[Operand, Operand, int],
    state: Sequence[Value],
    sums: Sequence[bool],
    body: Callable[[Value, Sequence[Value]], list[Value]],
) -> list[Value]:
    """`for index in range(*bounds): state = body(index, state)`; where `sums` holds, the state is a float sum and is blocked.

    Blocks are cut by the bounds alone. Without sums, or with few turns, this is one plain loop.
    """
    lower, upper, step = bounds
    few = isinstance(lower, int) and isinstance(upper, int) and upper - lower <= BLOCK * step
    if few or not any(sums):
        return _plain_for(b, bounds, state, body)
    with b.for_(lower, upper, BLOCK * step, state) as blocks:
        end = b.minimum(b.add(blocks.index, BLOCK * step), upper)
        start = [b.const(old.type, 0.0) if is_sum else old for old, is_sum in zip(blocks.args, sums, strict=True)]
        after = _plain_for(b, (blocks.index, end, step), start, body)
        triples = zip(blocks.args, after, sums, strict=True)
        blocks.yield_(*[b.add(old, new) if is_sum else new for old, new, is_sum in triples])
    return blocks.results


def _plain_for(
    b: Builder,
    bounds: tuple[Operand, Operand, int],
    state: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], list[Value]],
) -> list[Value]:
    with b.for_(*bounds, state) as loop:
        after = body(loop.index, loop.args)
        if after:
            loop.yield_(*after)
    return loop.results
