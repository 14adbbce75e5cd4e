"""Rows kept between passes, values read at other lanes, guards, axes of size 1, several axes, outputs of several shapes."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    Compare,
    Concatenate,
    Convert,
    Exponential,
    Gelu,
    Maximum,
    Multiply,
    Negate,
    Pad,
    Reduce,
    Reshape,
    Select,
    Slice,
    Softmax,
    Subtract,
    Tanh,
    Transpose,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import F32
from anyshape.dialects.sizes import sizes_of
from anyshape.symbolic import Size
from tests.kernels.harness import check

M, N, K = (Size.symbol(name) for name in "mnk")
Graph = Callable[[FunctionBuilder], list[SSAValue]]


def spread(g: FunctionBuilder, row: SSAValue, like: SSAValue, *axes: int) -> SSAValue:
    return g(BroadcastInDim, row, dimensions=axes, sizes=sizes_of(like.type))


def flipped(g: FunctionBuilder, x: SSAValue) -> SSAValue:
    """x[i, n − 1 − j]."""
    m, n = sizes_of(x.type)
    return g(Slice, x, starts=(0, n - 1), sizes=(m, n), strides=(1, -1))


def flip_before_its_row(g: FunctionBuilder) -> list[SSAValue]:
    """One pass reads a row both ways while a later one reads it again."""
    t = g(Gelu, g.input(M, N))
    first = g(Reduce, g(Add, flipped(g, t), t), axes=(1,), kind="max")
    second = g(Reduce, g(Exponential, g(Tanh, g(Subtract, t, spread(g, first, t, 0)))), axes=(1,))
    return [g(Add, t, spread(g, second, t, 0))]


def first_column(g: FunctionBuilder) -> list[SSAValue]:
    """One lane of a row is read at every lane, before the row and after it."""
    t = g(Gelu, g(Concatenate, g.input(M, 1), g.input(M, N), axis=1))
    column = g(Slice, t, starts=(0, 0), sizes=(M, 1), strides=(1, 1))
    shifted = g(Subtract, t, spread(g, column, t, 0, 1))
    total = g(Reduce, shifted, axes=(1,), kind="max")
    return [g(Add, shifted, spread(g, total, shifted, 0)), g(Add, t, spread(g, total, t, 0))]


def padded_after_reduction(g: FunctionBuilder) -> list[SSAValue]:
    """A kept row is read under a guard."""
    t = g(Gelu, g.input(M, N))
    row = g(Reduce, t, axes=(1,), kind="max")
    centred = g(Subtract, t, spread(g, row, t, 0))
    padded = g(Pad, centred, g.full(0.25), low=(0, 1), high=(0, 0))
    return [g(Add, g(Slice, padded, starts=(0, 0), sizes=(M, N), strides=(1, 1)), t)]


def guarded_then_not(g: FunctionBuilder) -> list[SSAValue]:
    """What was read under a guard is read again without it, at the same point, in both orders."""
    x, y = g.input(M, N), g.input(N)
    t = g(Tanh, x)
    padded = g(Pad, t, g.full(0.0), low=(0, 0), high=(0, 2))
    cut = g(Slice, padded, starts=(0, 0), sizes=(M, N), strides=(1, 1))
    joined = g(Concatenate, g(Add, t, spread(g, y, t, 1)), t, axis=0)
    half = g(Slice, joined, starts=(M, 0), sizes=(M, N), strides=(1, 1))
    return [g(Add, cut, t), g(Subtract, t, cut), g(Add, half, cut)]


def unit_axes(g: FunctionBuilder) -> list[SSAValue]:
    """Reductions over [1, n] and over [n] of the same rows, where positions pin the axis of size 1."""
    x = g.input(M, 1, N)
    total = g(Reduce, x, axes=(1, 2))
    centred = g(Subtract, x, spread(g, total, x, 0))
    counted = g(Add, centred, g(Convert, g.iota(1, M, 1, N), dtype=F32))
    top = g(Reduce, counted, axes=(2,), kind="max")
    alone = g(Reduce, x, axes=(1,), kind="max")
    return [g(Maximum, counted, spread(g, top, x, 0, 1)), top, alone, g(Reduce, top, axes=(1,), kind="min")]


def several_axes(g: FunctionBuilder) -> list[SSAValue]:
    """Axes that are not neighbours, all axes, and the first ones."""
    x = g.input(M, N, K)
    t = g(Tanh, x)
    return [
        g(Reduce, t, axes=(0, 2)), g(Reduce, t, axes=(0, 1)), g(Reduce, t, axes=(0, 1, 2)), g(Reduce, t, axes=(1,), kind="min"),
        g(Reduce, t, axes=(0, 2), kind="max"), t,
    ]  # fmt: skip


def column_and_whole(g: FunctionBuilder) -> list[SSAValue]:
    """The operand of a column reduction is itself a result."""
    t = g(Tanh, g.input(M, N))
    return [g(Negate, g(Reduce, t, axes=(0,), kind="max")), t]


def column_statistics(g: FunctionBuilder) -> list[SSAValue]:
    """Two reductions over the same columns, the second of what the first gives."""
    x = g.input(M, N)
    mean = g(Tanh, g(Reduce, x, axes=(0,)))
    return [g(Reduce, g(Subtract, x, spread(g, mean, x, 1)), axes=(0,), kind="max"), mean]


def along_the_other_axis(g: FunctionBuilder) -> list[SSAValue]:
    """x[i, j] + Σ_k x[j, k], in a square: the row that is added is not the row that is reduced."""
    x = g.input(N, N)
    row = g(Reduce, x, axes=(1,))
    return [g(Add, x, spread(g, row, x, 1)), g(Add, x, spread(g, row, x, 0))]


def transposed_softmax(g: FunctionBuilder) -> list[SSAValue]:
    """A square whose softmax is read row by row and column by column."""
    x = g.input(N, N)
    soft = g(Softmax, x, axis=1)
    return [g(Add, soft, g(Transpose, soft, permutation=(1, 0)))]


def square_attention_like(g: FunctionBuilder) -> list[SSAValue]:
    """softmax over the first axis of what a softmax over the last gives."""
    return [g(Softmax, g(Softmax, g.input(N, N, N), axis=2), axis=1)]


def outputs_of_all_shapes(g: FunctionBuilder) -> list[SSAValue]:
    """One row kernel with results as long as rows, one a row, and with axes of size 1."""
    x = g.input(M, N)
    top = g(Reduce, x, axes=(1,), kind="max")
    raised = g(Exponential, g(Subtract, x, spread(g, top, x, 0)))
    total = g(Reduce, raised, axes=(1,))
    kept = g(Reshape, total, sizes=(M, 1))
    return [top, raised, total, kept, g(Multiply, raised, spread(g, kept, x, 0, 1))]


def masked_rows(g: FunctionBuilder) -> list[SSAValue]:
    """softmax of a masked, scaled row, and the row itself."""
    x = g(Multiply, g.input(M, N), g.full(0.5, M, N))
    mask = g(Compare, g.iota(1, M, N), g.iota(0, M, N), direction="le")
    return [g(Softmax, g(Select, mask, x, g.full(-1e9, M, N)), axis=1), x]


def rows_that_only_one_op_pins(g: FunctionBuilder) -> list[SSAValue]:
    """Positions pin the axes of the result, nothing pins those of what is reduced: both are the same rows."""
    x, y = g.input(1, N, K), g.input(1, N, K)
    total = g(Tanh, g(Reduce, x, axes=(1, 2)))
    mask = g(Compare, g.iota(0, 1, N, K), g.iota(1, 1, N, K), direction="ne")
    return [g(Select, mask, g(Multiply, y, spread(g, total, y, 0)), y)]


def rows_of_rank_three(g: FunctionBuilder) -> list[SSAValue]:
    """Rows of two axes that cannot be merged, since one of them is flipped."""
    x = g.input(M, N, K)
    turned = g(Slice, x, starts=(0, N - 1, 0), sizes=(M, N, K), strides=(1, -1, 1))
    total = g(Reduce, g(Gelu, turned), axes=(1, 2))
    return [g(Add, x, spread(g, g(Tanh, total), x, 0)), g(Reduce, turned, axes=(1, 2), kind="max")]


GRAPHS: tuple[Graph, ...] = (
    flip_before_its_row, first_column, padded_after_reduction, guarded_then_not, unit_axes, several_axes, column_and_whole,
    column_statistics, along_the_other_axis, transposed_softmax, square_attention_like, outputs_of_all_shapes, masked_rows,
    rows_of_rank_three,
    rows_that_only_one_op_pins,
)  # fmt: skip


def environments() -> Iterator[Mapping[str, int]]:
    for m, n, k in ((17, 8, 3), (1, 1, 1), (2, 7, 17), (0, 3, 2), (3, 0, 1), (2, 2, 0), (3, 40, 5)):
        yield {"m": m, "n": n, "k": k}


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_graph(graph: Graph) -> None:
    g = FunctionBuilder()
    check(g.finish(*graph(g)), list(environments()))
