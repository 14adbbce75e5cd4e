"""ONNX ops that move elements: reshapes, permutations, parts and wholes."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import Add, And, Gather, Select
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.division import exact_quotient
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, known_scalar, sizes_text
from anyshape.nn import Tensor
from anyshape.symbolic import Size

# -- reshapes --------------------------------------------------------------------------------------------------------


def reshaped_sizes(b: GraphBuilder, source: Sequence[Size], asked: Sequence[Size], allow_zero: bool) -> list[Size]:
    """The sizes that a Reshape asks for: 0 is the size of the same axis before, −1 what is left of the number of elements."""
    sizes = list(asked)
    for axis, size in enumerate(sizes):
        if size == ZERO and not allow_zero:
            if axis >= len(source):
                raise Malformed(f"axis {axis} is to keep its size, and the tensor has {len(source)} axes")
            sizes[axis] = source[axis]
    free = [axis for axis, size in enumerate(sizes) if size == Size.const(-1)]
    if len(free) > 1:
        raise Malformed(f"more than one size is to be found out: {sizes_text(asked)}")
    if free:
        rest = numel([size for axis, size in enumerate(sizes) if axis != free[0]])
        sizes[free[0]] = _left_over(b, source, rest, asked)
    for size in sizes:
        b.require(size.ge(0), f"a size of {sizes_text(asked)}")
    return sizes


def _left_over(b: GraphBuilder, source: Sequence[Size], rest: Size, asked: Sequence[Size]) -> Size:
    total = numel(source)
    quotient = exact_quotient(total, rest) or exact_quotient(
        b.graph.facts.simplify(total), b.graph.facts.simplify(rest)
    )
    if quotient is not None:
        return quotient
    if rest == ZERO:
        raise Malformed(f"no size can be found out beside a 0: {sizes_text(asked)}")
    quotient = total // rest
    b.require((quotient * rest).eq(total), f"{sizes_text(source)} as {sizes_text(asked)}")
    return quotient


@lowers("Reshape")
def lower_reshape(b: GraphBuilder, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    return b.reshape(x, reshaped_sizes(b, x.sizes, b.size_list(shape, "the shape"), bool(allowzero)))


@lowers("Flatten")
def lower_flatten(b: GraphBuilder, x: Value, *, axis: int = 1) -> Value:
    """[product of the axes before `axis`, product of the others]"""
    cut = x.rank if axis == x.rank else b.axis(axis, x.rank) if x.rank else 0
    return b.reshape(x, (numel(x.sizes[:cut]), numel(x.sizes[cut:])))


@lowers("Squeeze")
def lower_squeeze(b: GraphBuilder, x: Value, axes: Value | Sequence[int] | None = None) -> Value:
    """Without these axes, which must have size 1; without any that has, where none is named"""
    if axes is None:
        return b.reshape(x, [size for size in x.sizes if not _is_one(b, size)])
    dropped = b.axes(axes, x.rank)
    for axis in dropped:
        b.same(x.sizes[axis], 1, f"axis {axis} that is squeezed")
    return b.reshape(x, [size for axis, size in enumerate(x.sizes) if axis not in dropped])


def _is_one(b: GraphBuilder, size: Size) -> bool:
    """Whether an axis is squeezed where none is named: one that may have another size keeps its place, and must then not be 1."""
    proved = b.prove(size.eq(1))
    if proved is None:
        b.require(size.ne(1), "an axis that is not squeezed")
    return proved is True


@lowers("Unsqueeze")
def lower_unsqueeze(b: GraphBuilder, x: Value, axes: Value | Sequence[int]) -> Value:
    """With axes of size 1 at these places of the result"""
    count = len(b.integers(axes, "the axes"))
    added = b.axes(axes, x.rank + count)
    sizes = iter(x.sizes)
    return b.reshape(x, [ONE if axis in added else next(sizes) for axis in range(x.rank + count)])


# -- permutations and repetitions --------------------------------------------------------------------------------------


@lowers("Transpose")
def lower_transpose(b: GraphBuilder, x: Value, *, perm: Sequence[int] | None = None) -> Value:
    order = list(range(x.rank))[::-1] if perm is None else [b.axis(axis, x.rank) for axis in perm]
    if sorted(order) != list(range(x.rank)):
        raise Malformed(f"perm {order} is no permutation of {x.rank} axes")
    return b.transpose(x, order)


@lowers("Expand")
def lower_expand(b: GraphBuilder, x: Value, shape: Value) -> Value:
    """Broadcast together with a tensor of that shape"""
    return b.repeated(x, b.common_sizes(x.sizes, b.shape(shape)))


@lowers("Concat")
def lower_concat(b: GraphBuilder, *parts: Value, axis: int) -> Value:
    if not parts:
        raise Malformed("there is nothing to join")
    return b.concatenate(parts, b.axis(axis, parts[0].rank))


# -- parts -----------------------------------------------------------------------------------------------------------


@lowers("Gather")
def lower_gather(b: GraphBuilder, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """x[…, indices[i…], …]; an index counts from the end where it is negative"""
    axis = b.axis(axis, x.rank)
    size = x.sizes[axis]
    rest = [*x.sizes[:axis], *x.sizes[axis + 1 :]]
    if isinstance(indices, Known) and indices.elements.size == 1:
        (position,) = b.size_list(indices, "the index")
        start = position + size if position.is_constant and position.value < 0 else position
        is_inside = b.prove(ZERO.le(start)) is True and b.prove(start.lt(size)) is True
        if position.is_constant and (is_inside or b.taken is None):
            what = f"index {position} into an axis of size {size}"
            b.require(ZERO.le(start), what)
            b.require(start.lt(size), what)
            part = b.slice(x, axis, start, 1)
            return b.reshape(part, [*rest[:axis], *indices.sizes, *rest[axis:]])
    places = from_start(b, indices, size)
    window = [*range(axis), *range(axis + places.rank, x.rank - 1 + places.rank)]
    return b.emit(
        Gather,
        x,
        places,
        offset_dims=tuple(window),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=places.rank,
        slice_sizes=(*x.sizes[:axis], 1, *x.sizes[axis + 1 :]),
    )


def from_start(b: GraphBuilder, indices: Value, size: Size) -> Tensor:
    """Indices into an axis of this size, counted from its start: negative ones count from its end.

    One that lies outside stays as it is written, so that the error of the call shows that.
    """
    if isinstance(indices, Known) and indices.is_literal and (indices.elements >= 0).all():
        return b.tensor(indices)
    places = b.convert(indices, I64)
    return counted_from_start(b, places, b.repeated(b.tensor(known_scalar(size)), places.sizes))


def counted_from_start(b: GraphBuilder, places: Tensor, lengths: Tensor) -> Tensor:
    """`from_start` for an i64 index into an axis of its own length each."""
    moved = b.emit(Add, places, lengths)
    is_counted = b.emit(And, b.compare("lt", places, 0), b.compare("ge", moved, 0))
    return b.emit(Select, is_counted, moved, places)


__all__ = ["counted_from_start", "from_start", "reshaped_sizes"]
