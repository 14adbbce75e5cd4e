"""Movement of small tensors that are known while importing: Shape → Gather → Concat → Reshape moves expressions over sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from anyshape.dialects.dhlo import Array
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import FOLDED_ELEMENTS, GraphBuilder
from anyshape.frontends.onnx.movement import reshaped_sizes
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import folds
from anyshape.frontends.onnx.values import Known, as_objects, known_array
from anyshape.symbolic import Size


def _moved(x: Known, moved: Array) -> Known:
    elements = np.empty(np.shape(moved), x.elements.dtype)  # of one element numpy gives the element itself
    elements[...] = moved
    return Known(elements) if x.is_literal else known_array(elements, x.numpy)


@folds("Gather")
def fold_gather(b: GraphBuilder, x: Known, indices: Known, *, axis: int = 0) -> Known | None:
    if not indices.is_literal:
        return None
    axis = b.axis(axis, x.rank)
    return _moved(x, np.take(x.elements, _places(indices, x.shape[axis]), axis=axis))


def _places(indices: Known, size: int) -> Array:
    """Indices into an axis, counted from its start. Malformed for one that lies outside."""
    if indices.numpy.kind not in "iu":
        raise Malformed(f"the indices are {indices.numpy}")
    outside = indices.elements[(indices.elements < -size) | (indices.elements >= size)]
    if outside.size:
        raise Malformed(f"index {outside.flat[0]} is outside an axis of size {size}")
    return np.where(indices.elements < 0, indices.elements + size, indices.elements)


@folds("GatherElements")
def fold_gather_elements(b: GraphBuilder, x: Known, indices: Known, *, axis: int = 0) -> Known | None:
    axis = b.axis(axis, x.rank)
    if not indices.is_literal or not _fits(indices.shape, x.shape, axis):
        return None
    return _moved(x, x.elements[_elements_at(indices, x.shape, axis)])


@folds("ScatterElements")
def fold_scatter_elements(
    b: GraphBuilder, x: Known, indices: Known, updates: Known, *, axis: int = 0, reduction: str = "none"
) -> Known | None:
    axis = b.axis(axis, x.rank)
    if not indices.is_literal or not _fits(indices.shape, x.shape, axis) or indices.shape != updates.shape:
        return None
    return _written(x, _elements_at(indices, x.shape, axis), updates, reduction)


def _fits(indices: Sequence[int], sizes: Sequence[int], axis: int) -> bool:
    """Whether indices have the axes of what they index, none of them longer but the one that they are about."""
    pairs = enumerate(zip(indices, sizes, strict=False))
    return len(indices) == len(sizes) and all(at == axis or few <= many for at, (few, many) in pairs)


def _elements_at(indices: Known, sizes: Sequence[int], axis: int) -> tuple[Array, ...]:
    """Positions on each axis: that of the index on all but one."""
    at: list[Array] = list(np.indices(indices.shape, sparse=True))
    at[axis] = _places(indices, sizes[axis])
    return tuple(at)


@folds("GatherND")
def fold_gather_nd(b: GraphBuilder, x: Known, indices: Known, *, batch_dims: int = 0) -> Known | None:
    at = None if batch_dims else _vectors_at(indices, x.shape)
    return None if at is None else _moved(x, x.elements[at])


@folds("ScatterND")
def fold_scatter_nd(
    b: GraphBuilder, x: Known, indices: Known, updates: Known, *, reduction: str = "none"
) -> Known | None:
    at = _vectors_at(indices, x.shape)
    if at is None or updates.shape != x.elements[at].shape:
        return None
    return _written(x, at, updates, reduction)


def _vectors_at(indices: Known, sizes: Sequence[int]) -> tuple[Array, ...] | None:
    """Positions on the axes that index vectors have components for; None where they have none, or too many."""
    if not indices.is_literal or not indices.rank or not 1 <= indices.shape[-1] <= len(sizes):
        return None
    columns = np.moveaxis(indices.elements, -1, 0)
    return tuple(_places(Known(column), size) for column, size in zip(columns, sizes, strict=False))


def _written(x: Known, at: tuple[Array, ...], updates: Known, reduction: str) -> Known | None:
    """x with the updates at these positions, of which the last counts."""
    if reduction != "none" or x.numpy != updates.numpy:
        return None
    literal = x.is_literal and updates.is_literal
    elements = x.elements.copy() if literal else as_objects(x).copy()
    elements[at] = updates.elements if literal else as_objects(updates)
    return Known(elements) if literal else known_array(elements, x.numpy)


@folds("Concat")
def fold_concat(b: GraphBuilder, first: Known, *others: Known, axis: int) -> Known | None:
    parts = (first, *others)
    if any(each.numpy != first.numpy or each.rank != first.rank for each in parts):
        return None
    if all(each.is_literal for each in parts):
        return Known(np.concatenate([each.elements for each in parts], axis=b.axis(axis, first.rank)))
    return known_array(np.concatenate([as_objects(each) for each in parts], axis=b.axis(axis, first.rank)), first.numpy)


@folds("Reshape")
def fold_reshape(b: GraphBuilder, x: Known, shape: Known, *, allowzero: int = 0) -> Known | None:
    sizes = reshaped_sizes(b, x.sizes, b.size_list(shape, "the shape"), bool(allowzero))
    if not all(size.is_constant for size in sizes) or numel(sizes) != numel(x.sizes):
        return None
    return _moved(x, x.elements.reshape([size.value for size in sizes]))


@folds("Transpose")
def fold_transpose(b: GraphBuilder, x: Known, *, perm: Sequence[int] | None = None) -> Known:
    return _moved(x, x.elements.transpose(perm))


@folds("ConstantOfShape")
def fold_constant_of_shape(b: GraphBuilder, shape: Known, *, value: Known | None = None) -> Known | None:
    """As exporters write the pads of axes that are not padded"""
    filled = np.zeros(1, np.float32) if value is None else value.elements
    if shape.is_literal and any(size < 0 for size in shape.elements.ravel().tolist()):
        raise Malformed("a size is negative")
    if (
        not shape.is_literal
        or filled.size != 1
        or not 0 <= math.prod(shape.elements.ravel().tolist()) <= FOLDED_ELEMENTS
    ):
        return None
    return Known(np.full(shape.elements.ravel(), filled.reshape(()), filled.dtype))


@folds("Unsqueeze")
def fold_unsqueeze(b: GraphBuilder, x: Known, axes: Known | Sequence[int]) -> Known:
    added = b.axes(axes, x.rank + len(b.integers(axes, "the axes")))
    return _moved(x, np.expand_dims(x.elements, tuple(added)))


@folds("Squeeze")
def fold_squeeze(b: GraphBuilder, x: Known, axes: Known | Sequence[int] | None = None) -> Known:
    dropped = None if axes is None else tuple(b.axes(axes, x.rank))
    if any(x.shape[axis] != 1 for axis in dropped or ()):
        raise Malformed(f"axes {dropped} of shape {list(x.shape)} are squeezed")
    return _moved(x, np.squeeze(x.elements, dropped))


@folds("Flatten")
def fold_flatten(b: GraphBuilder, x: Known, *, axis: int = 1) -> Known:
    cut = x.rank if axis == x.rank else b.axis(axis, x.rank) if x.rank else 0
    return _moved(x, x.elements.reshape(math.prod(x.shape[:cut]), math.prod(x.shape[cut:])))


# -- repetition ------------------------------------------------------------------------------------------------------


def _repeated(x: Known, sizes: Sequence[int], repeat: Callable[[Array], Array]) -> Known | None:
    """What `repeat` makes of the elements, unless that is much; long axes beside one of no elements are much too."""
    return _moved(x, repeat(x.elements)) if math.prod(max(size, 1) for size in sizes) <= FOLDED_ELEMENTS else None


@folds("Tile")
def fold_tile(b: GraphBuilder, x: Known, repeats: Known) -> Known | None:
    counts = repeats.elements.ravel().tolist()
    if not repeats.is_literal or len(counts) != x.rank or any(count < 0 for count in counts):
        return None
    sizes = [count * size for count, size in zip(counts, x.shape, strict=True)]
    # `np.tile` repeats one axis after another, which is much before a count of 0 makes it nothing.
    apart = [size for pair in zip(counts, x.shape, strict=True) for size in pair]
    rows = x.elements.reshape([size for each in x.shape for size in (1, each)])
    return _repeated(x, sizes, lambda _: np.broadcast_to(rows, apart).reshape(sizes))


@folds("Expand")
def fold_expand(b: GraphBuilder, x: Known, shape: Known) -> Known | None:
    if not shape.is_literal or any(size < 0 for size in shape.elements.ravel().tolist()):
        return None
    wanted = tuple(map(int, shape.elements.ravel()))
    try:
        sizes = np.broadcast_shapes(x.shape, wanted)
    except ValueError as error:
        raise Malformed(f"shape {list(x.shape)} cannot be broadcast to {list(wanted)}") from error
    return _repeated(x, sizes, lambda elements: np.broadcast_to(elements, sizes))


@folds("Pad")
def fold_pad(
    b: GraphBuilder, x: Known, pads: Known | Sequence[int], value: Known | None = None, axes: Known | None = None, *,
    mode: str = "constant",
) -> Known | None:  # fmt: skip
    """Integers beside a number, as exporters lengthen a shape"""
    bounds = [each for each in (pads, axes) if isinstance(each, Known)]
    if mode != "constant" or x.numpy.kind not in "iu" or not all(each.is_literal for each in bounds):
        return None
    amounts, listed = b.integers(pads, "the pads"), list(range(x.rank)) if axes is None else b.axes(axes, x.rank)
    if len(amounts) != 2 * len(listed) or any(amount < 0 for amount in amounts):
        return None
    widths = [(0, 0)] * x.rank
    for axis, low, high in zip(listed, amounts, amounts[len(listed) :], strict=False):
        widths[axis] = low, high
    if math.prod(low + size + high for (low, high), size in zip(widths, x.shape, strict=True)) > FOLDED_ELEMENTS:
        return None
    filler = Size.const(0) if value is None else as_objects(value).flat[0]
    padded = np.full([low + size + high for (low, high), size in zip(widths, x.shape, strict=True)], filler, object)
    padded[tuple(slice(low, low + size) for (low, _), size in zip(widths, x.shape, strict=True))] = as_objects(x)
    return known_array(padded, x.numpy)
