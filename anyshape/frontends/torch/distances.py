"""ATen distances between rows: `cdist` and `pdist`, of any order p."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Compare,
    Convert,
    Divide,
    Floor,
    Iota,
    Maximum,
    Multiply,
    Power,
    Reduce,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import F64, I64
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.channel_norms import number_at
from anyshape.frontends.torch.indexing import gathered


def _distance(builder: GraphBuilder, a: SSAValue, b: SSAValue, p: float) -> SSAValue:
    """(Σ |a − b|^p)^(1/p) over the last axis; for p = 0 how many elements differ, for p = ∞ the largest difference, 0 over nothing."""
    dtype, axis = dtype_of(a.type), rank_of(a.type) - 1
    wide = accumulation_dtype(dtype)
    difference = builder.emit(Subtract, builder.convert(a, wide), builder.convert(b, wide))
    difference = builder.emit(Abs, difference)
    if p == 0:
        differs = builder.emit(Compare, difference, number_at(builder, 0.0, difference), direction="ne")
        result = builder.emit(Reduce, builder.emit(Convert, differs, dtype=wide), axes=(axis,), kind="sum")
    elif p == 1:
        result = builder.emit(Reduce, difference, axes=(axis,), kind="sum")
    elif p == 2:
        square = builder.emit(Multiply, difference, difference)
        result = builder.emit(Sqrt, builder.emit(Reduce, square, axes=(axis,), kind="sum"))
    elif math.isinf(p):
        result = builder.emit(Reduce, difference, axes=(axis,), kind="max")
        result = builder.emit(Maximum, result, number_at(builder, 0.0, result))
    else:
        power = builder.emit(Power, difference, number_at(builder, float(p), difference))
        total = builder.emit(Reduce, power, axes=(axis,), kind="sum")
        result = builder.emit(
            Power, total, builder.emit(Divide, *(number_at(builder, value, total) for value in (1.0, float(p))))
        )
    return builder.convert(result, dtype)


@lowers("aten._cdist_forward.default")
def lower_cdist(builder: GraphBuilder, a: SSAValue, b: SSAValue, p: float, _mode: Value = None) -> SSAValue:
    """[…, m, k] and […, n, k] -> […, m, n]"""
    sizes, k = builder.result_sizes, sizes_of(a.type)[-1]
    rows, columns = (sizes_of(x.type) for x in (a, b))
    a = builder.broadcast(builder.reshape(a, (*rows[:-1], 1, k)), (*sizes, k))
    b = builder.broadcast(builder.reshape(b, (*columns[:-2], 1, *columns[-2:])), (*sizes, k))
    return _distance(builder, a, b, p)


@lowers("aten._pdist_forward.default")
def lower_pdist(builder: GraphBuilder, x: SSAValue, p: float = 2) -> SSAValue:
    """The distances between rows i < j, in the order of (i, j): number q of them is at

    i = ⌊h − √(h² − 2q − 1)⌋ with h = n − ½, j = q − n·i + i·(i + 1)/2 + i + 1.
    """
    (count,), n = builder.result_sizes, sizes_of(x.type)[0]
    place = builder.emit(Iota, axis=0, sizes=(count,))
    real = builder.convert(place, F64)
    one, two = (number_at(builder, value, real) for value in (1.0, 2.0))
    half = builder.emit(Subtract, number_at(builder, n, real), number_at(builder, 0.5, real))
    below = builder.emit(Add, builder.emit(Multiply, two, real), one)
    root = builder.emit(Sqrt, builder.emit(Subtract, builder.emit(Multiply, half, half), below))
    row = builder.emit(Floor, builder.emit(Subtract, half, root))
    before = builder.emit(Multiply, row, builder.emit(Subtract, number_at(builder, 2 * n - 3, real), row))
    column = builder.emit(Add, builder.emit(Subtract, real, builder.emit(Divide, before, two)), one)
    pairs = [gathered(builder, x, (0,), [builder.convert(index, I64)], 0) for index in (row, column)]
    return _distance(builder, pairs[0], pairs[1], p)
