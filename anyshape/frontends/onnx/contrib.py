"""Float ops of the domain `com.microsoft` that optimisers fuse models into, as ONNX Runtime's operator documents define them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import Add, Gelu, Iota, LayerNorm, Logistic, Mean, Multiply, Reduce, RmsNorm, Rsqrt
from anyshape.dialects.dtypes import F32, I32, I64
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.normalization import moments
from anyshape.frontends.onnx.products import matmul
from anyshape.frontends.onnx.quantised import MICROSOFT
from anyshape.frontends.onnx.reductions import kept_sizes
from anyshape.frontends.onnx.refusals import Unsupported
from anyshape.frontends.onnx.registry import STANDARD, lowers
from anyshape.frontends.onnx.values import Known, Value
from anyshape.nn import Tensor, embedding

# -- activations -----------------------------------------------------------------------------------------------------


@lowers("Gelu", domain=MICROSOFT)
def lower_gelu(b: GraphBuilder, x: Value) -> Value:
    """x · Φ(x)"""
    return b.emit(Gelu, x, approximate="none")


@lowers("BiasGelu", domain=MICROSOFT)
def lower_bias_gelu(b: GraphBuilder, x: Value, bias: Value) -> Value:
    return b.emit(Gelu, b.binary(Add, x, bias), approximate="none")


@lowers("FastGelu", domain=MICROSOFT)
def lower_fast_gelu(b: GraphBuilder, x: Value, bias: Value | None = None) -> Value:
    """Gelu by the tanh formula, of x + bias"""
    return b.emit(Gelu, x if bias is None else b.binary(Add, x, bias), approximate="tanh")


@lowers("QuickGelu", domain=MICROSOFT)
def lower_quick_gelu(b: GraphBuilder, x: Value, *, alpha: float = 1.702) -> Value:
    """x · σ(alpha·x)"""
    return b.emit(Multiply, x, b.emit(Logistic, b.binary(Multiply, x, alpha)))


# -- normalisation -----------------------------------------------------------------------------------------------------


def _normalised(
    b: GraphBuilder, x: Tensor, scale: Value, bias: Value | None, epsilon: float, is_simplified: bool
) -> list[Value | None]:
    """The normalised tensor and, where the node asks for them, mean and 1 / deviation, over the last axis.

    A simplified norm has no mean, and its deviation is √(mean of x² + epsilon).
    """
    axes = (x.rank - 1,)
    parameters = [b.broadcast(b.convert(each, x.dtype), x.sizes[-1:]) for each in (scale, bias) if each is not None]
    result = b.emit(RmsNorm if is_simplified else LayerNorm, x, *parameters, axes=axes, epsilon=epsilon)
    if not (b.is_asked_for(1) or b.is_asked_for(2)):
        return [result, None, None]
    wide, kept = b.convert(x, F32), kept_sizes(x.sizes, axes)
    if is_simplified:
        mean, variance = None, b.emit(Mean, b.emit(Multiply, wide, wide), axes=axes)
    else:
        mean, variance = moments(b, wide, axes)
    factor = b.reshape(b.emit(Rsqrt, b.binary(Add, variance, epsilon)), kept)
    return [result, None if mean is None else b.reshape(mean, kept), factor]


def _summed(b: GraphBuilder, x: Value, skip: Value, bias: Value | None) -> Tensor:
    total = b.emit(Add, b.tensor(x), b.broadcast(skip, x.sizes))
    return total if bias is None else b.emit(Add, total, b.broadcast(bias, total.sizes))


@lowers("SkipLayerNormalization", domain=MICROSOFT)
def lower_skip_layer_normalization(
    b: GraphBuilder,
    x: Value,
    skip: Value,
    scale: Value,
    shift: Value | None = None,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> list[Value | None]:
    """The layer norm of x + skip + bias, its statistics, and that sum"""
    total = _summed(b, x, skip, bias)
    return [*_normalised(b, total, scale, shift, epsilon, False), total]


@lowers("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def lower_skip_simplified_layer_normalization(
    b: GraphBuilder, x: Value, skip: Value, scale: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> list[Value | None]:
    """The RMS norm of x + skip + bias, and that sum"""
    total = _summed(b, x, skip, bias)
    return [*_normalised(b, total, scale, None, epsilon, True), total]


@lowers("SimplifiedLayerNormalization", domain=STANDARD)
@lowers("SimplifiedLayerNormalization", domain=MICROSOFT)
def lower_simplified_layer_normalization(
    b: GraphBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Value | None]:
    """The RMS norm over the last axis and 1 / deviation; optimisers write it into ONNX's own domain"""
    if b.axis(axis, x.rank) != x.rank - 1:
        raise Unsupported("a simplified layer norm over several axes has no lowering")
    result, _, factor = _normalised(b, b.tensor(x), scale, None, epsilon, True)
    return [result, factor]


@lowers("EmbedLayerNormalization", domain=MICROSOFT)
def lower_embed_layer_normalization(
    b: GraphBuilder,
    tokens: Value,
    segments: Value | None,
    words: Value,
    places: Value,
    kinds: Value | None,
    scale: Value,
    shift: Value,
    mask: Value | None = None,
    positions: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> list[Value | None]:
    """The layer norm of the embeddings of tokens, positions and segments; the number of tokens that the mask keeps; and the sum"""
    b.check_rank(tokens, 2, 2)
    batch, length = tokens.sizes
    total = embedding(b.tensor(tokens), b.tensor(words))
    where = b.emit(Iota, axis=1, sizes=(ONE, length), dtype=I64) if positions is None else b.tensor(positions)
    total = b.emit(Add, total, b.broadcast(embedding(where, b.tensor(places)), total.sizes))
    if segments is not None and kinds is not None:
        total = b.emit(Add, total, embedding(b.with_sizes(segments, (batch, length), "the segments"), b.tensor(kinds)))
    parameters = [b.broadcast(each, total.sizes[-1:]) for each in (scale, shift)]
    result = b.emit(LayerNorm, total, *parameters, axes=(2,), epsilon=epsilon)
    if mask is None:
        counts = b.constant(0, I32, (batch,))
    else:
        kept = b.compare("ne", b.with_sizes(mask, (batch, length), "the mask"), 0)
        counts = b.emit(Reduce, b.convert(kept, I32), axes=(1,), kind="sum")
    return [result, counts, total]


# -- products ----------------------------------------------------------------------------------------------------------


@lowers("FusedMatMul", domain=MICROSOFT)
def lower_fused_matmul(
    b: GraphBuilder,
    lhs: Value,
    rhs: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """alpha · A · B, where the first axis of each may stand behind those of the batch, and then the last two be exchanged"""
    left, right = (
        _first_axis_inwards(b, each) if turn else each for each, turn in ((lhs, transBatchA), (rhs, transBatchB))
    )
    left, right = (_turned(b, each, bool(turn)) for each, turn in ((left, transA), (right, transB)))
    result = matmul(b, left, right)
    return result if alpha == 1 else b.binary(Multiply, result, alpha)


def _first_axis_inwards(b: GraphBuilder, x: Value) -> Value:
    return b.transpose(x, (*range(1, x.rank - 1), 0, x.rank - 1))


def _turned(b: GraphBuilder, x: Value, turn: bool) -> Value:
    if not turn or x.rank < 2:
        return x
    return b.transpose(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


@lowers("FusedGemm", domain=MICROSOFT)
def lower_fused_gemm(
    b: GraphBuilder,
    lhs: Value,
    rhs: Value,
    added: Value | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Value:
    """Gemm and an activation"""
    result = b.lower_op("Gemm", lhs, rhs, added, **attributes)
    named = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activated(b, result, activation, {name: each for name, each in named.items() if each is not None})


@lowers("FusedConv", domain=MICROSOFT)
def lower_fused_conv(
    b: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    added: Value | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> Value:
    """Conv, a sum and an activation"""
    result = b.lower_op("Conv", x, weight, bias, **attributes)
    if added is not None:
        result = b.binary(Add, result, added)
    if activation == "Clip":
        low, high = (Known(np.array(each, result.dtype.numpy)) for each in activation_params)
        return b.lower_op("Clip", result, low, high)
    return _activated(b, result, activation, dict(zip(("alpha", "beta"), activation_params, strict=False)))


_ACTIVATIONS = (
    "Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "Selu", "Softplus", "Softsign", "ThresholdedRelu",
)  # fmt: skip


def _activated(b: GraphBuilder, x: Value, activation: str, parameters: dict[str, float]) -> Value:
    if not activation:
        return x
    if activation not in _ACTIVATIONS:
        raise Unsupported(
            f"a product behind the activation {activation!r}; those with a lowering are {', '.join(_ACTIVATIONS)}"
        )
    return b.lower_op(activation, x, **parameters)


__all__: list[str] = []
