"""ONNX ops that read and write at indices held in tensors.

An index may count from the end of its axis; one that lies outside is an error of the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import (
    Add,
    Compare,
    DynamicUpdateSlice,
    Gather,
    Modulo,
    Select,
    Subtract,
)
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import places
from anyshape.frontends.onnx.movement import counted_from_start, from_start
from anyshape.frontends.onnx.places import along, gathered, iota, size_as, taken
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, known_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_REDUCTIONS = {"none": "set", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _kind(reduction: str) -> str:
    """The kind of scatter that ONNX's word stands for."""
    if reduction not in _REDUCTIONS:
        raise Malformed(f"the reduction is {reduction!r}; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[reduction]


def scattered(b: GraphBuilder, x: Tensor, indices: Tensor, updates: Tensor, kind: str, batch: int = 0) -> Tensor:
    """x [b…, j…, w…] updated at indices [b…, m(, number of axes j)] by updates [b…, m, w…]; sums and products of 16-bit floats in f32."""
    dtype = x.dtype
    wide = F32 if dtype in (F16, BF16) and kind in ("sum", "prod") else dtype
    result = b.emit(Scatter, b.convert(x, wide), indices, b.convert(updates, wide), kind=kind, batch=batch)
    return b.convert(result, dtype)


# -- elements --------------------------------------------------------------------------------------------------------


@lowers("GatherElements")
def lower_gather_elements(b: GraphBuilder, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """result[i…] = x[i… with indices[i…] on the axis]; on the others x may be longer"""
    axis = b.axis(axis, x.rank)
    if indices.rank != x.rank:
        raise Malformed(f"indices have {indices.rank} axes, and the tensor has {x.rank}")
    at = from_start(b, indices, x.sizes[axis])
    return taken(b, _leading(b, b.tensor(x), at.sizes, axis), at, axis)


def _leading(b: GraphBuilder, x: Tensor, sizes: Sequence[Size], axis: int) -> Tensor:
    """The first elements of x along all axes but one."""
    for other, size in enumerate(sizes):
        if other != axis and size != x.sizes[other]:
            b.require(size.le(x.sizes[other]), "an axis of indices")
            x = b.slice(x, other, 0, size)
    return x


@lowers("ScatterElements")
@lowers("Scatter")
def lower_scatter_elements(
    b: GraphBuilder, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """x with updates[i…] written, or folded in, at i… with indices[i…] on the axis; of equal places the last is written"""
    axis = b.axis(axis, x.rank)
    if indices.rank != x.rank:
        raise Malformed(f"indices have {indices.rank} axes, and the tensor has {x.rank}")
    tensor = b.tensor(x)
    at = b.convert(from_start(b, indices, x.sizes[axis]), I64)
    part = _leading(b, tensor, at.sizes, axis)
    order = [*(other for other in range(x.rank) if other != axis), axis]
    changes = b.with_sizes(updates, at.sizes, "the updates")
    moved, index, changes = (b.transpose(each, order) for each in (part, at, changes))
    result = scattered(b, moved, index, changes, _kind(reduction), x.rank - 1)
    result = b.transpose(result, [order.index(each) for each in range(x.rank)])
    if part is tensor:
        return result
    return b.emit(DynamicUpdateSlice, tensor, result, starts=(ZERO,) * x.rank)


# -- index vectors ---------------------------------------------------------------------------------------------------


def _vectors(b: GraphBuilder, indices: Value, sizes: Sequence[Size], batch: int) -> tuple[Tensor, int]:
    """Index vectors counted from the start, i64, and how many components they have; `sizes` are those of the axes from `batch` on."""
    if indices.rank <= batch or not indices.sizes[-1].is_constant:
        raise Unsupported(f"index vectors of {indices.sizes[-1] if indices.rank else 0} components")
    count = indices.sizes[-1].value
    if not 1 <= count <= len(sizes):
        raise Malformed(f"index vectors have {count} components for {len(sizes)} axes")
    if isinstance(indices, Known) and indices.is_literal and (indices.elements >= 0).all():
        return b.convert(indices, I64), count
    at = b.convert(indices, I64)
    lengths = b.repeated(b.tensor(known_sizes(sizes[:count])), at.sizes)
    return counted_from_start(b, at, lengths), count


@lowers("GatherND")
def lower_gather_nd(b: GraphBuilder, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """result[n…, i…, w…] = x[n…, indices[n…, i…, :]…, w…], with `batch_dims` axes n"""
    if not 0 <= batch_dims < min(x.rank, indices.rank):
        raise Malformed(f"there are {batch_dims} batch axes among {x.rank} and {indices.rank}")
    common = [b.same(*pair, "the batch of indices") for pair in zip(x.sizes[:batch_dims], indices.sizes, strict=False)]
    tensor = b.tensor(x).reshape(*common, *x.sizes[batch_dims:])
    at, count = _vectors(b, indices, x.sizes[batch_dims:], batch_dims)
    at = at.reshape(*common, *at.sizes[batch_dims:])
    batch, indexed = tuple(range(batch_dims)), tuple(range(batch_dims, batch_dims + count))
    vector = at.rank - 1
    return b.emit(
        Gather, tensor, at, offset_dims=tuple(range(vector, vector + x.rank - batch_dims - count)), collapsed_slice_dims=indexed,
        start_index_map=indexed, operand_batching_dims=batch, start_indices_batching_dims=batch, index_vector_dim=vector,
        slice_sizes=(*[ONE] * (batch_dims + count), *tensor.sizes[batch_dims + count :]),
    )  # fmt: skip


@lowers("ScatterND")
def lower_scatter_nd(b: GraphBuilder, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """x with updates[i…, w…] written, or folded in, at x[indices[i…, :]…, w…]"""
    kind = _kind(reduction)
    if (
        indices.rank and not indices.sizes[-1].is_constant
    ):  # then the axes of the updates say how many components there are
        count = indices.rank - 1 + x.rank - updates.rank
        indices = b.with_sizes(indices, (*indices.sizes[:-1], count), "index vectors")
    at, count = _vectors(b, indices, x.sizes, 0)
    rest = at.sizes[:-1]
    number = numel(rest)
    changes = b.with_sizes(updates, (*rest, *x.sizes[count:]), "the updates")
    changes = b.reshape(changes, (number, *x.sizes[count:]))
    at = b.reshape(at, (number,) if count == 1 else (number, count))
    return scattered(b, b.tensor(x), at, changes, kind)


# -- masks and ranges ------------------------------------------------------------------------------------------------


@lowers("Compress")
def lower_compress(b: GraphBuilder, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The slices, or elements in row-major order, where the condition holds; it may be shorter than the axis"""
    tensor = b.tensor(x) if axis is not None else b.reshape(x, (numel(x.sizes),))
    along_axis = 0 if axis is None else b.axis(axis, x.rank)
    if condition.rank != 1:
        raise Malformed(f"the condition must be a vector; it has {condition.rank} axes")
    b.require(condition.sizes[0].le(tensor.sizes[along_axis]), "the condition")
    return gathered(b, tensor, (along_axis,), [places(b, b.convert(condition, BOOL), "compressed")], along_axis)


# -- sequences -------------------------------------------------------------------------------------------------------


def reverse_sequences(b: GraphBuilder, x: Tensor, lengths: Tensor, batch_axis: int, time_axis: int) -> Tensor:
    """x with the first lengths[i] elements of each sequence i in the opposite order, the others where they are."""
    steps, count = x.sizes[time_axis], x.sizes[batch_axis]
    batch_first = batch_axis < time_axis
    sizes = (count, steps) if batch_first else (steps, count)
    time = iota(b, sizes, 1 if batch_first else 0)
    ends = along(b, b.convert(lengths, I64), 0 if batch_first else 1, sizes)
    back = b.binary(Subtract, b.emit(Subtract, ends, time), 1)
    at = b.emit(Select, b.emit(Compare, time, ends, direction="lt"), back, time)
    return b.emit(
        Gather, x, at, offset_dims=tuple(axis for axis in range(x.rank) if axis not in (batch_axis, time_axis)),
        collapsed_slice_dims=(time_axis,), start_index_map=(time_axis,), operand_batching_dims=(batch_axis,),
        start_indices_batching_dims=(0 if batch_first else 1,), index_vector_dim=2,
        slice_sizes=tuple(ONE if axis in (batch_axis, time_axis) else size for axis, size in enumerate(x.sizes)),
    )  # fmt: skip


@lowers("ReverseSequence")
def lower_reverse_sequence(
    b: GraphBuilder, x: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    batch_axis, time_axis = b.axis(batch_axis, x.rank), b.axis(time_axis, x.rank)
    if batch_axis == time_axis:
        raise Malformed("the axes of batch and time are one")
    lengths = b.with_sizes(sequence_lens, (x.sizes[batch_axis],), "the lengths of sequences")
    return reverse_sequences(b, b.tensor(x), lengths, batch_axis, time_axis)


@lowers("TensorScatter")
def lower_tensor_scatter(
    b: GraphBuilder,
    cache: Value,
    update: Value,
    write_indices: Value | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Value:
    """cache[n, …, write_indices[n] + s, …] = update[n, …, s, …]; with mode `circular` positions begin again behind the last"""
    axis = b.axis(axis, cache.rank)
    if not axis or mode not in ("linear", "circular"):
        raise Malformed(f"the axis is {axis}, and the mode {mode!r}")
    b.check_rank(update, cache.rank, cache.rank)
    room, steps, batch = cache.sizes[axis], update.sizes[axis], cache.sizes[0]
    changes = b.with_sizes(update, (*cache.sizes[:axis], steps, *cache.sizes[axis + 1 :]), "the update")
    b.require(steps.le(room), "the update")
    time = iota(b, (batch, steps), 1)
    if write_indices is not None:
        starts = b.convert(b.with_sizes(write_indices, (batch,), "the indices"), I64)
        time = b.emit(Add, time, along(b, starts, 0, time.sizes))
    if mode == "circular":
        time = b.binary(Modulo, time, size_as(b, room))
    order = [0, axis, *(other for other in range(1, cache.rank) if other != axis)]
    moved, changes = b.transpose(cache, order), b.transpose(changes, order)
    result = scattered(b, moved, time, changes, "set", 1)
    return b.transpose(result, [order.index(each) for each in range(cache.rank)])


__all__ = ["reverse_sequences", "scattered"]
