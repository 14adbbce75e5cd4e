"""ONNX's Det."""

from __future__ import annotations

from anyshape.dialects.dhlo import Gather, Multiply, Reduce, Select
from anyshape.dialects.dhlo.factorisation import Lu, LuPivots, PivotOrder
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.strided import Diagonal
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.places import iota
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value


@lowers("Det")
def lower_det(b: GraphBuilder, x: Value) -> Value:
    """The product of the pivots of each matrix [.., n, n], negative for an odd number of exchanged rows"""
    if x.rank < 2:
        raise Malformed(f"a determinant is of matrices; the tensor has {x.rank} axes")
    size = b.same(x.sizes[-2], x.sizes[-1], "the sides of a square matrix")
    matrix = b.convert(
        b.with_sizes(x, (*x.sizes[:-2], size, size), "the sides of a square matrix"), accumulation_dtype(x.dtype)
    )
    rank, outer = x.rank, tuple(range(x.rank - 2))
    pivots = b.emit(LuPivots, matrix)
    order = b.emit(PivotOrder, pivots, rows=(size,))
    rows = b.emit(
        Gather, matrix, order, offset_dims=(rank - 1,), collapsed_slice_dims=(rank - 2,), start_index_map=(rank - 2,),
        operand_batching_dims=outer, start_indices_batching_dims=outer, index_vector_dim=rank - 1,
        slice_sizes=(*[ONE] * (rank - 1), size),
    )  # fmt: skip
    diagonal = b.emit(Diagonal, b.emit(Lu, rows), first=rank - 2, second=rank - 1, row=0, column=0, length=size)
    stays = b.compare("eq", pivots, iota(b, pivots.sizes, rank - 2))
    one = b.constant(1, matrix.dtype, pivots.sizes)
    signs = b.emit(Select, stays, one, b.constant(-1, matrix.dtype, pivots.sizes))
    factors = b.emit(Multiply, diagonal, signs)
    return b.convert(b.emit(Reduce, factors, axes=(rank - 2,), kind="prod"), x.dtype)


__all__: list[str] = []
