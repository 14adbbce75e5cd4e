"""ATen ops that only move elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Concatenate, Pad, Slice, Transpose
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.slices import clamped_bound, constant_bounds
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


@lowers(
    "aten._unsafe_view.default",
    "aten.flatten.using_ints",
    "aten.reshape.default",
    "aten.unflatten.int",
    "aten._reshape_alias.default",
    "aten._reshape_copy.default",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.view.default",
    "aten.view_copy.default",
)
def lower_view(builder: GraphBuilder, x: SSAValue, *_: Value, **__: Value) -> SSAValue:
    """The same elements in row-major order; the export knows the sizes.

    That both sides have as many elements is a condition on the caller where it is not plain: export takes it for granted
    once it has divided one by the other.
    """
    sizes = builder.result_sizes
    builder.require(numel(sizes_of(x.type)).eq(numel(sizes)), "reshape")
    return builder.reshape(x, sizes)


@lowers(
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze_copy.default", "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
)  # fmt: skip
def lower_squeeze(builder: GraphBuilder, x: SSAValue, dims: Value = None) -> SSAValue:
    """Without the axes of size 1 among `dims`; the graph is that of a size that keeps its axis, which becomes a fact"""
    sizes = sizes_of(x.type)
    listed: list[int] = [*range(len(sizes))] if dims is None else [*dims] if isinstance(dims, Sequence) else [dims]
    for axis in listed:
        size = sizes[axis_of(axis, len(sizes))] if sizes else Size.const(1)
        if not size.is_constant:
            builder.require(size.ne(1), "squeeze")
    return builder.reshape(x, builder.result_sizes)


@lowers("aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default", "aten.expand_as.default")
def lower_expand(builder: GraphBuilder, x: SSAValue, *_: Value, **__: Value) -> SSAValue:
    return builder.broadcast(x, builder.result_sizes)


# -- permutations ----------------------------------------------------------------------------------------------------


def transposed(builder: GraphBuilder, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
    """result[i…] = x[j…] with j[permutation[d]] = i[d]; permutations of one after the other are composed later."""
    if list(permutation) == list(range(rank_of(x.type))):
        return x
    return builder.emit(Transpose, x, permutation=tuple(permutation))


@lowers("aten.permute.default", "aten.permute_copy.default")
def lower_permute(builder: GraphBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    return transposed(builder, x, [axis_of(axis, rank_of(x.type)) for axis in dims])


@lowers("aten.transpose.int", "aten.transpose_copy.int")
def lower_transpose(builder: GraphBuilder, x: SSAValue, first: int, second: int) -> SSAValue:
    rank = rank_of(x.type)
    permutation = list(range(rank))
    a, b = axis_of(first, rank), axis_of(second, rank)
    if rank:
        permutation[a], permutation[b] = b, a
    return transposed(builder, x, permutation)


@lowers("aten.t.default", "aten.t_copy.default")
def lower_t(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return x if rank_of(x.type) < 2 else transposed(builder, x, (1, 0))


# -- parts -----------------------------------------------------------------------------------------------------------


def sliced(
    builder: GraphBuilder, x: SSAValue, axis: int, start: Size | int, length: Size | int, step: int = 1
) -> SSAValue:
    """x[…, start : start + step·length : step, …] on one axis."""
    sizes = sizes_of(x.type)
    if step == 1 and Size.of(length) == sizes[axis] and Size.of(start) == Size.const(0):
        return x
    starts = [Size.const(0)] * len(sizes)
    lengths = list(sizes)
    steps = [1] * len(sizes)
    starts[axis], lengths[axis], steps[axis] = Size.of(start), Size.of(length), step
    return builder.emit(Slice, x, starts=tuple(starts), sizes=tuple(lengths), strides=tuple(steps))


def _from_start(builder: GraphBuilder, position: Value, size: Size, argument: int) -> Size:
    """A position that may count from the end, counted from the start."""
    if not isinstance(position, int | Size):
        raise Unsupported(f"a slice begins or ends at {position!r}")
    return size + position if builder.is_negative(position, argument) else Size.of(position)


def _clamped_start(builder: GraphBuilder, position: Value, size: Size, length: Size, step: int) -> Size:
    """Where a slice begins, counted from the start; clamped by the axis where the elements that are taken may not be there."""
    first = _from_start(builder, position, size, 2)
    if not isinstance(position, int) or size.is_constant or length.is_constant:
        return first
    fits = (Size.const(0).le(first), (first + step * (length - 1)).lt(size))
    return first if all(builder.facts.prove(each) for each in fits) else clamped_bound(position, size)


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def lower_slice(
    builder: GraphBuilder, x: SSAValue, dim: int = 0, start: Value = None, end: Value = None, step: Value = 1
) -> SSAValue:
    """x[…, start:end:step, …]: the export knows the length, what it assumed of the bounds becomes facts."""
    if not isinstance(step, int):
        raise Unsupported("the step of a slice must be a constant")
    axis = axis_of(dim, rank_of(x.type))
    size, length = sizes_of(x.type)[axis], builder.result_sizes[axis]
    first = Size.const(0) if start is None else _clamped_start(builder, start, size, length, step)
    rule = constant_bounds(start, end, step)
    if rule is not None and rule.is_clamped and rule.size([size]) == length:
        return sliced(builder, x, axis, first, length, step)
    if length == Size.const(0):
        first = Size.const(0)
    builder.require(Size.const(0).le(length), "slice")
    builder.require(Size.const(0).le(first), "slice")
    if step == 1:
        builder.require((first + length).le(size), "slice")
    elif end is not None and not (isinstance(end, int) and end >= 2**62):
        last = _from_start(builder, end, size, 3)
        if (last - first + step - 1) // step == length:
            builder.require(last.le(size), "slice")
    return sliced(builder, x, axis, first, length, step)


@lowers("aten.select.int", "aten.select_copy.int")
def lower_select(builder: GraphBuilder, x: SSAValue, dim: int, index: Value) -> SSAValue:
    """x[…, index, …] without that axis"""
    axis = axis_of(dim, rank_of(x.type))
    size = sizes_of(x.type)[axis]
    position = _from_start(builder, index, size, 2)
    builder.require(position.lt(size), "select")
    builder.require(Size.const(0).le(position), "select")
    return builder.reshape(sliced(builder, x, axis, position, 1), builder.result_sizes)


@lowers("aten.narrow.default", "aten.narrow_copy.default")
def lower_narrow(builder: GraphBuilder, x: SSAValue, dim: int, start: Value, length: Value) -> SSAValue:
    axis = axis_of(dim, rank_of(x.type))
    size = sizes_of(x.type)[axis]
    first = _from_start(builder, start, size, 2)
    builder.require((first + length).le(size), "narrow")
    return sliced(builder, x, axis, first, length)


@lowers(
    "aten.chunk.default", "aten.split.Tensor", "aten.split_copy.Tensor", "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default", "aten.unsafe_split.Tensor",
)  # fmt: skip
def lower_split(builder: GraphBuilder, x: SSAValue, _sizes: Value, dim: int = 0) -> list[SSAValue]:
    """Consecutive parts; their lengths are in the export."""
    axis = axis_of(dim, rank_of(x.type))
    parts: list[SSAValue] = []
    start = Size.const(0)
    for part in builder.node.meta["val"]:
        length = builder.names.size(part.shape[axis])
        builder.require((start + length).le(sizes_of(x.type)[axis]), "split")
        parts.append(sliced(builder, x, axis, start, length))
        start = start + length
    return parts


@lowers("aten.unbind.int", "aten.unbind_copy.int")
def lower_unbind(builder: GraphBuilder, x: SSAValue, dim: int = 0) -> list[SSAValue]:
    axis = axis_of(dim, rank_of(x.type))
    sizes = sizes_of(x.type)
    rest = sizes[:axis] + sizes[axis + 1 :]
    count = len(builder.node.meta["val"])
    return [builder.reshape(sliced(builder, x, axis, index, 1), rest) for index in range(count)]


# -- wholes ----------------------------------------------------------------------------------------------------------


@lowers("aten.cat.default", "aten.concat.default")
def lower_cat(builder: GraphBuilder, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    """Joined on one axis; PyTorch leaves out tensors of sizes (0,) among others of more axes."""
    rank = len(builder.result_sizes)
    kept = [x for x in tensors if rank_of(x.type) == rank]
    axis = axis_of(dim, rank)
    parts = [_beside(builder, builder.convert(x, builder.result_dtype), kept[0], axis) for x in kept]
    return parts[0] if len(parts) == 1 else builder.emit(Concatenate, *parts, axis=axis)


def _beside(builder: GraphBuilder, x: SSAValue, other: SSAValue, axis: int) -> SSAValue:
    """x with the sizes of `other` on all axes but one: the same numbers, which two expressions may say (d and 2·(d // 2), for even d)."""
    sizes, wanted = sizes_of(x.type), list(sizes_of(other.type))
    wanted[axis] = sizes[axis]
    for size, expected in zip(sizes, wanted, strict=True):
        if size != expected:
            builder.require(size.eq(expected), "tensors are joined on one axis and agree on the others")
    return builder.reshape(x, wanted)


@lowers("aten._chunk_cat.default")
def lower_chunk_cat(builder: GraphBuilder, tensors: Sequence[SSAValue], dim: int, num_chunks: int) -> SSAValue:
    """Each tensor filled up with zeros along an axis and cut into as many chunks, which become rows; the rows of all side by side."""
    axis = axis_of(dim, rank_of(tensors[0].type))
    rows: list[SSAValue] = []
    for x in tensors:
        sizes = sizes_of(x.type)
        builder.require(numel(sizes).ge(1), "_chunk_cat expects non-empty tensor")
        length = -(-sizes[axis] // num_chunks)
        high = [Size.const(0)] * len(sizes)
        high[axis] = length * num_chunks - sizes[axis]
        low = (Size.const(0),) * len(sizes)
        padded = builder.emit(Pad, x, builder.constant(0, dtype_of(x.type)), low=low, high=tuple(high))
        rows.append(builder.reshape(padded, (*sizes[:axis], num_chunks, length * numel(sizes[axis + 1 :]))))
    rows = [_beside(builder, row, rows[0], axis + 1) for row in rows]
    return rows[0] if len(rows) == 1 else builder.emit(Concatenate, *rows, axis=axis + 1)


@lowers("aten.stack.default")
def lower_stack(builder: GraphBuilder, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    axis = axis_of(dim, len(builder.result_sizes))
    parts: list[SSAValue] = []
    for x in tensors:
        sizes = sizes_of(x.type)
        part = builder.convert(x, builder.result_dtype)
        parts.append(builder.reshape(part, (*sizes[:axis], 1, *sizes[axis:])))
    return parts[0] if len(parts) == 1 else builder.emit(Concatenate, *parts, axis=axis)


@lowers("aten.repeat.default")
def lower_repeat(builder: GraphBuilder, x: SSAValue, repeats: Sequence[Value]) -> SSAValue:
    """Tiles: [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r·a, s·b]"""
    extra = len(repeats) - rank_of(x.type)
    sizes = [Size.const(1)] * extra + list(sizes_of(x.type))
    apart = [size for original in sizes for size in (Size.const(1), original)]
    tiled = [size for count, original in zip(repeats, sizes, strict=True) for size in (Size.of(count), original)]
    return builder.reshape(builder.broadcast(builder.reshape(x, apart), tiled), builder.result_sizes)


@lowers("aten.constant_pad_nd.default")
def lower_constant_pad(builder: GraphBuilder, x: SSAValue, pad: Sequence[Value], value: Value = 0) -> SSAValue:
    """`pad` lists (low, high) from the last axis on; a negative one cuts."""
    rank = rank_of(x.type)
    low, high = [Size.const(0)] * rank, [Size.const(0)] * rank
    for index in range(len(pad) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = Size.of(pad[2 * index]), Size.of(pad[2 * index + 1])
    for axis, size in enumerate(sizes_of(x.type)):
        for amount in (low[axis], high[axis], low[axis] + high[axis]):
            builder.require(Size.const(0).le(size + amount), "pad")
        cut_low, cut_high = (_cut(bound[axis]) for bound in (low, high))
        if cut_low or cut_high:
            x = sliced(builder, x, axis, cut_low, sizes_of(x.type)[axis] - cut_low - cut_high)
            low[axis], high[axis] = low[axis] + cut_low, high[axis] + cut_high
    if all(bound == Size.const(0) for bound in (*low, *high)):
        return x
    return builder.emit(Pad, x, builder.operand(value, dtype_of(x.type)), low=tuple(low), high=tuple(high))


def _cut(bound: Size) -> int:
    return max(0, -bound.value) if bound.is_constant else 0
