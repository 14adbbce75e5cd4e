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
    Reduce,
    Reshape,
    Select,
    SizeOf,
)
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.indexing import from_start, gathered
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

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
    if step != 1:
        raise Unsupported("a slice that is replaced with a step")
    axis = axis_of(dim, rank_of(x.type))
    size = sizes_of(x.type)[axis]
    part = builder.convert(part, dtype_of(x.type))
    if sizes_of(part.type)[axis] == size:
        return part
    first = ZERO if start is None else Size.of(start)
    if start is not None and builder.is_negative(start, 3):
        first = size + first
    return updated(builder, x, part, axis, first)


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
    """x with x[:, index, :] = part, for one vector of indices; which of two equal indices wins is not defined"""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if accumulate or len(given) != 1 or dtype_of(given[0][1].type).is_bool or rank_of(given[0][1].type) != 1:
        raise Unsupported("elements are replaced at indices other than one vector of them on one axis")
    axis, index = given[0]
    return _replaced(builder, x, axis, index, part)


def _count(index: SSAValue) -> Size:
    return sizes_of(index.type)[0] if rank_of(index.type) else ONE


def _replaced(builder: GraphBuilder, x: SSAValue, axis: int, index: SSAValue, part: SSAValue) -> SSAValue:
    sizes = list(sizes_of(x.type))
    sizes[axis] = _count(index)
    part = builder.broadcast(builder.convert(part, dtype_of(x.type)), sizes)
    start = _first_of_range(builder, index)
    return _scattered(builder, x, axis, index, part) if start is None else updated(builder, x, part, axis, start)


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


# -- any indices -----------------------------------------------------------------------------------------------------


def _scattered(builder: GraphBuilder, x: SSAValue, axis: int, index: SSAValue, part: SSAValue) -> SSAValue:
    """result[…, j, …] = part[…, i, …] for the last i with index[i] = j; x's element where there is none.

    i of every j is the maximum over a table [n, number of indices], which is never stored.

    Raises:
        IndexOutOfRange: when the program runs: an index is not in [−n, n).
    """
    size, count = sizes_of(x.type)[axis], _count(index)
    if count == ZERO:
        return x
    at = from_start(builder, index, size)
    # Read at the indices, the positions are the indices, and those out of range are found.
    at = gathered(builder, builder.emit(Iota, axis=0, dtype=I64, sizes=(size,)), (0,), [at], 0)
    table = (size, count)
    row = builder.emit(Iota, axis=0, dtype=I64, sizes=table)
    column = builder.emit(Iota, axis=1, dtype=I64, sizes=table)
    hit = builder.emit(Compare, builder.broadcast(at, table), row, direction="eq")
    numbers = builder.emit(Select, hit, column, builder.constant(-1, I64, table))
    last = builder.emit(Reduce, numbers, kind="max", axes=(1,))
    found = builder.emit(Compare, last, builder.constant(0, I64, (size,)), direction="ge")
    safe = builder.emit(Select, found, last, builder.constant(0, I64, (size,)))
    taken = gathered(builder, part, (axis,), [safe], axis)
    shape = tuple(size if each == axis else ONE for each in range(rank_of(x.type)))
    chosen = builder.broadcast(builder.reshape(found, shape), sizes_of(x.type))
    return builder.emit(Select, chosen, taken, x)
