"""ATen softmax and normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import LayerNorm, LogSoftmax, RmsNorm, Softmax
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.channel_norms import moments, reciprocal_deviation
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
) -> list[SSAValue]:
    """The result, and the means and reciprocal deviations of its rows"""
    rank, value = rank_of(x.type), builder.node.meta["val"]
    wide = builder.convert(x, accumulation_dtype(dtype_of(x.type)))
    mean, variance = moments(builder, wide, range(rank - len(normalized_shape), rank))
    statistics = (mean, reciprocal_deviation(builder, variance, eps))
    return [
        lower_layer_norm(builder, x, normalized_shape, weight, bias, eps),
        *(
            builder.reshape(builder.convert(each, dtype_of_torch(like.dtype)), builder.names.sizes(like.shape))
            for each, like in zip(statistics, value[1:], strict=True)
        ),
    ]


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
