"""ONNX's linear quantisation: x ≈ scale · (code − zero point), and convolutions of codes, which are summed as integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import (
    Add,
    Array,
    Clamp,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Reduce,
    RoundNearestEven,
    Subtract,
)
from anyshape.dialects.dtypes import F32, I8, I32, U8, DType
from anyshape.frontends.onnx.builder import ONE, Dequantised, GraphBuilder
from anyshape.frontends.onnx.dtypes import dtype_of_array, dtype_of_code, numpy_of_code
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.storage import cast, held_in, to_held
from anyshape.frontends.onnx.values import Known, Stored, Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

MICROSOFT = "com.microsoft"
RANGES: Mapping[str, tuple[int, int]] = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535), "int4": (-8, 7), "uint4": (0, 15),
    "int2": (-2, 1), "uint2": (0, 3),
}  # fmt: skip
"""The codes of each type."""
_EXACT_F32 = 1 << 24
"""Integers up to here are exact in f32."""


# -- scales and zero points ------------------------------------------------------------------------------------------


def per_element(b: GraphBuilder, parameter: Value, sizes: Sequence[Size], axis: int, block_size: int = 0) -> Value:
    """A scale or zero point so that it can be broadcast to a tensor of these sizes.

    Args:
        parameter: one number; or one for each index of `axis`; or, where there is a `block_size`, one for so many neighbours along it.
    """
    if parameter.rank == 0 or (parameter.rank == 1 and parameter.sizes[0] == ONE):
        return reshaped_parameter(b, parameter, ())
    axis = b.axis(axis, len(sizes))
    if parameter.rank == 1 and not block_size:
        return reshaped_parameter(
            b, parameter, [parameter.sizes[0] if each == axis else ONE for each in range(len(sizes))]
        )
    if block_size <= 0 or parameter.rank != len(sizes):
        raise Malformed(f"a scale has {parameter.rank} axes, its tensor {len(sizes)}, and blocks {block_size} elements")
    return _repeated_blocks(b, parameter, sizes, axis, block_size)


def _repeated_blocks(b: GraphBuilder, parameter: Value, sizes: Sequence[Size], axis: int, block: int) -> Value:
    """Each element along `axis` so many times, as far as the tensor reaches."""
    blocks = parameter.sizes[axis]
    spread = [*parameter.sizes[: axis + 1], Size.const(block), *parameter.sizes[axis + 1 :]]
    apart = reshaped_parameter(b, parameter, [*parameter.sizes[: axis + 1], ONE, *parameter.sizes[axis + 1 :]])
    if isinstance(apart, Known):
        repeated: Value = Known(np.repeat(apart.elements, block, axis + 1))
    else:
        repeated = b.broadcast(apart, spread)
    whole = [*parameter.sizes[:axis], blocks * block, *parameter.sizes[axis + 1 :]]
    joined = reshaped_parameter(b, repeated, whole)
    size = sizes[axis]
    if b.prove((blocks * block).eq(size)) is True:
        return joined
    b.require(size.le(blocks * block), "blocks that cover an axis")
    return b.slice(joined, axis, 0, size)


def reshaped_parameter(b: GraphBuilder, x: Value, sizes: Sequence[Size | int]) -> Value:
    if isinstance(x, Known) and x.is_literal:
        return Known(x.elements.reshape([Size.of(size).value for size in sizes]))
    return b.reshape(x, sizes)


def integers_of(b: GraphBuilder, zero: Value | None) -> Value | None:
    """A zero point as i32; None where it is left out or is 0 everywhere."""
    if zero is None or (isinstance(zero, Known) and zero.is_literal and not zero.elements.astype(np.int64).any()):
        return None
    if isinstance(zero, Known):
        return Known(zero.elements.astype(np.int32))
    return b.convert(zero, I32)


# -- tensors to codes and back -----------------------------------------------------------------------------------------


def numpy_of(value: Value | Stored) -> np.dtype[np.generic]:
    """The type of a value's elements."""
    return value.dtype.numpy if isinstance(value, Tensor) else value.numpy


def to_codes(b: GraphBuilder, scaled: Value, zero: Value | None, numpy: np.dtype[np.generic]) -> Tensor:
    """saturate(round(scaled) + zero), to even between two integers; `zero` is broadcast to `scaled`. As programs hold such codes."""
    rounded = b.emit(RoundNearestEven, b.convert(scaled, F32))
    if zero is not None:
        rounded = b.emit(Add, rounded, b.broadcast(b.convert(zero, F32), rounded.sizes))
    low, high = (b.constant(bound, F32, rounded.sizes) for bound in RANGES[numpy.name])
    return b.convert(b.emit(Clamp, low, rounded, high), held_in(numpy) or dtype_of_array(numpy))


def from_codes(b: GraphBuilder, codes: Value, scale: Value, zero: Value | None, dtype: DType = F32) -> Tensor:
    """scale · (codes − zero) in `dtype`, computed in f32; scale and zero are broadcast to the codes."""
    wide = b.operand(codes, F32)
    number = integers_of(b, zero)
    if number is not None:
        wide = b.emit(Subtract, wide, b.broadcast(b.operand(number, F32), wide.sizes))
    return b.convert(b.emit(Multiply, wide, b.broadcast(b.operand(scale, F32), wide.sizes)), dtype)


@lowers("DequantizeLinear")
@lowers("DequantizeLinear", domain=MICROSOFT)
def lower_dequantize_linear(
    b: GraphBuilder,
    x: Value | Stored,
    scale: Value,
    zero_point: Value | Stored | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """scale · (x − zero_point), in the dtype of the scale unless told"""
    dtype = dtype_of_code(output_dtype) if output_dtype else scale.dtype
    codes, zero = _plain_codes(x), None if zero_point is None else _plain_codes(zero_point)
    codes, zero = _centred_weights(codes, zero)
    factor = per_element(b, scale, codes.sizes, axis, block_size)
    offset = None if zero is None else per_element(b, zero, codes.sizes, axis, block_size)
    result = from_codes(b, codes, factor, offset, dtype)
    if not block_size and scale.dtype == F32 and dtype == F32 and codes.dtype in (I8, U8):
        varies = scale.rank == 1 and scale.sizes[0] != ONE
        b.dequantised[result.value] = Dequantised(codes, scale, zero, b.axis(axis, codes.rank) if varies else None)
    return result


def _plain_codes(codes: Value | Stored) -> Value:
    """Codes in a type that programs have."""
    if isinstance(codes, Stored):
        return codes.tensor
    if isinstance(codes, Known) and codes.is_literal and held_in(codes.numpy) is not None:
        return Known(to_held(codes.elements))
    return codes


def _centred_weights(codes: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """Constant codes without their one zero point where signed bytes hold the differences, as products take them."""
    if not (
        isinstance(codes, Known) and isinstance(zero, Known) and zero.elements.size == 1 and codes.numpy.kind in "iu"
    ):
        return codes, zero
    if codes.numpy.itemsize > 1 or not codes.elements.size:
        return codes, zero
    differences = codes.elements.astype(np.int16) - np.int16(zero.elements.item())
    low, high = RANGES["int8"]
    if differences.min() < low or differences.max() > high:
        return codes, zero
    return Known(differences.astype(np.int8)), None


@lowers("QuantizeLinear")
@lowers("QuantizeLinear", domain=MICROSOFT)
def lower_quantize_linear(
    b: GraphBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | Stored | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value | Stored:
    """saturate(round(x / scale) + zero_point), divided in the dtype of the scale unless told"""
    target = np.dtype(np.uint8) if zero_point is None else numpy_of(zero_point)
    if output_dtype:
        target = numpy_of_code(output_dtype)
    divided_in = dtype_of_code(precision) if precision else scale.dtype if scale.dtype.is_float else F32
    divisor = per_element(b, b.operand(scale, divided_in), x.sizes, axis, block_size)
    quotient = b.emit(Divide, b.operand(x, divided_in), b.broadcast(divisor, x.sizes))
    if target.name not in RANGES:
        if target.kind in "iuf" and held_in(target) is None:
            raise Unsupported(f"there are no codes of {target}; there are {', '.join(RANGES)}, and small floats")
        return cast(b, quotient, target, saturate=bool(saturate))
    zero = integers_of(b, None if zero_point is None else _plain_codes(zero_point))
    offset = None if zero is None else per_element(b, zero, x.sizes, axis, block_size)
    codes = to_codes(b, quotient, offset, target)
    return codes if held_in(target) is None else Stored(codes, target)


@lowers("DynamicQuantizeLinear")
def lower_dynamic_quantize_linear(b: GraphBuilder, x: Value) -> list[Value]:
    """Codes of one byte, with the scale and the zero point that let them reach from the least to the greatest of x and 0"""
    codes, scale, zero = dynamic_codes(b, x)
    return [codes, scale, b.convert(zero, U8)]


def dynamic_codes(b: GraphBuilder, x: Value) -> tuple[Tensor, Tensor, Tensor]:
    """Codes u8, scale f32 [] and zero point f32 []:

    scale = (max(x, 0) − min(x, 0)) / 255, or 1/255 where x is 0 everywhere; zero = round(−min(x, 0) / scale), from 0 to 255.
    """
    axes = tuple(range(x.rank))
    top = b.binary(Maximum, b.emit(Reduce, x, axes=axes, kind="max"), 0.0)
    bottom = b.binary(Minimum, b.emit(Reduce, x, axes=axes, kind="min"), 0.0)
    span = b.select(b.compare("eq", top, bottom), b.constant(1.0, F32), b.emit(Subtract, top, bottom))
    scale = b.binary(Divide, span, 255.0)
    exact = b.emit(Divide, b.binary(Subtract, 0.0, bottom), scale)
    zero = b.emit(RoundNearestEven, b.emit(Clamp, b.constant(0.0, F32), exact, b.constant(255.0, F32)))
    quotient = b.emit(Divide, b.tensor(x), b.broadcast(scale, x.sizes))
    return to_codes(b, quotient, zero, U8.numpy), scale, zero


# -- convolutions of codes ---------------------------------------------------------------------------------------------


def integer_conv(
    b: GraphBuilder, x: Value, filters: Value, x_zero: Value | None, filter_zero: Value | None, **windows: Any
) -> Tensor:
    """The convolution of x − x_zero with filters − filter_zero as i32, exactly.

    Where no sum can reach 2²⁴, f32 holds all of them, and so the register tiles of f32 serve.

    Args:
        filter_zero: one number, or one for each filter.
        windows: attributes of ONNX's Conv.
    """
    apart = [ONE] * (filters.rank - 1)
    offset = integers_of(b, filter_zero)
    if offset is not None and offset.rank == 1:
        offset = reshaped_parameter(b, offset, (*offset.sizes, *apart))
    wide = F32 if _largest_sum(filters, offset) < _EXACT_F32 else I32
    centred = [_centred(b, each, zero, wide) for each, zero in ((x, integers_of(b, x_zero)), (filters, offset))]
    return b.convert(b.lower_op("Conv", *centred, **windows), I32)


def _centred(b: GraphBuilder, codes: Value, zero: Value | None, dtype: DType) -> Value:
    if isinstance(codes, Known) and (zero is None or isinstance(zero, Known)):
        return Known((codes.elements.astype(np.int32) - (0 if zero is None else zero.elements)).astype(dtype.numpy))
    wide = b.operand(codes, dtype)
    return wide if zero is None else b.emit(Subtract, wide, b.broadcast(b.operand(zero, dtype), wide.sizes))


def _largest_sum(filters: Value, zero: Value | None) -> int:
    """What no sum of a filter's products with differences of bytes exceeds."""
    if isinstance(filters, Known) and (zero is None or isinstance(zero, Known)):
        centred: Array = filters.elements.astype(np.int64) - (0 if zero is None else zero.elements)
        sums = np.abs(centred).sum(axis=tuple(range(1, centred.ndim)))
        return 255 * int(sums.max(initial=0))
    depth = 1
    for size in filters.sizes[1:]:
        if not size.is_constant:
            return _EXACT_F32
        depth *= size.value
    return 255 * 255 * depth


@lowers("ConvInteger")
def lower_conv_integer(
    b: GraphBuilder,
    x: Value,
    filters: Value,
    x_zero: Value | None = None,
    filter_zero: Value | None = None,
    **windows: Any,
) -> Value:
    """The convolution of differences to the zero points, as i32"""
    return integer_conv(b, x, filters, x_zero, filter_zero, **windows)


@lowers("QLinearConv")
def lower_qlinear_conv(
    b: GraphBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    filters: Value,
    filter_scale: Value,
    filter_zero: Value,
    scale: Value,
    zero: Value,
    bias: Value | None = None,
    **windows: Any,
) -> Value:
    """Codes of the convolution of what the codes of both stand for; the bias is i32, of scale x_scale · filter_scale"""
    sums = integer_conv(b, x, filters, x_zero, filter_zero, **windows)
    after = [ONE] * (filters.rank - 2)
    if bias is not None:
        sums = b.emit(Add, sums, b.broadcast(reshaped_parameter(b, bias, (*bias.sizes, *after)), sums.sizes))
    factor = b.binary(Multiply, b.operand(x_scale, F32), b.operand(filter_scale, F32))
    factor = b.binary(Divide, factor, b.operand(scale, F32))
    if factor.rank == 1:
        factor = b.reshape(factor, (*factor.sizes, *after) if factor.sizes[0] != ONE else ())
    scaled = b.emit(Multiply, b.convert(sums, F32), b.broadcast(factor, sums.sizes))
    return to_codes(b, scaled, integers_of(b, zero), numpy_of(zero))


__all__ = [
    "MICROSOFT", "RANGES", "dynamic_codes", "from_codes", "integer_conv", "integers_of", "numpy_of", "per_element",
    "reshaped_parameter", "to_codes",
]  # fmt: skip
