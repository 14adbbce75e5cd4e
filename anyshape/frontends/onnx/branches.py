"""Reading at indices inside a branch that is computed whether or not it is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyshape.dialects.dhlo import Array, BroadcastInDim, Clamp, Maximum, Pad, Select, Subtract, Weight
from anyshape.dialects.dtypes import I64
from anyshape.frontends.onnx.values import known_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max

if TYPE_CHECKING:
    from anyshape.frontends.onnx.builder import GraphBuilder

ZERO, ONE = Size.const(0), Size.const(1)


def guarded_gather(
    b: GraphBuilder, taken: Tensor, x: Tensor, indices: Tensor, attributes: Mapping[str, Any]
) -> list[Tensor]:
    """Operands with which a `gather` fails only where `taken`, a bool of rank 0, holds.

    An index of a branch that is not taken is brought into its axis, and an axis that may be empty gets an element to read there.
    """
    axes: Sequence[int] = attributes["start_index_map"]
    windows = attributes["slice_sizes"]
    bounds = [x.sizes[axis] - windows[axis] + 1 for axis in axes]
    if _is_inside(b, indices, bounds, attributes["index_vector_dim"]):
        return [x, indices]
    missing = [
        ZERO if b.prove(bound.ge(1)) is True else b.graph.facts.simplify(size_max(ONE - bound, 0)) for bound in bounds
    ]
    places = b.convert(indices, I64)
    sizes = places.sizes
    limits = _along(b, bounds, sizes, attributes["index_vector_dim"])
    last = b.emit(Maximum, b.binary(Subtract, limits, 1), b.constant(0, I64, sizes))
    inside = b.emit(Clamp, b.constant(0, I64, sizes), places, last)
    if missing != [ZERO] * len(missing):
        places = b.select(b.compare("lt", limits, 1), b.binary(Maximum, places, 1), places)  # no index is right there
        x = _lengthened(b, x, axes, missing)
    return [x, b.emit(Select, b.repeated(taken, sizes), places, inside)]


def _is_inside(b: GraphBuilder, indices: Tensor, bounds: Sequence[Size], vector: int) -> bool:
    """Whether constant indices are within bounds in every call."""
    elements = _literal(b, indices)
    if elements is None:
        return False
    columns = [elements] if vector == elements.ndim else [elements.take(place, vector) for place in range(len(bounds))]
    return all(
        not column.size or (column.min() >= 0 and b.prove(bound.gt(int(column.max()))) is True)
        for column, bound in zip(columns, bounds, strict=True)
    )


def _literal(b: GraphBuilder, tensor: Tensor) -> Array | None:
    owner = tensor.value.owner
    return b.graph.store[owner.attribute("name")] if isinstance(owner, Weight) else None


def _along(b: GraphBuilder, bounds: Sequence[Size], sizes: Sequence[Size], vector: int) -> Tensor:
    """The bound of each index: of one axis for all, or of the axis that its component is of."""
    vectors = b.tensor(known_sizes(bounds))
    if vector == len(sizes):
        return b.repeated(b.reshape(vectors, ()), tuple(sizes))
    return b.emit(BroadcastInDim, vectors, dimensions=(vector,), sizes=tuple(sizes))


def _lengthened(b: GraphBuilder, x: Tensor, axes: Sequence[int], amounts: Sequence[Size]) -> Tensor:
    high = [ZERO] * x.rank
    for axis, amount in zip(axes, amounts, strict=True):
        high[axis] = amount
    return b.emit(Pad, x, b.constant(0, x.dtype), low=(ZERO,) * x.rank, high=tuple(high))


__all__ = ["guarded_gather"]
