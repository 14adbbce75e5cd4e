"""ONNX's matrix products."""

from __future__ import annotations

from anyshape.dialects.dhlo import DotGeneral
from anyshape.dialects.dtypes import DType
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor


def product(
    b: GraphBuilder, lhs: Value, rhs: Value, contract: tuple[int, int], batch: int = 0, dtype: DType | None = None
) -> Tensor:
    """Σ over one axis of each, `batch` leading axes of both being common; sizes: batch, rest of lhs, rest of rhs.

    `dtype` is that of the result, as `dhlo.dot_general` has it.
    """
    left, right = list(lhs.sizes), list(rhs.sizes)
    common = b.same(left[contract[0]], right[contract[1]], "the axes over which a product sums")
    left[contract[0]] = right[contract[1]] = common
    right[:batch] = left[:batch]
    return b.emit(
        DotGeneral,
        b.tensor(lhs).reshape(*left),
        b.with_sizes(rhs, right, "the factors of a product"),
        lhs_batch=tuple(range(batch)),
        rhs_batch=tuple(range(batch)),
        lhs_contract=(contract[0],),
        rhs_contract=(contract[1],),
        dtype=dtype,
    )


def matmul(b: GraphBuilder, lhs: Value, rhs: Value, dtype: DType | None = None) -> Tensor:
    """Σ_k lhs[…, i, k] · rhs[…, k, j] as numpy's matmul: axes in front are broadcast, a vector has no axis in the result."""
    if not lhs.rank or not rhs.rank:
        raise Malformed("a product of matrices takes no tensor of rank 0")
    if rhs.rank > 2 and rhs.rank <= lhs.rank and all(size == ONE for size in rhs.sizes[:-2]):
        rhs = b.reshape(rhs, rhs.sizes[-2:])
    if rhs.rank <= 2:
        return product(b, lhs, rhs, (lhs.rank - 1, 0), dtype=dtype)
    if lhs.rank == 1:
        result = matmul(b, b.reshape(lhs, (1, *lhs.sizes)), rhs, dtype)
        return b.reshape(result, (*result.sizes[:-2], result.sizes[-1]))
    batch = b.common_sizes(lhs.sizes[:-2], rhs.sizes[:-2])
    rank = len(batch)
    left, right = (b.repeated(x, (*batch, *x.sizes[-2:])) for x in (lhs, rhs))
    return product(b, left, right, (rank + 1, rank), rank, dtype)


__all__ = ["matmul", "product"]
