"""ATen ops that replace part of a tensor: at bounds that are sizes, at positions that one element of an input says, at any indices.

Where the part is a box, the op is a `dynamic_update_slice`, which can be computed in the tensor's own memory. Where a box begins is a size
of the program even if an element says it: the caller reads that element before the program is called, and the bounds are checked as those
of sizes are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    Compare,
    Constant,
    Convert,
    DynamicUpdateSlice,
    Iota,
    Maximum,
    Multiply,
    Reduce,
    Reshape,
    Select,
    SizeOf,
    Subtract,
)
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dtypes import I64
from anyshape.dialects.messages import PLACE
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.indexing import from_start
from anyshape.frontends.torch.movement import transposed
from anyshape.frontends.torch.scattering import accumulated, replaced_rows, rows_of_mask, scattered_at
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max, size_min

ZERO = Size.const(0)
ONE = Size.const(1)


def updated(builder: GraphBuilder, x: SSAValue, part: SSAValue, axis: int, start: Size) -> SSAValue:
    """x with x[…, start : start + n, …] replaced by `part`, of n elements on that axis; the bounds become conditions."""
    end = start + sizes_of(part.type)[axis]
    builder.require(ZERO.le(start), "update")
    builder.require(end.le(sizes_of(x.type)[axis]), "update")
    starts = tuple(start if each == axis else ZERO for each in range(rank_of(x.type)))
    return builder.emit(DynamicUpdateSlice, x, part, starts=starts)


@lowers("aten.slice_scatter.default")
def lower_slice_scatter(
    builder: GraphBuilder,
    x: SSAValue,
    part: SSAValue,
    dim: int = 0,
    start: Value = None,
    end: Value = None,
    step: Value = 1,
) -> SSAValue:
    """x with x[…, start:end, …] replaced; how long the slice is, is in the export"""
    axis = axis_of(dim, rank_of(x.type))
    size = sizes_of(x.type)[axis]
    part = builder.convert(part, dtype_of(x.type))
    length = sizes_of(part.type)[axis] if rank_of(part.type) == rank_of(x.type) else size
    builder.require_sizes(
        part, [length if each == axis else own for each, own in enumerate(sizes_of(x.type))], "slice_scatter"
    )
    if length == size:
        return part
    first = ZERO if start is None else Size.of(start)
    if start is not None and builder.is_negative(start, 3):
        first = size + first
    first = size_max(0, size_min(first, size))
    if step != 1:
        return replaced_rows(builder, x, axis, _counted(builder, length, first, step), part)
    return updated(builder, x, part, axis, first)


def _counted(builder: GraphBuilder, count: Size, first: Size, step: Value = 1) -> SSAValue:
    """first, first + step, …"""
    index = builder.emit(Iota, axis=0, dtype=I64, sizes=(count,))
    for kind, number in ((Multiply, step), (Add, first)):
        index = builder.emit(kind, index, builder.broadcast(builder.operand(number, I64, ()), (count,)))
    return index


@lowers("aten.select_scatter.default")
def lower_select_scatter(builder: GraphBuilder, x: SSAValue, part: SSAValue, dim: int, index: Value) -> SSAValue:
    """x with x[…, index, …] replaced"""
    axis = axis_of(dim, rank_of(x.type))
    sizes = list(sizes_of(x.type))
    first = sizes[axis] + index if builder.is_negative(index, 3) else Size.of(index)
    sizes[axis] = ONE
    return updated(builder, x, builder.reshape(builder.convert(part, dtype_of(x.type)), sizes), axis, first)


@lowers("aten.index_copy.default")
def lower_index_copy(builder: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, part: SSAValue) -> SSAValue:
    """x with x[…, index[i], …] = part[…, i, …]"""
    if not rank_of(x.type):
        raise Unsupported("a copy into a tensor without axes")
    return _replaced(builder, x, axis_of(dim, rank_of(x.type)), builder.reshape(index, (_count(index),)), part)


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def lower_index_put(
    builder: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None], part: SSAValue, accumulate: bool = False
) -> SSAValue:
    """x with x[i, :, j] = part, or + part; index tensors broadcast together, masks choose elements, of equal indices the last wins"""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if not given:
        part = builder.checked_broadcast(builder.convert(part, dtype_of(x.type)), sizes_of(x.type), "index_put")
        return accumulated(builder, x, part) if accumulate else part
    if any(dtype_of(index.type).is_bool for _, index in given):
        return _put_where(builder, x, given, part, accumulate)
    axis, index = given[0]
    if len(given) == 1 and not accumulate and rank_of(index.type) == 1:
        start = _first_of_range(builder, index)
        if start is not None:
            sizes = [_count(index) if each == axis else size for each, size in enumerate(sizes_of(x.type))]
            part = builder.checked_broadcast(builder.convert(part, dtype_of(x.type)), sizes, "index_put")
            return updated(builder, x, part, axis, start)
    return _put_at(builder, x, given, part, "sum" if accumulate else "set")


def _put_at(
    builder: GraphBuilder, x: SSAValue, given: Sequence[tuple[int, SSAValue]], part: SSAValue, kind: str
) -> SSAValue:
    """x updated at integer indices; part has the sizes of what `x[indices]` reads, or is broadcast to them."""
    sizes = sizes_of(x.type)
    axes = [axis for axis, _ in given]
    common = builder.common_sizes(*(sizes_of(index.type) for _, index in given))
    kept = [axis for axis in range(len(sizes)) if axis not in axes]
    at = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    read = [*(sizes[axis] for axis in kept[:at]), *common, *(sizes[axis] for axis in kept[at:])]
    part = builder.checked_broadcast(builder.convert(part, dtype_of(x.type)), read, "index_put")
    front = [*range(at, at + len(common)), *range(at), *range(at + len(common), len(read))]
    wrapped = [builder.broadcast(from_start(builder, index, sizes[axis]), common) for axis, index in given]
    return scattered_at(builder, x, axes, wrapped, transposed(builder, part, front), kind)


def _put_where(
    builder: GraphBuilder, x: SSAValue, given: Sequence[tuple[int, SSAValue]], part: SSAValue, accumulate: bool
) -> SSAValue:
    """x with elements replaced where one mask, of leading or later axes of x, says so: by the same part, or by one row after another.

    Raises:
        GuardError: when the program runs: there are more rows than the mask has places.
        IndexOutOfRange: when the program runs: there are fewer.
    """
    if len(given) != 1 or not rank_of(given[0][1].type):
        raise Unsupported("a mask beside other indices: how many elements are meant depends on the data")
    axis, mask = given[0]
    sizes, depth = sizes_of(x.type), rank_of(mask.type)
    after = len(sizes) - axis - depth
    builder.require_sizes(mask, sizes[axis : axis + depth], "index_put")
    own = sizes_of(part.type)
    part = builder.convert(part, dtype_of(x.type))
    merged = (*sizes[:axis], numel(sizes[axis : axis + depth]), *sizes[axis + depth :])
    if len(own) <= after or own[len(own) - after - 1] == ONE:
        part = builder.checked_broadcast(part, (*sizes[:axis], ONE, *sizes[axis + depth :]), "index_put")
        part = builder.broadcast(part, merged)
    else:
        rows = own[len(own) - after - 1]
        part = builder.checked_broadcast(part, (*sizes[:axis], rows, *sizes[axis + depth :]), "index_put")
        _require_one_row_a_place(builder, mask, rows)
        part = rows_of_mask(builder, part, axis, builder.reshape(mask, (merged[axis],)))
    part = builder.reshape(part, sizes)
    chosen = builder.emit(BroadcastInDim, mask, dimensions=tuple(range(axis, axis + depth)), sizes=sizes)
    return builder.emit(Select, chosen, accumulated(builder, x, part) if accumulate else part, x)


def _require_one_row_a_place(builder: GraphBuilder, mask: SSAValue, rows: Size) -> None:
    """GuardError in a call where a mask has fewer places than there are rows; fewer rows are an index error where they are read."""
    sizes = sizes_of(mask.type)
    places = builder.emit(Reduce, builder.convert(mask, I64), axes=tuple(range(len(sizes))), kind="sum")
    given, none = builder.operand(rows, I64), builder.constant(0, I64)
    excess = builder.emit(Maximum, builder.emit(Subtract, given, places), none)
    is_single = builder.emit(Compare, given, builder.constant(1, I64), direction="eq")
    excess = builder.emit(Select, is_single, none, excess)
    builder.emit(
        Check,
        excess,
        given,
        places,
        error="guard",
        message="shape mismatch: the value cannot be broadcast to what the mask chooses",
        got=f"{PLACE} rows",
        expected=f"{PLACE} rows, one a place of the mask, or a single one",
    )


def _count(index: SSAValue) -> Size:
    return sizes_of(index.type)[0] if rank_of(index.type) else ONE


def _replaced(builder: GraphBuilder, x: SSAValue, axis: int, index: SSAValue, part: SSAValue) -> SSAValue:
    sizes = list(sizes_of(x.type))
    sizes[axis] = _count(index)
    part = builder.broadcast(builder.convert(part, dtype_of(x.type)), sizes)
    start = _first_of_range(builder, index)
    if start is None:
        return replaced_rows(builder, x, axis, from_start(builder, index, sizes_of(x.type)[axis]), part)
    return updated(builder, x, part, axis, start)


# -- where a range of indices begins --------------------------------------------------------------------------------


def _first_of_range(builder: GraphBuilder, index: SSAValue) -> Size | None:
    """p where index[i] = p + i, as a size; None where nothing says that it is so."""
    terms: list[SSAValue] = []
    if not _terms(index, terms):
        return None
    start, counted = ZERO, 0
    for term in terms:
        op = term.owner
        match op:
            case Iota():
                counted += op.result_sizes[0] != ONE  # the only element of one that has one is 0
            case Constant():
                start = start + int(op.attribute("value"))
            case SizeOf():
                start = start + op.size
            case _:
                position = builder.position_in(term)
                if position is None:
                    return None
                start = start + position
    return start if counted == (_count(index) != ONE) else None


def _terms(value: SSAValue, terms: list[SSAValue]) -> bool:
    """Collects vectors and numbers of whose sum `value` consists; False where it is something else than a sum of such."""
    op = value.owner
    match op:
        case Block():
            is_number = all(size == ONE for size in sizes_of(value.type))
            terms.append(value)
            return is_number
        case Add():
            return all(_terms(operand, terms) for operand in op.operands)
        case BroadcastInDim() | Reshape():
            source = op.operands[0]
            moves = rank_of(source.type) > 1 or rank_of(value.type) > 1
            return not (moves and any(size != ONE for size in sizes_of(source.type))) and _terms(source, terms)
        case Convert():
            source = op.operands[0]
            return dtype_of(value.type) == I64 and dtype_of(source.type).is_integer and _terms(source, terms)
        case Iota():
            terms.append(value)
            return dtype_of(value.type) == I64 and rank_of(value.type) == 1
        case Constant() | SizeOf():
            terms.append(value)
            return dtype_of(value.type).is_integer
        case _:
            return False
