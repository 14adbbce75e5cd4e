"""Quantised ops of the domain `com.microsoft`, as ONNX Runtime's operator documents define them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import Add, Array, Dequantize, Divide, DotGeneral, Multiply, Softmax
from anyshape.dialects.dtypes import F32, U8
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.contrib_attention import attend_projected
from anyshape.frontends.onnx.integer_products import integer_matmul
from anyshape.frontends.onnx.products import matmul
from anyshape.frontends.onnx.quantised import (
    MICROSOFT,
    dynamic_codes,
    from_codes,
    integers_of,
    numpy_of,
    to_codes,
)
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value
from anyshape.nn import Tensor

# -- products --------------------------------------------------------------------------------------------------------


@lowers("MatMulIntegerToFloat", domain=MICROSOFT)
def lower_matmul_integer_to_float(
    b: GraphBuilder,
    lhs: Value,
    rhs: Value,
    lhs_scale: Value,
    rhs_scale: Value,
    lhs_zero: Value | None = None,
    rhs_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """lhs_scale·(lhs − lhs_zero) · rhs_scale·(rhs − rhs_zero) + bias; scales and zero points of rhs may be one for each column"""
    sums = b.convert(integer_matmul(b, lhs, rhs, lhs_zero, rhs_zero), F32)
    factor = b.binary(Multiply, lhs_scale, rhs_scale)
    scaled = b.emit(Multiply, sums, b.broadcast(factor, sums.sizes))
    return scaled if bias is None else b.emit(Add, scaled, b.broadcast(bias, scaled.sizes))


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT)
def lower_dynamic_quantize_matmul(
    b: GraphBuilder,
    lhs: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """As MatMulIntegerToFloat, of a left factor that is quantised here"""
    codes, scale, zero = dynamic_codes(b, lhs)
    return lower_matmul_integer_to_float(b, codes, rhs, scale, rhs_scale, zero, rhs_zero, bias)


@lowers("QGemm", domain=MICROSOFT)
def lower_qgemm(
    b: GraphBuilder,
    lhs: Value,
    lhs_scale: Value,
    lhs_zero: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_zero: Value,
    added: Value | None = None,
    scale: Value | None = None,
    zero: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """alpha·A·B + C of codes, C being i32 of scale alpha·lhs_scale·rhs_scale; as codes where `scale` is given, else as f32"""
    left, right = (_turned(b, each, bool(turn)) for each, turn in ((lhs, transA), (rhs, transB)))
    sums = integer_matmul(b, left, right, lhs_zero, rhs_zero)
    if added is not None:
        sums = b.emit(Add, sums, b.broadcast(added, sums.sizes))
    factor = b.binary(Multiply, b.binary(Multiply, b.tensor(lhs_scale), b.tensor(rhs_scale)), alpha)
    if scale is not None:
        factor = b.binary(Divide, factor, scale)
    scaled = b.emit(Multiply, b.convert(sums, F32), b.broadcast(factor, sums.sizes))
    return (
        scaled
        if scale is None
        else to_codes(b, scaled, integers_of(b, zero), U8.numpy if zero is None else numpy_of(zero))
    )


def _turned(b: GraphBuilder, x: Value, turn: bool) -> Value:
    if not turn:
        return x
    return Known(np.ascontiguousarray(x.elements.T)) if isinstance(x, Known) else b.transpose(x, (1, 0))


@lowers("QAttention", domain=MICROSOFT)
def lower_qattention(
    b: GraphBuilder,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    weight_scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    weight_zero: Value | None = None,
    past: Value | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value]:
    """Self-attention whose q, k and v are a product of codes; the rest is that of floats"""
    if do_rotary or past_present_share_buffer:
        raise Unsupported("rotary embeddings inside an attention, and caches in a shared buffer, have no lowering")
    projected = b.tensor(lower_matmul_integer_to_float(b, x, weights, x_scale, weight_scale, x_zero, weight_zero, bias))
    masks = mask, None, mask_filter_value
    return attend_projected(b, projected, masks, past, num_heads, scale or None, bool(unidirectional))


# -- weights of a few bits -----------------------------------------------------------------------------------------------


@lowers("MatMulNBits", domain=MICROSOFT)
def lower_matmul_nbits(
    b: GraphBuilder,
    x: Value,
    codes: Value,
    scales: Value,
    zeros: Value | None = None,
    group_index: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Value:
    """x[…, K] · W, where column n of W is N rows of `bits`-bit codes in blocks: scale · (code − zero)

    With a `group_index` element k has the scale and the zero point of that block. Weights whose scales are halves, as far as their
    blocks are GGUF's too, stay blocks; others are decoded.
    """
    if weight_prepacked:
        raise Unsupported("weights whose blocks are in another order have no lowering")
    if bits not in (2, 4, 8):
        raise Unsupported(f"weights of {bits} bits have no lowering; those of 2, 4 and 8 have")
    if min(K, N, block_size) < 1:
        raise Malformed(f"K is {K}, N {N} and block_size {block_size}; all must be at least 1")
    count = -(-K // block_size)
    packed = _of_length(b.literal(codes, "the weights"), N * count * (block_size * bits // 8), "the weights")
    factors = _of_length(b.literal(scales, "the scales"), N * count, "the scales").reshape(N, count).astype(np.float32)
    numbers = _unpacked(packed.reshape(N, -1), bits).reshape(N, count, block_size)
    offsets = _block_zeros(b, zeros, (N, count), bits)
    if group_index is not None:
        block = b.literal(group_index, "the groups of weights").ravel().astype(np.int64)[:K]
        if len(block) < K or (block < 0).any() or (block >= count).any():
            raise Malformed(f"the groups of weights must be {K} numbers below {count}")
        numbers, factors, offsets = numbers.reshape(N, -1, 1)[:, :K], factors[:, block], offsets[:, block]
    is_whole = bits == 4 and K % block_size == 0 and group_index is None
    blocks = _as_blocks(numbers, factors, offsets) if is_whole and x.dtype == F32 else None
    if blocks is not None:
        format, rows = blocks
        decoded = b.emit(Dequantize, Known(rows), format=format)
        result = b.emit(DotGeneral, x, decoded, lhs_contract=(x.rank - 1,), rhs_contract=(1,))
    else:
        weights = (numbers.astype(np.float32) - offsets[..., None]) * factors[..., None]
        columns = np.ascontiguousarray(weights.reshape(N, -1)[:, :K].T)
        result = matmul(b, x, Known(columns.astype(x.dtype.numpy)))
    return result if bias is None else b.emit(Add, result, b.broadcast(bias, result.sizes))


def _of_length(array: Array, count: int, what: str) -> Array:
    """Malformed unless the array has so many elements."""
    if array.size != count:
        raise Malformed(f"{what} must have {count} elements; here there are {array.size}")
    return array


def _unpacked(packed: Array, bits: int) -> Array:
    """Codes of each row, the lowest bits of a byte first: u8 [rows, bytes] -> u8 [rows, bytes · 8 / bits]."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _block_zeros(b: GraphBuilder, zeros: Value | None, shape: tuple[int, int], bits: int) -> Array:
    """The zero points of blocks as f32: packed as codes are, or numbers; the middle of the codes where there are none."""
    if zeros is None:
        return np.full(shape, 1 << (bits - 1), np.float32)
    given = b.literal(zeros, "the zero points of weights")
    if given.dtype != np.uint8:
        return _of_length(given, shape[0] * shape[1], "the zero points").reshape(shape).astype(np.float32)
    rows = _of_length(given, shape[0] * -(-shape[1] * bits // 8), "the zero points").reshape(shape[0], -1)
    return _unpacked(rows, bits)[:, : shape[1]].astype(np.float32)


def _as_blocks(codes: Array, scales: Array, zeros: Array) -> tuple[str, Array] | None:
    """(format, rows of bytes) of 4-bit codes [n, blocks, elements] as GGUF's blocks of 32, which lose nothing; None where they would."""
    halves = scales.astype(np.float16)
    minima = (-zeros * scales).astype(np.float16)
    if codes.shape[2] % 32 or not np.array_equal(halves.astype(np.float32), scales):
        return None
    is_centred = bool((zeros == 8).all())
    if not is_centred and not np.array_equal(minima.astype(np.float32), -zeros * scales):
        return None
    parts = codes.shape[2] // 32
    low, high = np.split(codes.reshape(len(codes), -1, 2, 16), 2, axis=2)
    nibbles = (low | high << 4).reshape(len(codes), -1, 16).astype(np.uint8)
    heads = [np.repeat(each, parts, axis=1)[..., None].view(np.uint8) for each in (halves, minima)]
    blocks = np.concatenate([*heads[: 1 if is_centred else 2], nibbles], axis=2)
    return "q4_0" if is_centred else "q4_1", np.ascontiguousarray(blocks.reshape(len(codes), -1))


# -- elementwise ops, pooling and joining of codes -------------------------------------------------------------------------


def _real(b: GraphBuilder, codes: Value, scale: Value, zero: Value | None) -> Tensor:
    return from_codes(b, codes, _number(b, scale), None if zero is None else _number(b, zero))


def _coded(b: GraphBuilder, x: Value, scale: Value, zero: Value | None, like: Value) -> Tensor:
    """x as codes of the type of `zero`, or of `like` where that is left out."""
    quotient = b.emit(Divide, x, b.broadcast(_number(b, scale), x.sizes))
    number = None if zero is None else integers_of(b, _number(b, zero))
    return to_codes(b, quotient, number, numpy_of(like if zero is None else zero))


def _number(b: GraphBuilder, x: Value) -> Value:
    """A number that may be written as a vector of one."""
    return x if x.rank == 0 else b.reshape(x, ())


def _lower_binary(op: str) -> None:
    @lowers(f"QLinear{op}", domain=MICROSOFT)
    def lower_qlinear_binary(  # pyright: ignore[reportUnusedFunction]
        b: GraphBuilder,
        x: Value,
        x_scale: Value,
        x_zero: Value | None,
        y: Value,
        y_scale: Value,
        y_zero: Value | None,
        scale: Value,
        zero: Value | None = None,
    ) -> Value:
        result = b.lower_op(op, _real(b, x, x_scale, x_zero), _real(b, y, y_scale, y_zero))
        return _coded(b, result, scale, zero, x)


def _lower_unary(name: str, op: str) -> None:
    @lowers(name, domain=MICROSOFT)
    def lower_qlinear_unary(  # pyright: ignore[reportUnusedFunction]
        b: GraphBuilder,
        x: Value,
        x_scale: Value,
        x_zero: Value | None,
        scale: Value,
        zero: Value | None = None,
        **attributes: Any,
    ) -> Value:
        return _coded(b, b.lower_op(op, _real(b, x, x_scale, x_zero), **attributes), scale, zero, x)


for _op in ("Add", "Mul"):
    _lower_binary(_op)
for _name in ("Sigmoid", "LeakyRelu"):
    _lower_unary(f"QLinear{_name}", _name)


@lowers("QLinearSoftmax", domain=MICROSOFT)
def lower_qlinear_softmax(
    b: GraphBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    scale: Value,
    zero: Value | None = None,
    *,
    axis: int = -1,
    opset: int = 13,
) -> Value:
    """Codes of a softmax over one axis, or, before version 13, over all axes from that one on"""
    real, axis = _real(b, x, x_scale, x_zero), b.axis(axis, x.rank)
    if opset < 13:
        rows = b.reshape(real, (numel(x.sizes[:axis]), numel(x.sizes[axis:])))
        result = b.reshape(b.emit(Softmax, rows, axis=1), x.sizes)
    else:
        result = b.emit(Softmax, real, axis=axis)
    return _coded(b, result, scale, zero, x)


@lowers("QLinearGlobalAveragePool", domain=MICROSOFT)
def lower_qlinear_global_average_pool(
    b: GraphBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    scale: Value,
    zero: Value | None = None,
    *,
    channels_last: int = 0,
) -> Value:
    axes = range(1, x.rank - 1) if channels_last else range(2, x.rank)
    return _coded(b, _mean(b, _real(b, x, x_scale, x_zero), axes), scale, zero, x)


@lowers("QLinearReduceMean", domain=MICROSOFT)
def lower_qlinear_reduce_mean(
    b: GraphBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    scale: Value,
    zero: Value | None = None,
    *,
    axes: Sequence[int],
    keepdims: int = 1,
) -> Value:
    """Codes of the mean over axes"""
    return _coded(b, _mean(b, _real(b, x, x_scale, x_zero), axes, keepdims), scale, zero, x)


def _mean(b: GraphBuilder, x: Tensor, axes: Sequence[int], keepdims: int = 1) -> Value:
    """ONNX's ReduceMean, whose axes are an input from version 18 on."""
    if b.opset >= 18:
        return b.lower_op("ReduceMean", x, Known(np.array(axes)), keepdims=keepdims)
    return b.lower_op("ReduceMean", x, axes=list(axes), keepdims=keepdims)


@lowers("QLinearAveragePool", domain=MICROSOFT)
def lower_qlinear_average_pool(
    b: GraphBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    scale: Value,
    zero: Value | None = None,
    *,
    channels_last: int = 0,
    **windows: Any,
) -> Value:
    """Codes of means over windows; channels are the second axis, or the last"""
    real, last = _real(b, x, x_scale, x_zero), x.rank - 1
    if channels_last:
        real = b.transpose(real, (0, last, *range(1, last)))
    mean = b.lower_op("AveragePool", real, **windows)
    return _coded(b, b.transpose(mean, (0, *range(2, x.rank), 1)) if channels_last else mean, scale, zero, x)


@lowers("QLinearConcat", domain=MICROSOFT)
def lower_qlinear_concat(b: GraphBuilder, scale: Value, zero: Value, *parts: Value, axis: int) -> Value:
    """Codes, each with its scale and zero point, joined as codes of one"""
    if not parts or len(parts) % 3:
        raise Malformed(f"codes come with a scale and a zero point each; there are {len(parts)} inputs")
    reals = [_real(b, *parts[first : first + 3]) for first in range(0, len(parts), 3)]
    return _coded(b, b.concatenate(reals, b.axis(axis, reals[0].rank)), scale, zero, zero)


@lowers("QLinearWhere", domain=MICROSOFT)
def lower_qlinear_where(
    b: GraphBuilder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    result = b.select(condition, _real(b, x, x_scale, x_zero), _real(b, y, y_scale, y_zero))
    return _coded(b, result, scale, zero, x)


__all__: list[str] = []
