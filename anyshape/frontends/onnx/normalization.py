"""ONNX's softmax and normalisation layers; f16 and bf16 are computed in f32."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    ArgMax,
    Compare,
    DhloOp,
    Divide,
    Iota,
    LayerNorm,
    LogSoftmax,
    Mean,
    Multiply,
    Pad,
    Power,
    RmsNorm,
    Rsqrt,
    Softmax,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import I64, DType
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ZERO, GraphBuilder
from anyshape.frontends.onnx.dtypes import dtype_of_code
from anyshape.frontends.onnx.reductions import back_to, kept_sizes, reduced
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

# -- softmax ---------------------------------------------------------------------------------------------------------


def along_axis(b: GraphBuilder, x: Value, kind: type[DhloOp], axis: int) -> Value:
    """A softmax along one axis; a scalar counts as having one."""
    if not x.rank:
        return b.reshape(b.emit(kind, b.reshape(x, (1,)), axis=0), ())
    return b.emit(kind, x, axis=b.axis(axis, x.rank))


def over_the_rest(b: GraphBuilder, x: Value, kind: type[DhloOp], axis: int) -> Value:
    """A softmax over all axes from `axis` on together, as before version 13."""
    cut = b.axis(axis, x.rank) if x.rank else 0
    flat = b.reshape(x, (*x.sizes[:cut], numel(x.sizes[cut:])))
    return b.reshape(b.emit(kind, flat, axis=cut), x.sizes)


def _register_softmax(op: str, kind: type[DhloOp]) -> None:
    @lowers(op, since=13)
    def lower(b: GraphBuilder, x: Value, *, axis: int = -1) -> Value:  # pyright: ignore[reportUnusedFunction]
        return along_axis(b, x, kind, axis)

    @lowers(op, since=1)
    def lower_flat(b: GraphBuilder, x: Value, *, axis: int = 1) -> Value:  # pyright: ignore[reportUnusedFunction]
        return over_the_rest(b, x, kind, axis)


_register_softmax("Softmax", Softmax)
_register_softmax("LogSoftmax", LogSoftmax)


@lowers("Hardmax", since=13)
def lower_hardmax(b: GraphBuilder, x: Value, *, axis: int = -1) -> Value:
    """1 at the first largest element along the axis, else 0"""
    axis = b.axis(axis, x.rank)
    return _hardmax(b, b.tensor(x), axis)


@lowers("Hardmax", since=1)
def lower_flat_hardmax(b: GraphBuilder, x: Value, *, axis: int = 1) -> Value:
    cut = b.axis(axis, x.rank)
    flat = b.reshape(x, (*x.sizes[:cut], numel(x.sizes[cut:])))
    return b.reshape(_hardmax(b, flat, cut), x.sizes)


def _hardmax(b: GraphBuilder, x: Tensor, axis: int) -> Tensor:
    b.require(x.sizes[axis].ge(1), "the axis of a hardmax")
    place = back_to(b, b.emit(ArgMax, x, axis=axis), (axis,), x.sizes)
    positions = b.emit(Iota, axis=axis, sizes=x.sizes, dtype=I64)
    return b.convert(b.emit(Compare, positions, place, direction="eq"), x.dtype)


# -- statistics ------------------------------------------------------------------------------------------------------


def moments(b: GraphBuilder, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The mean over `axes`, which are dropped, and the mean of the squared distance from it."""
    mean = b.emit(Mean, x, axes=tuple(axes))
    centred = b.emit(Subtract, x, back_to(b, mean, axes, x.sizes))
    return mean, b.emit(Mean, b.emit(Multiply, centred, centred), axes=tuple(axes))


def standardised(b: GraphBuilder, x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + epsilon) over `axes`."""
    mean, variance = moments(b, x, axes)
    factor = b.emit(Rsqrt, b.binary(Add, variance, epsilon))
    centred = b.emit(Subtract, x, back_to(b, mean, axes, x.sizes))
    return b.emit(Multiply, centred, back_to(b, factor, axes, x.sizes))


def per_channel(b: GraphBuilder, channels: Value, x: Tensor, what: str) -> Tensor:
    """[c] -> the sizes and the dtype of x[n, c, …]."""
    b.check_rank(x, 2)
    column = b.with_sizes(channels, (x.sizes[1],), what)
    return b.repeated(b.convert(column.reshape(x.sizes[1], *(1,) * (x.rank - 2)), x.dtype), x.sizes)


def _affine(b: GraphBuilder, x: Tensor, scale: Value, bias: Value) -> Tensor:
    scaled = b.emit(Multiply, x, per_channel(b, scale, x, "the scale"))
    return b.emit(Add, scaled, per_channel(b, bias, x, "the bias"))


def widened(b: GraphBuilder, x: Value) -> Tensor:
    """x in the dtype in which its statistics are computed."""
    return b.convert(x, accumulation_dtype(x.dtype))


# -- layers ----------------------------------------------------------------------------------------------------------


@lowers("BatchNormalization")
def lower_batch_normalization(
    b: GraphBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> list[Value]:
    """(x − mean) / √(variance + epsilon) · scale + bias, a channel each; in training with the batch's own mean and variance, and then also
    the running ones, momentum · running + (1 − momentum) · batch"""
    if not spatial:
        raise Unsupported("statistics of each element; only those of channels are lowered")
    wide = widened(b, x)
    running: list[Value] = [mean, variance]
    used: list[Value] = running
    if training_mode:
        used = list(moments(b, wide, [axis for axis in range(wide.rank) if axis != 1]))
        running = [_running(b, *pair, momentum) for pair in zip((mean, variance), used, strict=True)]
    elif any(b.is_asked_for(output) for output in range(1, 5)):
        raise Unsupported("statistics of a batch are asked for, but not in training mode")
    factor = b.emit(Rsqrt, b.binary(Add, b.convert(used[1], wide.dtype), epsilon))
    centred = b.emit(Subtract, wide, per_channel(b, used[0], wide, "the mean"))
    result = _affine(b, b.emit(Multiply, centred, per_channel(b, factor, wide, "the variance")), scale, bias)
    return [b.convert(result, x.dtype), *running]


def _running(b: GraphBuilder, before: Value, now: Value, momentum: float) -> Tensor:
    old = b.with_sizes(b.convert(before, now.dtype), now.sizes, "running statistics")
    mixed = b.binary(Add, b.binary(Multiply, old, momentum), b.binary(Multiply, now, 1 - momentum))
    return b.convert(mixed, before.dtype)


@lowers("InstanceNormalization")
def lower_instance_normalization(
    b: GraphBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5
) -> Value:
    """(x − mean) / √(variance + epsilon) · scale + bias over the axes behind the channels"""
    normal = standardised(b, widened(b, x), range(2, x.rank), epsilon)
    return b.convert(_affine(b, normal, scale, bias), x.dtype)


@lowers("GroupNormalization")
def lower_group_normalization(
    b: GraphBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """(x − mean) / √(variance + epsilon) over groups of channels; scale and bias one a channel, before version 21 one a group"""
    b.check_rank(x, 2)
    if num_groups < 1:
        raise Malformed(f"there are {num_groups} groups")
    batch, channels, *rest = x.sizes
    b.require((channels % num_groups).eq(0), f"channels in {num_groups} groups")
    wide = b.convert(x, wider(x.dtype, dtype_of_code(stash_type)))
    count = b.graph.facts.simplify(channels // num_groups)
    grouped = b.reshape(wide, (batch, num_groups, numel([count, *rest])))
    normal = standardised(b, grouped, (2,), epsilon)
    if b.version < 21:
        return b.convert(b.reshape(_affine(b, normal, scale, bias), x.sizes), x.dtype)
    return b.convert(_affine(b, b.reshape(normal, x.sizes), scale, bias), x.dtype)


@lowers("LayerNormalization")
def lower_layer_normalization(
    b: GraphBuilder,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> list[Value]:
    """(x − mean) / √(variance + epsilon) · scale + bias over the axes from `axis` on; beside it mean and 1 / √(variance + epsilon)"""
    axes = tuple(range(b.axis(axis, x.rank), x.rank))
    parameters = [
        b.broadcast(b.convert(each, x.dtype), x.sizes[axes[0] :]) for each in (scale, bias) if each is not None
    ]
    results: list[Value] = [b.emit(LayerNorm, x, *parameters, axes=axes, epsilon=epsilon)]
    if b.is_asked_for(1) or b.is_asked_for(2):
        wide = b.convert(x, wider(x.dtype, dtype_of_code(stash_type)))
        mean, variance = moments(b, wide, axes)
        factor = b.emit(Rsqrt, b.binary(Add, variance, epsilon))
        stash = dtype_of_code(stash_type)
        results += [b.reshape(b.convert(each, stash), kept_sizes(x.sizes, axes)) for each in (mean, factor)]
    return results


@lowers("RMSNormalization")
def lower_rms_normalization(
    b: GraphBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """x / √(mean x² + epsilon) · scale over the axes from `axis` on"""
    axes = tuple(range(b.axis(axis, x.rank), x.rank))
    weight = b.broadcast(b.convert(scale, x.dtype), x.sizes[axes[0] :])
    return b.emit(RmsNorm, x, weight, axes=axes, epsilon=epsilon)


@lowers("MeanVarianceNormalization")
def lower_mean_variance_normalization(b: GraphBuilder, x: Value, *, axes: Sequence[int] = (0, 2, 3)) -> Value:
    """(x − mean) / (√variance + 1e−9)"""
    listed = sorted(b.axes(axes, x.rank))
    wide = widened(b, x)
    mean, variance = moments(b, wide, listed)
    deviation = b.binary(Add, b.emit(Sqrt, variance), 1e-9)
    centred = b.emit(Subtract, wide, back_to(b, mean, listed, x.sizes))
    return b.convert(b.emit(Divide, centred, back_to(b, deviation, listed, x.sizes)), x.dtype)


@lowers("LpNormalization")
def lower_lp_normalization(b: GraphBuilder, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """x / (Σ|x|^p)^(1/p) along the axis, and 0 where that is 0"""
    axis = b.axis(axis, x.rank)
    wide = widened(b, x)
    if p == 1:
        norm = reduced(b, b.emit(Abs, wide), (axis,), "sum")
    elif p == 2:
        norm = b.emit(Sqrt, reduced(b, b.emit(Multiply, wide, wide), (axis,), "sum"))
    else:
        raise Malformed(f"p is {p}; expected 1 or 2")
    full = back_to(b, norm, (axis,), x.sizes)
    return b.convert(b.select(b.compare("eq", full, 0), 0.0, b.emit(Divide, wide, full)), x.dtype)


_MOST_SUMMED = 256
"""Channels that are added one by one."""


@lowers("LRN")
def lower_lrn(
    b: GraphBuilder, x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    """x / (bias + alpha/size · Σ x²)^beta, summed over channels c − ⌊(size − 1)/2⌋ to c + ⌈(size − 1)/2⌉"""
    b.check_rank(x, 2)
    if not 1 <= size <= _MOST_SUMMED:
        raise Malformed(f"size is {size}; expected 1 to {_MOST_SUMMED}")
    tensor = b.tensor(x)
    low, high = [ZERO] * x.rank, [ZERO] * x.rank
    low[1], high[1] = Size.const((size - 1) // 2), Size.const(size - 1 - (size - 1) // 2)
    squares = b.emit(Multiply, tensor, tensor)
    padded = b.emit(Pad, squares, b.constant(0.0, x.dtype), low=tuple(low), high=tuple(high))
    total = b.slice(padded, 1, 0, x.sizes[1])
    for shift in range(1, size):
        total = b.emit(Add, total, b.slice(padded, 1, shift, x.sizes[1]))
    base = b.binary(Add, b.binary(Multiply, total, alpha / size), bias)
    return b.emit(Divide, tensor, b.binary(Power, base, beta))


def wider(dtype: DType, other: DType) -> DType:
    """The float type with more bytes."""
    return dtype if dtype.bytes >= other.bytes else other


__all__ = ["along_axis", "moments", "over_the_rest", "per_channel", "standardised", "wider"]
