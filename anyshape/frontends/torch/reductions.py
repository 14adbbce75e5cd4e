"""ATen reductions: sums, extrema and moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    ArgMax,
    ArgMin,
    Compare,
    Divide,
    Exponential,
    IsInf,
    Log,
    Maximum,
    Mean,
    Multiply,
    Power,
    Reduce,
    Select,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import F16, F32, F64, I64
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.elementwise import as_bool
from anyshape.symbolic import Size, size_max

Kind: TypeAlias = Literal["sum", "prod", "max", "min", "and", "or"]


def axes_of(dims: Value, rank: int) -> tuple[int, ...]:
    """PyTorch's `dim` argument: one axis, a list, or None or an empty list for all."""
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return tuple(range(rank))
    listed: list[int] = [*dims] if isinstance(dims, Sequence) else [dims]
    return tuple(sorted(axis_of(axis, rank) for axis in listed)) if rank else ()


def reduced(builder: GraphBuilder, x: SSAValue, axes: Sequence[int], kind: Kind) -> SSAValue:
    """Reduced over `axes`, which are left out of the result."""
    return builder.emit(Reduce, x, axes=tuple(axes), kind=kind) if axes else x


def _kept(sizes: Sequence[Size], axes: Sequence[int]) -> tuple[Size, ...]:
    return tuple(Size.const(1) if axis in axes else size for axis, size in enumerate(sizes))


def back_to(builder: GraphBuilder, x: SSAValue, axes: Sequence[int], sizes: Sequence[Size]) -> SSAValue:
    """A reduced tensor repeated along the axes that it lost."""
    return builder.broadcast(builder.reshape(x, _kept(sizes, axes)), sizes)


def require_elements(builder: GraphBuilder, x: SSAValue, axes: Sequence[int], what: str) -> None:
    """A maximum over nothing is an error in PyTorch."""
    for axis in axes:
        builder.require(Size.const(1).le(sizes_of(x.type)[axis]), what)


# -- sums and extrema ------------------------------------------------------------------------------------------------


@lowers("aten.sum.default", "aten.sum.dim_IntList")
def lower_sum(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False, **_: Value) -> SSAValue:
    total = reduced(builder, builder.convert(x, builder.result_dtype), axes_of(dim, rank_of(x.type)), "sum")
    return builder.reshape(total, builder.result_sizes)


@lowers("aten.prod.default", "aten.prod.dim_int")
def lower_prod(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False, **_: Value) -> SSAValue:
    product = reduced(builder, builder.convert(x, builder.result_dtype), axes_of(dim, rank_of(x.type)), "prod")
    return builder.reshape(product, builder.result_sizes)


@lowers("aten.mean.default", "aten.mean.dim")
def lower_mean(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False, **_: Value) -> SSAValue:
    axes = axes_of(dim, rank_of(x.type))
    x = builder.convert(x, builder.result_dtype)
    return builder.reshape(builder.emit(Mean, x, axes=axes) if axes else x, builder.result_sizes)


def _lower_extremum(builder: GraphBuilder, x: SSAValue, dim: Value, kind: Kind) -> SSAValue:
    axes = axes_of(dim, rank_of(x.type))
    require_elements(builder, x, axes, kind)
    return builder.reshape(reduced(builder, x, axes, kind), builder.result_sizes)


@lowers("aten.amax.default", "aten.max.default")
def lower_amax(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    return _lower_extremum(builder, x, dim, "max")


@lowers("aten.amin.default", "aten.min.default")
def lower_amin(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    return _lower_extremum(builder, x, dim, "min")


def _lower_value_and_index(
    builder: GraphBuilder, x: SSAValue, dim: int, kind: Kind, index_kind: type[DhloOp]
) -> tuple[SSAValue, SSAValue]:
    sizes = builder.names.sizes(builder.node.meta["val"][0].shape)
    axis = axis_of(dim, rank_of(x.type))
    if not rank_of(x.type):
        return x, builder.constant(0, I64)
    require_elements(builder, x, (axis,), kind)
    value = builder.reshape(reduced(builder, x, (axis,), kind), sizes)
    return value, builder.reshape(builder.emit(index_kind, x, axis=axis), sizes)


@lowers("aten.max.dim")
def lower_max_dim(builder: GraphBuilder, x: SSAValue, dim: int, keepdim: bool = False) -> tuple[SSAValue, SSAValue]:
    return _lower_value_and_index(builder, x, dim, "max", ArgMax)


@lowers("aten.min.dim")
def lower_min_dim(builder: GraphBuilder, x: SSAValue, dim: int, keepdim: bool = False) -> tuple[SSAValue, SSAValue]:
    return _lower_value_and_index(builder, x, dim, "min", ArgMin)


def _lower_index(builder: GraphBuilder, x: SSAValue, dim: Value, kind: type[DhloOp]) -> SSAValue:
    """The first index of the extremum; without `dim`, in the flattened tensor."""
    if dim is None or not rank_of(x.type):
        x = builder.reshape(x, (numel(sizes_of(x.type)),))
        dim = 0
    axis = axis_of(dim, rank_of(x.type))
    require_elements(builder, x, (axis,), kind.name)
    return builder.reshape(builder.emit(kind, x, axis=axis), builder.result_sizes)


@lowers("aten.argmax.default")
def lower_argmax(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    return _lower_index(builder, x, dim, ArgMax)


@lowers("aten.argmin.default")
def lower_argmin(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    return _lower_index(builder, x, dim, ArgMin)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def lower_any(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    found = reduced(builder, as_bool(builder, x), axes_of(dim, rank_of(x.type)), "or")
    return builder.convert(builder.reshape(found, builder.result_sizes), builder.result_dtype)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims", "aten._is_all_true.default")
def lower_all(builder: GraphBuilder, x: SSAValue, dim: Value = None, keepdim: bool = False) -> SSAValue:
    found = reduced(builder, as_bool(builder, x), axes_of(dim, rank_of(x.type)), "and")
    return builder.convert(builder.reshape(found, builder.result_sizes), builder.result_dtype)


@lowers("aten.logsumexp.default")
def lower_logsumexp(builder: GraphBuilder, x: SSAValue, dim: Value, keepdim: bool = False) -> SSAValue:
    """m + ln Σ exp(x − m), m = max x, or 0 where that is infinite: as PyTorch's, −∞ over nothing and over −∞"""
    axes, sizes, dtype = axes_of(dim, rank_of(x.type)), sizes_of(x.type), builder.result_dtype
    x = builder.convert(x, dtype)
    largest = reduced(builder, x, axes, "max")
    zero = builder.constant(0, dtype, sizes_of(largest.type))
    shift = builder.emit(Select, builder.emit(IsInf, largest), zero, largest)
    shifted = builder.emit(Subtract, x, back_to(builder, shift, axes, sizes))
    total = reduced(builder, builder.emit(Exponential, shifted), axes, "sum")
    return builder.reshape(builder.emit(Add, shift, builder.emit(Log, total)), builder.result_sizes)


# -- moments ---------------------------------------------------------------------------------------------------------


def _variance(builder: GraphBuilder, x: SSAValue, axes: Sequence[int], correction: float) -> SSAValue:
    """Σ(x − mean)² / max(n − correction, 0), of f16 in f32, else in f64

    So the squares of what x can hold neither overflow nor vanish, as in PyTorch's kernel. The mean, which x.mean() shares, is of f32.
    """
    sizes, narrow = sizes_of(x.type), dtype_of(x.type)
    x = builder.convert(x, accumulation_dtype(narrow))
    dtype = F32 if narrow == F16 else F64
    mean = back_to(builder, builder.emit(Mean, x, axes=tuple(axes)), axes, sizes)
    distance = builder.convert(builder.emit(Subtract, x, mean), dtype)
    total = reduced(builder, builder.emit(Multiply, distance, distance), axes, "sum")
    divisor = builder.convert(_degrees(builder, numel([sizes[axis] for axis in axes]), correction), dtype)
    return builder.emit(Divide, total, builder.broadcast(divisor, sizes_of(total.type)))


def _degrees(builder: GraphBuilder, count: Size, correction: float) -> SSAValue:
    """max(count − correction, 0), of rank 0"""
    if int(correction) == correction:
        return builder.operand(size_max(count - int(correction), 0), I64)
    left = builder.emit(Subtract, builder.operand(count, F64), builder.constant(correction, F64))
    return builder.emit(Maximum, left, builder.constant(0.0, F64))


@lowers("aten.var.correction", "aten.var.dim")
def lower_var(
    builder: GraphBuilder,
    x: SSAValue,
    dim: Value = None,
    unbiased: bool = True,
    *,
    correction: Value = None,
    **_: Value,
) -> SSAValue:
    degrees = correction if correction is not None else 1 if unbiased else 0
    variance = _variance(builder, x, axes_of(dim, rank_of(x.type)), degrees)
    return builder.reshape(builder.convert(variance, builder.result_dtype), builder.result_sizes)


@lowers("aten.std.correction")
def lower_std(
    builder: GraphBuilder, x: SSAValue, dim: Value = None, *, correction: Value = None, **_: Value
) -> SSAValue:
    degrees = 1 if correction is None else correction
    deviation = builder.emit(Sqrt, _variance(builder, x, axes_of(dim, rank_of(x.type)), degrees))
    return builder.reshape(builder.convert(deviation, builder.result_dtype), builder.result_sizes)


def _beside_mean(
    builder: GraphBuilder, x: SSAValue, axes: Sequence[int], spread: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """A spread of x in its dtype, and the mean of x."""
    sizes = builder.names.sizes(builder.node.meta["val"][0].shape)
    spread = builder.convert(spread, dtype_of(x.type))
    return builder.reshape(spread, sizes), builder.reshape(builder.emit(Mean, x, axes=axes), sizes)


@lowers("aten.var_mean.correction")
def lower_var_mean(
    builder: GraphBuilder, x: SSAValue, dim: Value = None, *, correction: Value = None, keepdim: bool = False
) -> tuple[SSAValue, SSAValue]:
    axes = axes_of(dim, rank_of(x.type))
    return _beside_mean(builder, x, axes, _variance(builder, x, axes, 1 if correction is None else correction))


@lowers("aten.std_mean.correction")
def lower_std_mean(
    builder: GraphBuilder, x: SSAValue, dim: Value = None, *, correction: Value = None, keepdim: bool = False
) -> tuple[SSAValue, SSAValue]:
    axes = axes_of(dim, rank_of(x.type))
    variance = _variance(builder, x, axes, 1 if correction is None else correction)
    return _beside_mean(builder, x, axes, builder.emit(Sqrt, variance))


def norm(builder: GraphBuilder, x: SSAValue, order: float, axes: Sequence[int]) -> SSAValue:
    """(Σ|x|^p)^(1/p) of floats over `axes`; how many are not 0 where p = 0, the extreme |x| where it is ±∞.

    f16 and bf16 are summed in f32, where the powers do not overflow.
    """
    dtype = dtype_of(x.type)
    x = builder.convert(x, accumulation_dtype(dtype))
    wide, sizes = dtype_of(x.type), sizes_of(x.type)
    magnitude = builder.emit(Abs, x)
    if math.isinf(order):
        require_elements(builder, x, axes, "vector norm")
        return builder.convert(reduced(builder, magnitude, axes, "max" if order > 0 else "min"), dtype)
    if order == 0:
        differs = builder.emit(Compare, x, builder.constant(0.0, wide, sizes), direction="ne")
        return builder.convert(reduced(builder, builder.convert(differs, wide), axes, "sum"), dtype)
    if order == 1:
        return builder.convert(reduced(builder, magnitude, axes, "sum"), dtype)
    if order == 2:
        return builder.convert(builder.emit(Sqrt, reduced(builder, builder.emit(Multiply, x, x), axes, "sum")), dtype)
    powers = builder.emit(Power, magnitude, builder.constant(order, wide, sizes))
    total = reduced(builder, powers, axes, "sum")
    root = builder.emit(Power, total, builder.constant(1.0 / order, wide, sizes_of(total.type)))
    return builder.convert(root, dtype)


@lowers("aten.linalg_vector_norm.default")
def lower_vector_norm(
    builder: GraphBuilder, x: SSAValue, order: float = 2, dim: Value = None, keepdim: bool = False, **_: Value
) -> SSAValue:
    axes = axes_of(dim, rank_of(x.type))
    result = norm(builder, builder.convert(x, builder.result_dtype), order, axes)
    return builder.reshape(result, builder.result_sizes)
