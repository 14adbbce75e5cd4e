"""ATen batch and group normalisation, with the statistics that training wants; f16 and bf16 are computed in f32."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Divide, Multiply, Reduce, Rsqrt, Subtract
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.dtypes import dtype_of_torch
from anyshape.frontends.torch.reductions import back_to
from anyshape.symbolic import Size


def mean_of(builder: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Σ x / count over `axes`, which are left out, in x's dtype."""
    sizes = sizes_of(x.type)
    total = builder.emit(Reduce, x, axes=tuple(axes), kind="sum")
    return builder.emit(Divide, total, number_at(builder, numel([sizes[axis] for axis in axes]), total))


def number_at(builder: GraphBuilder, value: float | Size, like: SSAValue) -> SSAValue:
    """A number or a size at every point of a tensor as `like`."""
    sizes, dtype = sizes_of(like.type), dtype_of(like.type)
    known = value.constant_or(value) if isinstance(value, Size) else value
    return builder.broadcast(builder.operand(known, dtype, sizes), sizes)


def moments(builder: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> tuple[SSAValue, SSAValue]:
    """The mean over `axes`, and the mean of the squared distance from it."""
    mean = mean_of(builder, x, axes)
    centred = builder.emit(Subtract, x, back_to(builder, mean, axes, sizes_of(x.type)))
    return mean, mean_of(builder, builder.emit(Multiply, centred, centred), axes)


def reciprocal_deviation(builder: GraphBuilder, variance: SSAValue, epsilon: float) -> SSAValue:
    """1 / √(variance + epsilon)"""
    return builder.emit(Rsqrt, builder.emit(Add, variance, number_at(builder, float(epsilon), variance)))


def _per_channel(builder: GraphBuilder, channels: SSAValue, x: SSAValue) -> SSAValue:
    """[c] -> the sizes and the dtype of x[n, c, …]"""
    sizes = sizes_of(x.type)
    column = builder.convert(builder.reshape(channels, (sizes[1], *(1,) * (len(sizes) - 2))), dtype_of(x.type))
    return builder.broadcast(column, sizes)


def _affine(builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value) -> SSAValue:
    """x·weight + bias, one of each a channel"""
    if weight is not None:
        x = builder.emit(Multiply, x, _per_channel(builder, weight, x))
    return x if bias is None else builder.emit(Add, x, _per_channel(builder, bias, x))


def _result_dtypes(builder: GraphBuilder) -> list[DType]:
    return [dtype_of_torch(value.dtype) for value in builder.node.meta["val"]]


def _batch_axes(x: SSAValue) -> list[int]:
    """All but that of the channels."""
    return [axis for axis in range(len(sizes_of(x.type))) if axis != 1]


def _normalised(
    builder: GraphBuilder, x: SSAValue, mean: SSAValue, deviation: SSAValue, weight: Value, bias: Value
) -> SSAValue:
    """(x − mean) · deviation · weight + bias, with a mean and a reciprocal deviation for each channel"""
    centred = builder.emit(Subtract, x, _per_channel(builder, mean, x))
    scaled = builder.emit(Multiply, centred, _per_channel(builder, deviation, x))
    return builder.convert(_affine(builder, scaled, weight, bias), _result_dtypes(builder)[0])


def _of_batch(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, eps: float
) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """The result, and mean, reciprocal deviation and variance of this batch, which has elements."""
    builder.require(Size.const(1).le(numel(sizes_of(x.type))), "batch_norm")
    wide = builder.convert(x, accumulation_dtype(dtype_of(x.type)))
    mean, variance = moments(builder, wide, _batch_axes(x))
    deviation = reciprocal_deviation(builder, variance, eps)
    return _normalised(builder, wide, mean, deviation, weight, bias), mean, deviation, variance


def _by_running(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, mean: SSAValue, variance: SSAValue, eps: float
) -> list[SSAValue]:
    """The result, and two empty tensors in the place of the batch's statistics."""
    wide = builder.convert(x, accumulation_dtype(dtype_of(x.type)))
    variance = builder.convert(variance, dtype_of(wide.type))
    result = _normalised(builder, wide, mean, reciprocal_deviation(builder, variance, eps), weight, bias)
    return [result, *(builder.constant(0, dtype, (0,)) for dtype in _result_dtypes(builder)[1:3])]


@lowers("aten._native_batch_norm_legit_no_training.default")
def lower_batch_norm(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, mean: SSAValue, variance: SSAValue, _momentum: float, eps: float
) -> list[SSAValue]:  # fmt: skip
    """(x − mean) / √(variance + eps) · weight + bias with the statistics of training"""
    return _by_running(builder, x, weight, bias, mean, variance, eps)


@lowers("aten._native_batch_norm_legit.no_stats")
def lower_batch_norm_without_stats(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, _training: bool, _momentum: float, eps: float
) -> list[SSAValue]:
    result, mean, deviation, _ = _of_batch(builder, x, weight, bias, eps)
    dtypes = _result_dtypes(builder)
    return [result, builder.convert(mean, dtypes[1]), builder.convert(deviation, dtypes[2])]


def _updated(builder: GraphBuilder, running: SSAValue, new: SSAValue, momentum: float) -> SSAValue:
    """(1 − momentum)·running + momentum·new"""
    channels = sizes_of(new.type)
    for size, expected in zip(sizes_of(running.type), channels, strict=True):
        builder.require(size.eq(expected), "running statistics are those of the channels")
    old = builder.reshape(builder.convert(running, dtype_of(new.type)), channels)
    kept = builder.emit(Multiply, old, number_at(builder, 1 - momentum, old))
    total = builder.emit(Add, kept, builder.emit(Multiply, new, number_at(builder, float(momentum), new)))
    return builder.convert(total, dtype_of(running.type))


@lowers("aten._native_batch_norm_legit_functional.default")
def lower_batch_norm_of_training(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, running_mean: SSAValue, running_variance: SSAValue,
    training: bool, momentum: float, eps: float,
) -> list[SSAValue]:  # fmt: skip
    """Normalised by the batch's own moments, which the running ones take up: their variance is over n − 1."""
    if not training:
        return [
            *_by_running(builder, x, weight, bias, running_mean, running_variance, eps),
            running_mean,
            running_variance,
        ]
    result, mean, deviation, variance = _of_batch(builder, x, weight, bias, eps)
    count = numel([sizes_of(x.type)[axis] for axis in _batch_axes(x)])
    total = builder.emit(Multiply, variance, number_at(builder, count, variance))
    unbiased = builder.emit(Divide, total, number_at(builder, count - 1, variance))
    dtypes = _result_dtypes(builder)
    return [
        result, builder.convert(mean, dtypes[1]), builder.convert(deviation, dtypes[2]),
        _updated(builder, running_mean, mean, momentum), _updated(builder, running_variance, unbiased, momentum),
    ]  # fmt: skip


@lowers("aten._batch_norm_with_update_functional.default")
def lower_batch_norm_with_update(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, running_mean: SSAValue, running_variance: SSAValue,
    momentum: float, eps: float,
) -> list[SSAValue]:  # fmt: skip
    """As in training; the fourth result is memory that a vendor's library reserves."""
    result, mean, deviation, new_mean, new_variance = lower_batch_norm_of_training(
        builder, x, weight, bias, running_mean, running_variance, True, momentum, eps
    )
    reserved = builder.constant(0, _result_dtypes(builder)[3], (0,))
    return [result, mean, deviation, reserved, new_mean, new_variance]


@lowers("aten.native_group_norm.default")
def lower_group_norm(
    builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value, n: Value, _c: Value, _hxw: Value, groups: int, eps: float
) -> list[SSAValue]:  # fmt: skip
    """[n, c, …] normalised within each of `groups` parts of the channels: [n, g, c/g · …]"""
    sizes, dtypes = sizes_of(x.type), _result_dtypes(builder)
    wide = builder.convert(x, accumulation_dtype(dtype_of(x.type)))
    rows = builder.reshape(wide, (sizes[0], groups, (sizes[1] // groups) * numel(sizes[2:])))
    mean, variance = moments(builder, rows, (2,))
    deviation = reciprocal_deviation(builder, variance, eps)
    row_sizes = sizes_of(rows.type)
    centred = builder.emit(Subtract, rows, back_to(builder, mean, (2,), row_sizes))
    normal = builder.emit(Multiply, centred, back_to(builder, deviation, (2,), row_sizes))
    result = builder.convert(_affine(builder, builder.reshape(normal, sizes), weight, bias), dtypes[0])
    return [result, builder.convert(mean, dtypes[1]), builder.convert(deviation, dtypes[2])]
