"""ATen ops that run along an axis: cumulative sums, products, extrema and logarithms of sums of exponentials."""

from __future__ import annotations

from typing import Literal

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Compare, Iota, IsNan, Or, Scan, Select
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers

_Kind = Literal["sum", "prod", "max", "min", "logaddexp"]


def _scanned(builder: GraphBuilder, x: SSAValue, dim: int, kind: _Kind) -> SSAValue:
    """A tensor without axes has one element, which is the result."""
    return builder.emit(Scan, x, axis=axis_of(dim, rank_of(x.type)), kind=kind) if rank_of(x.type) else x


@lowers("aten.cumsum.default")
def lower_cumsum(builder: GraphBuilder, x: SSAValue, dim: int, *, dtype: Value = None) -> SSAValue:
    return _scanned(builder, builder.convert(x, builder.result_dtype), dim, "sum")


@lowers("aten.cumprod.default")
def lower_cumprod(builder: GraphBuilder, x: SSAValue, dim: int, *, dtype: Value = None) -> SSAValue:
    return _scanned(builder, builder.convert(x, builder.result_dtype), dim, "prod")


@lowers("aten.logcumsumexp.default")
def lower_logcumsumexp(builder: GraphBuilder, x: SSAValue, dim: int) -> SSAValue:
    return _scanned(builder, x, dim, "logaddexp")


def _lower_extremum(
    builder: GraphBuilder, x: SSAValue, dim: int, kind: Literal["max", "min"]
) -> tuple[SSAValue, SSAValue]:
    """The extremum so far, and its last position so far: that of the last element that equals what was the extremum there."""
    if not rank_of(x.type):
        return x, builder.constant(0, I64)
    axis, sizes = axis_of(dim, rank_of(x.type)), sizes_of(x.type)
    extremum = _scanned(builder, x, axis, kind)
    found = builder.emit(Compare, x, extremum, direction="eq")
    if dtype_of(x.type).is_float:
        found = builder.emit(Or, found, builder.emit(IsNan, x))
    position = builder.emit(Iota, axis=axis, sizes=sizes)
    candidate = builder.emit(Select, found, position, builder.constant(0, I64, sizes))
    return extremum, _scanned(builder, candidate, axis, "max")


@lowers("aten.cummax.default")
def lower_cummax(builder: GraphBuilder, x: SSAValue, dim: int) -> tuple[SSAValue, SSAValue]:
    return _lower_extremum(builder, x, dim, "max")


@lowers("aten.cummin.default")
def lower_cummin(builder: GraphBuilder, x: SSAValue, dim: int) -> tuple[SSAValue, SSAValue]:
    return _lower_extremum(builder, x, dim, "min")
