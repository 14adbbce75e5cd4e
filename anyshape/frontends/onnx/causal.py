"""Causal convolutions with the state of what came before, of models with linear recurrences."""

from __future__ import annotations

from anyshape.dialects.dhlo import Multiply, Reduce
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.windows import Windows
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.convolution import convolved, with_bias
from anyshape.frontends.onnx.elementwise import lower_swish
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.frontends.onnx.windows import Placement
from anyshape.nn import Tensor


@lowers("CausalConvWithState")
def lower_causal_conv_with_state(
    b: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    past: Value | None = None,
    *,
    activation: str = "none",
) -> list[Tensor]:
    """result[n, c, t] = Σ_j weight[c, 0, j]·whole[n, c, t + j], plus bias[c], whole = past (or zeros) ++ x; and the last k − 1 of whole"""
    b.check_rank(x, 3, 3)
    b.check_rank(weight, 3, 3)
    if activation not in ("none", "silu", "swish"):
        raise Malformed(f"the activation is {activation!r}; expected none, silu or swish")
    batch, channels, length = x.sizes
    taps = weight.sizes[2]
    b.require(taps.ge(1), "the kernel of a causal convolution")
    filters = b.with_sizes(weight, (channels, 1, taps), "the kernel of a causal convolution")
    state = (batch, channels, taps - 1)
    before = b.constant(0, x.dtype, state) if past is None else b.with_sizes(past, state, "the past of a convolution")
    whole = b.concatenate([before, x], 2)
    result = with_bias(b, _depthwise(b, whole, filters), bias)
    kept = b.slice(whole, 2, length, taps - 1)
    return [result if activation == "none" else b.tensor(lower_swish(b, result)), kept]


def _depthwise(b: GraphBuilder, whole: Tensor, filters: Tensor) -> Tensor:
    """Each channel's own convolution: as windows times filters where the number of channels, of groups then, is not known."""
    batch, channels, extent = whole.sizes
    taps = filters.sizes[2]
    length = extent - (taps - 1)
    if channels.is_constant and channels != ZERO:
        return convolved(b, whole, filters, Placement((taps,), (1,), (1,), (ZERO,), (ZERO,), (length,)), channels.value)
    wide = accumulation_dtype(whole.dtype)
    rows = b.reshape(b.convert(whole, wide), (batch * channels, extent))
    frames = b.emit(
        Windows, rows, b.constant(0, wide), window=(taps,), strides=(1,), dilation=(1,), low=(0,), sizes=(length,)
    )
    frames = b.reshape(frames, (batch, channels, length, taps))
    factors = b.reshape(b.convert(filters, wide), (channels, ONE, taps))
    return b.convert(b.emit(Reduce, b.binary(Multiply, frames, factors), axes=(3,), kind="sum"), whole.dtype)


__all__: list[str] = []
