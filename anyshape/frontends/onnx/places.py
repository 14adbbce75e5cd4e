"""Positions as tensors, and reading a tensor at them."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import BroadcastInDim, Concatenate, Gather, Iota
from anyshape.dialects.dtypes import I64, DType
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.values import known_scalar
from anyshape.nn import Tensor
from anyshape.symbolic import Size, SizeLike


def iota(b: GraphBuilder, sizes: Sequence[SizeLike], axis: int = 0, dtype: DType = I64) -> Tensor:
    """result[i…] = i[axis]"""
    return b.emit(Iota, axis=axis, sizes=tuple(map(Size.of, sizes)), dtype=dtype)


def size_as(b: GraphBuilder, size: SizeLike, dtype: DType = I64) -> Tensor:
    """A size as a tensor of rank 0."""
    size = Size.of(size)
    return b.constant(size.value, dtype) if size.is_constant else b.operand(known_scalar(size), dtype)


def along(b: GraphBuilder, x: Tensor, axis: int, sizes: Sequence[Size]) -> Tensor:
    """A vector as a tensor of these sizes that differs along one axis."""
    if x.sizes == tuple(sizes):
        return x
    return b.emit(BroadcastInDim, x, dimensions=(axis,), sizes=tuple(sizes))


def gathered(b: GraphBuilder, x: Tensor, axes: Sequence[int], indices: Sequence[Tensor], at: int) -> Tensor:
    """x read on `axes` at `indices`, which all have the same sizes J; the other axes are kept whole.

    The result has the kept axes in order, with J before the kept axis number `at`.
    """
    depth = indices[0].rank
    kept = [axis for axis in range(x.rank) if axis not in axes]
    offsets = tuple(place if place < at else place + depth for place in range(len(kept)))
    return b.emit(
        Gather,
        x,
        _index_vectors(b, indices),
        offset_dims=offsets,
        collapsed_slice_dims=tuple(axes),
        start_index_map=tuple(axes),
        index_vector_dim=depth,
        slice_sizes=tuple(ONE if axis in axes else size for axis, size in enumerate(x.sizes)),
    )


def _index_vectors(b: GraphBuilder, indices: Sequence[Tensor]) -> Tensor:
    """[J] each -> [J, number of indices]; a single one has no axis of its own."""
    return indices[0] if len(indices) == 1 else columns_beside(b, indices)


def columns_beside(b: GraphBuilder, columns: Sequence[Tensor]) -> Tensor:
    """[J] each -> [J, number of columns]"""
    apart = [b.reshape(column, (*column.sizes, 1)) for column in columns]
    return apart[0] if len(apart) == 1 else b.emit(Concatenate, *apart, axis=columns[0].rank)


def taken(b: GraphBuilder, x: Tensor, positions: Tensor, axis: int) -> Tensor:
    """result[…, i, …] = x[…, positions[…, i, …], …]; on the axes but `axis` both have the same sizes."""
    outer = tuple(other for other in range(x.rank) if other != axis)
    return b.emit(
        Gather,
        x,
        positions,
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=outer,
        start_indices_batching_dims=outer,
        index_vector_dim=x.rank,
        slice_sizes=(ONE,) * x.rank,
    )


def swapped(b: GraphBuilder, x: Tensor, axis: int) -> Tensor:
    """x with an axis and the last one exchanged."""
    order = list(range(x.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return b.transpose(x, order)


def reversed_along(b: GraphBuilder, x: Tensor, axis: int) -> Tensor:
    """x[…, n − 1 − i, …]"""
    return b.slice(x, axis, x.sizes[axis] - 1, x.sizes[axis], -1)


__all__ = ["along", "columns_beside", "gathered", "iota", "reversed_along", "size_as", "swapped", "taken"]
