"""ATen softmax and normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, LayerNorm, LogSoftmax, Multiply, RmsNorm, Rsqrt, Softmax, Subtract
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.dtypes import dtype_of_torch
from anyshape.frontends.torch.unsupported import Unsupported


def _lower_softmax(builder: GraphBuilder, x: SSAValue, dim: int, kind: type[DhloOp]) -> SSAValue:
    dtype = builder.result_dtype
    x = builder.convert(x, dtype)
    sizes = sizes_of(x.type)
    if not sizes:
        return builder.reshape(builder.emit(kind, builder.reshape(x, (1,)), axis=0), ())
    return builder.emit(kind, x, axis=axis_of(dim, len(sizes)))


@lowers("aten.softmax.int", "aten._softmax.default", "aten._safe_softmax.default")
def lower_softmax(builder: GraphBuilder, x: SSAValue, dim: int, *_: Value, **__: Value) -> SSAValue:
    if builder.node.target is torch.ops.aten._safe_softmax.default:
        raise Unsupported("a softmax that gives zeros for rows of -inf has no op")
    return _lower_softmax(builder, x, dim, Softmax)


@lowers("aten.log_softmax.int", "aten._log_softmax.default")
def lower_log_softmax(builder: GraphBuilder, x: SSAValue, dim: int, *_: Value, **__: Value) -> SSAValue:
    return _lower_softmax(builder, x, dim, LogSoftmax)


@lowers("aten.layer_norm.default")
def lower_layer_norm(
    builder: GraphBuilder,
    x: SSAValue,
    normalized_shape: Sequence[Value],
    weight: Value = None,
    bias: Value = None,
    eps: float = 1e-5,
    *_: Value,
) -> SSAValue:
    rank = rank_of(x.type)
    axes = tuple(range(rank - len(normalized_shape), rank))
    sizes = [sizes_of(x.type)[axis] for axis in axes]
    parameters: list[SSAValue] = []
    if weight is not None:
        parameters.append(builder.convert(weight, dtype_of(x.type)))
    elif bias is not None:
        parameters.append(builder.constant(1, dtype_of(x.type), sizes))
    if bias is not None:
        parameters.append(builder.convert(bias, dtype_of(x.type)))
    return builder.emit(LayerNorm, x, *parameters, axes=axes, epsilon=float(eps))


@lowers("aten.native_layer_norm.default")
def lower_native_layer_norm(
    builder: GraphBuilder, x: SSAValue, normalized_shape: Sequence[Value], weight: Value, bias: Value, eps: float
) -> tuple[SSAValue, None, None]:
    """The mean and the reciprocal deviation are for training; a graph that reads them has no lowering for the reader."""
    return lower_layer_norm(builder, x, normalized_shape, weight, bias, eps), None, None


@lowers("aten.rms_norm.default")
def lower_rms_norm(
    builder: GraphBuilder,
    x: SSAValue,
    normalized_shape: Sequence[Value],
    weight: Value = None,
    eps: float | None = None,
) -> SSAValue:
    """x / √(mean x² + eps) · weight; without eps, that of the dtype it is computed in: f32 for f16 and bf16"""
    rank = rank_of(x.type)
    dtype = builder.node.meta["val"].dtype
    narrow = dtype in (torch.float16, torch.bfloat16)
    epsilon = torch.finfo(torch.float32 if narrow else dtype).eps if eps is None else eps
    parameters = [] if weight is None else [builder.convert(weight, dtype_of_torch(dtype))]
    axes = tuple(range(rank - len(normalized_shape), rank))
    return builder.emit(RmsNorm, x, *parameters, axes=axes, epsilon=float(epsilon))


# -- statistics over channels ----------------------------------------------------------------------------------------


def _per_channel(builder: GraphBuilder, x: SSAValue, channels: SSAValue) -> SSAValue:
    """[c] -> the sizes of x[n, c, …]"""
    sizes = sizes_of(x.type)
    column = builder.reshape(builder.convert(channels, dtype_of(x.type)), (sizes[1], *(1,) * (len(sizes) - 2)))
    return builder.broadcast(column, sizes)


def _scaled(builder: GraphBuilder, x: SSAValue, weight: Value, bias: Value) -> SSAValue:
    """x·weight + bias, one of each a channel"""
    if weight is not None:
        x = builder.emit(Multiply, x, _per_channel(builder, x, weight))
    return x if bias is None else builder.emit(Add, x, _per_channel(builder, x, bias))


@lowers("aten._native_batch_norm_legit_no_training.default")
def lower_batch_norm(
    builder: GraphBuilder,
    x: SSAValue,
    weight: Value,
    bias: Value,
    mean: SSAValue,
    variance: SSAValue,
    _momentum: float,
    eps: float,
) -> tuple[SSAValue, None, None]:
    """(x − mean) / √(variance + eps) · weight + bias with the statistics of training"""
    sizes, dtype = sizes_of(variance.type), dtype_of(variance.type)
    spread = builder.emit(Rsqrt, builder.emit(Add, variance, builder.constant(eps, dtype, sizes)))
    centred = builder.emit(Subtract, x, _per_channel(builder, x, mean))
    normal = builder.emit(Multiply, centred, _per_channel(builder, x, spread))
    return _scaled(builder, normal, weight, bias), None, None


@lowers("aten.native_group_norm.default")
def lower_group_norm(
    builder: GraphBuilder,
    x: SSAValue,
    weight: Value,
    bias: Value,
    _n: Value,
    _c: Value,
    _hxw: Value,
    groups: int,
    eps: float,
) -> tuple[SSAValue, None, None]:
    """[n, c, …] normalised within each of `groups` parts of the channels: [n, g, c/g · …]"""
    sizes = sizes_of(x.type)
    inner = (sizes[1] // groups) * numel(sizes[2:])
    rows = builder.reshape(x, (sizes[0], groups, inner))
    normal = builder.reshape(builder.emit(LayerNorm, rows, axes=(2,), epsilon=float(eps)), sizes)
    return _scaled(builder, normal, weight, bias), None, None
