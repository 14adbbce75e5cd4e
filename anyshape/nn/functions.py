"""What layers are made of, as functions of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from anyshape.dialects.dhlo import (
    Abs,
    Attention,
    Compare,
    Concatenate,
    Convert,
    Cosine,
    Dequantize,
    DotGeneral,
    DynamicUpdateSlice,
    Gather,
    Gelu,
    Iota,
    LayerNorm,
    Logistic,
    Maximum,
    Reduce,
    RmsNorm,
    RoundNearestEven,
    Select,
    Silu,
    Sine,
    SizeOf,
    Slice,
    Softmax,
    Tanh,
)
from anyshape.dialects.dtypes import BY_NAME, I64, DType
from anyshape.nn.graph import Graph
from anyshape.nn.tensor import Operand, Tensor, common_sizes
from anyshape.symbolic import Size, SizeLike

# -- elementwise -----------------------------------------------------------------------------------------------------


def silu(x: Tensor) -> Tensor:
    """x · σ(x)."""
    return x.graph.emit(Silu, x)


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """x · Φ(x), by erf or by the tanh formula."""
    return x.graph.emit(Gelu, x, approximate=approximate)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)."""
    return x.graph.emit(Logistic, x)


def tanh(x: Tensor) -> Tensor:
    return x.graph.emit(Tanh, x)


def sin(x: Tensor) -> Tensor:
    return x.graph.emit(Sine, x)


def cos(x: Tensor) -> Tensor:
    return x.graph.emit(Cosine, x)


def absolute(x: Tensor) -> Tensor:
    """|x|."""
    return x.graph.emit(Abs, x)


def round_even(x: Tensor) -> Tensor:
    """The nearest integer to x, the even one of two."""
    return x.graph.emit(RoundNearestEven, x)


def maximum(x: Tensor, y: Operand) -> Tensor:
    """The larger one; NaN where either is NaN. Both are broadcast together."""
    other = y if isinstance(y, Tensor) else x.graph.constant(y, dtype=x.dtype)
    sizes = common_sizes(x, other)
    return x.graph.emit(Maximum, x.broadcast(*sizes), other.broadcast(*sizes))


def largest(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The largest element along axes, which are dropped."""
    return x.graph.emit(Reduce, x, axes=tuple(sorted(map(x.axis, axes))), kind="max")


def convert(x: Tensor, dtype: str | DType) -> Tensor:
    """x in another dtype."""
    target = dtype if isinstance(dtype, DType) else BY_NAME[dtype]
    return x if x.dtype == target else x.graph.emit(Convert, x, dtype=target)


def greater(x: Tensor, y: Operand) -> Tensor:
    """x > y as bools; both are broadcast together."""
    other = y if isinstance(y, Tensor) else x.graph.constant(y, dtype=x.dtype)
    sizes = common_sizes(x, other)
    return x.graph.emit(Compare, x.broadcast(*sizes), other.broadcast(*sizes), direction="gt")


def where(condition: Tensor, x: Tensor, y: Operand) -> Tensor:
    """x where the bool `condition` holds, else y; all are broadcast together."""
    other = y if isinstance(y, Tensor) else x.graph.constant(y, dtype=x.dtype)
    sizes = common_sizes(condition, x, other)
    return x.graph.emit(Select, condition.broadcast(*sizes), x.broadcast(*sizes), other.broadcast(*sizes))


# -- layers ----------------------------------------------------------------------------------------------------------


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[…, n] = Σ_k x[…, k] · weight[n, k] + bias[n]."""
    product = x.graph.emit(DotGeneral, x, weight, lhs_contract=(x.rank - 1,), rhs_contract=(1,))
    return product if bias is None else product + bias


def dequantize(x: Tensor, format: str) -> Tensor:
    """The numbers of block-quantised rows, u8 […, bytes of a row] -> f32 […, columns]; see `dialects.block_formats` for formats.

    As the weight of `linear` the blocks are multiplied as they are, and never decoded.
    """
    return x.graph.emit(Dequantize, x, format=format)


def embedding(indices: Tensor, table: Tensor) -> Tensor:
    """y[i…, d] = table[indices[i…], d]; an index that the table does not have is an error when the program runs."""
    return indices.graph.emit(
        Gather,
        table,
        indices,
        offset_dims=(indices.rank,),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=indices.rank,
        slice_sizes=(1, table.sizes[1]),
    )


def rms_norm(x: Tensor, weight: Tensor, *, epsilon: float) -> Tensor:
    """x / √(mean x² + epsilon) · weight over the last axes, as many as the weight has."""
    return x.graph.emit(RmsNorm, x, weight, axes=tuple(range(x.rank - weight.rank, x.rank)), epsilon=epsilon)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, epsilon: float) -> Tensor:
    """(x − mean x) / √(var x + epsilon) · weight + bias over the last axis."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    return x.graph.emit(LayerNorm, *operands, axes=(x.rank - 1,), epsilon=epsilon)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """eˣ / Σ eˣ along an axis."""
    return x.graph.emit(Softmax, x, axis=x.axis(axis))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    key_scale: Tensor | None = None,
    value_scale: Tensor | None = None,
) -> Tensor:
    """softmax(scale · q·kᵀ + mask) · v; see `dhlo.attention`.

    Args:
        query: [b, h, s, d].
        key, value: [b, hk, t, d] and [b, hk, t, e] with h a multiple of hk; of q's dtype, or beside f32 f16, bf16, or i8.
        scale: by default 1/√d.
        mask: [b, h, s, t], each axis full or 1: bool (False hides) or float (added).
        causal: the queries are the last s of the t positions, and none sees a later one.
        window: with `causal`, each query sees its own position and the window − 1 before it; 0 is all of them.
        key_scale, value_scale: f32 [b, hk, t]: what rows of i8 keys and values are multiplied by, in place of a mask.
    """
    factor = 1.0 / math.sqrt(query.sizes[3].value) if scale is None else scale
    others = [each for each in (mask, key_scale, value_scale) if each is not None]
    operands = (query, key, value, *others)
    return query.graph.emit(Attention, *operands, scale=factor, causal=causal, after_past=causal, window=window)


# -- moving elements -------------------------------------------------------------------------------------------------


def size(graph: Graph, expression: SizeLike) -> Tensor:
    """A size as a number: i64 []."""
    return graph.emit(SizeOf, size=Size.of(expression))


def positions(graph: Graph, count: SizeLike, start: SizeLike = 0) -> Tensor:
    """start, start + 1, …: i64 [count]."""
    numbers = graph.emit(Iota, axis=0, sizes=(Size.of(count),), dtype=I64)
    first = Size.of(start)
    return numbers if first == Size.const(0) else numbers + size(graph, first)


def concatenate(tensors: Sequence[Tensor], axis: int = -1) -> Tensor:
    """The tensors one after another along an axis."""
    return tensors[0].graph.emit(Concatenate, *tensors, axis=tensors[0].axis(axis))


def slice_axis(x: Tensor, axis: int, start: SizeLike, size: SizeLike, stride: int = 1) -> Tensor:
    """x[…, start + stride·i, …] for i < size; all of it must lie inside x."""
    axis = x.axis(axis)
    starts, sizes, strides = [Size.const(0)] * x.rank, list(x.sizes), [1] * x.rank
    starts[axis], sizes[axis], strides[axis] = Size.of(start), Size.of(size), stride
    return x.graph.emit(Slice, x, starts=tuple(starts), sizes=tuple(sizes), strides=tuple(strides))


def split(x: Tensor, sizes: Sequence[int], axis: int = -1) -> list[Tensor]:
    """x cut into pieces of these sizes along an axis."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [slice_axis(x, axis, start, size) for start, size in zip(starts, sizes, strict=True)]


def update(x: Tensor, part: Tensor, starts: Sequence[SizeLike]) -> Tensor:
    """x with the part that begins at `starts` replaced; all of it must lie inside x."""
    return x.graph.emit(DynamicUpdateSlice, x, part, starts=tuple(map(Size.of, starts)))


__all__ = [
    "absolute", "attention", "concatenate", "convert", "cos", "dequantize", "embedding", "gelu", "greater",
    "largest", "layer_norm", "linear", "maximum", "positions", "rms_norm", "round_even", "sigmoid", "silu", "sin",
    "size", "slice_axis", "softmax", "split", "tanh", "update", "where",
]  # fmt: skip
