"""ATen's reductions of consecutive segments of an axis."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import BroadcastInDim, Compare, Divide, Iota, Maximum, Or, Reduce, Scan, Select, Subtract
from anyshape.dialects.dhlo.sort import SearchSorted
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.checks import require_none
from anyshape.frontends.torch.movement import sliced
from anyshape.frontends.torch.scattering import scattered
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

KINDS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("max", -math.inf),
    "min": ("min", math.inf),
}
"""The kind of scatter of each reduction, and what an empty segment has."""


@lowers("aten.segment_reduce.default")
def lower_segment_reduce(
    builder: GraphBuilder, x: SSAValue, reduce: str, *, lengths: Value = None, indices: Value = None, offsets: Value = None,
    axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> SSAValue:  # fmt: skip
    """Neighbours along an axis reduced, as many as `lengths` says for each result, or between `offsets`; `initial` counts with them"""
    if indices is not None:
        raise Unsupported("segments by indices")
    axis = axis_of(axis, rank_of(x.type))
    bounds = _beside(builder, lengths if offsets is None else offsets, x, axis)
    dtype, extent = dtype_of(x.type), sizes_of(x.type)[axis]
    places = builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes_of(x.type)[: axis + 1])
    if offsets is None:
        lengths, count = bounds, sizes_of(bounds.type)[axis]
        if not unsafe:
            _check(builder, lengths, axis, extent)
        ends = builder.emit(Scan, lengths, axis=axis, kind="sum")
        segment = builder.emit(SearchSorted, ends, places, right=True)
    else:
        count = sizes_of(bounds.type)[axis] - 1
        lengths = builder.emit(Subtract, *(sliced(builder, bounds, axis, first, count) for first in (1, 0)))
        segment = _between(builder, bounds, places, count)
    kind, identity = KINDS[reduce]
    sizes = list(sizes_of(x.type))
    sizes[axis] = count + 1  # what lies in no segment goes into one more
    start = builder.constant(identity if initial is None else initial, dtype, sizes)
    result = sliced(builder, scattered(builder, start, [segment], x, kind, batch=axis), axis, 0, count)
    return _mean(builder, result, lengths, initial) if reduce == "mean" else result


def _beside(builder: GraphBuilder, bounds: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """Lengths or offsets as i64, with the leading sizes of x, which they have."""
    outer = sizes_of(x.type)[:axis]
    for size, own in zip(sizes_of(bounds.type)[:axis], outer, strict=True):
        builder.require(size.eq(own), "segments")
    return builder.reshape(builder.convert(bounds, I64), (*outer, sizes_of(bounds.type)[axis]))


def _between(builder: GraphBuilder, offsets: SSAValue, places: SSAValue, count: Size) -> SSAValue:
    """The segment of each place: the last offset that is not behind it, and `count` for places in front of the first."""
    sizes = sizes_of(places.type)
    found = builder.emit(SearchSorted, offsets, places, right=True)
    found = builder.emit(Subtract, found, builder.constant(1, I64, sizes))
    outside = builder.emit(Compare, found, builder.constant(0, I64, sizes), direction="lt")
    return builder.emit(Select, outside, builder.broadcast(builder.operand(count, I64), sizes), found)


def _check(builder: GraphBuilder, lengths: SSAValue, axis: int, extent: Size) -> None:
    """No length is negative, and together they are the axis."""
    sizes = sizes_of(lengths.type)
    negative = builder.emit(Compare, lengths, builder.constant(0, I64, sizes), direction="lt")
    negative = builder.emit(Reduce, negative, axes=(axis,), kind="or")
    total = builder.emit(Reduce, lengths, axes=(axis,), kind="sum")
    whole = builder.broadcast(builder.operand(extent, I64), sizes[:axis])
    other = builder.emit(Compare, total, whole, direction="ne")
    require_none(builder, builder.emit(Or, negative, other), "wrong_lengths")


def _mean(builder: GraphBuilder, total: SSAValue, lengths: SSAValue, initial: float | None) -> SSAValue:
    """The sum over the length; of nothing NaN, or `initial`."""
    dtype, sizes = dtype_of(total.type), sizes_of(total.type)
    counts = builder.emit(BroadcastInDim, lengths, dimensions=tuple(range(rank_of(lengths.type))), sizes=sizes)
    one = builder.constant(1, I64, sizes)
    mean = builder.emit(Divide, total, builder.convert(builder.emit(Maximum, counts, one), dtype))
    empty = builder.emit(Compare, counts, builder.constant(0, I64, sizes), direction="eq")
    return builder.emit(Select, empty, builder.constant(math.nan if initial is None else initial, dtype, sizes), mean)
