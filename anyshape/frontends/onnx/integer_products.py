"""Matrix products of codes, which are summed as integers.

Codes are brought to signed bytes, since those have register tiles: codes and zero points of unsigned ones are both 128 less. What the
zero points add follows from sums of rows and columns,

    Σ_k (a − za)(w − zw) = Σ_k a·w − za·Σ_k w − zw·(Σ_k a − K·za),

where the sums over a constant w are known while importing. Float products of a tensor and a weight that a DequantizeLinear each gives,
as quantised exports write them, are (Σ_k (a − za)(w − zw)) · (scale of a · scale of w), and are computed so.
"""

from __future__ import annotations

import numpy as np

from anyshape.dialects.dhlo import Divide, Multiply, Reduce, Subtract, Transpose
from anyshape.dialects.dtypes import F32, I8, I32, U8
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.products import matmul
from anyshape.frontends.onnx.quantised import integers_of, numpy_of, reshaped_parameter, to_codes
from anyshape.frontends.onnx.refusals import Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, known_scalar
from anyshape.nn import Tensor

_MOST_SUMMED = 1 << 15
"""As many products of differences of bytes an i32 holds the sum of: 2¹⁵ · 255² < 2³¹."""


def _signed(b: GraphBuilder, codes: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """Codes as i8, and the i32 zero point that goes with them; None where that is 0."""
    offset = integers_of(b, zero)
    if codes.dtype == I8:
        return codes, offset
    if codes.dtype != U8:
        raise Unsupported(f"products of {codes.dtype} codes; programs multiply i8 and u8")
    if isinstance(codes, Known):
        moved: Value = Known((codes.elements.astype(np.int16) - 128).astype(np.int8))
    else:
        moved = b.convert(b.binary(Subtract, b.convert(codes, I32), 128), I8)
    if offset is None:
        return moved, known_scalar(-128, np.dtype(np.int32))
    if isinstance(offset, Known):
        return moved, integers_of(b, Known(offset.elements - np.int32(128)))
    return moved, b.binary(Subtract, offset, 128)


def integer_matmul(
    b: GraphBuilder, lhs: Value, rhs: Value, lhs_zero: Value | None = None, rhs_zero: Value | None = None
) -> Tensor:
    """Σ_k (lhs − lhs_zero)[…, i, k] · (rhs − rhs_zero)[…, k, j] as i32, exactly, of bytes.

    Args:
        lhs_zero: one number, or one for each row.
        rhs_zero: one number, or one for each column.
    """
    if lhs.rank == 1:
        row = integer_matmul(b, reshaped_parameter(b, lhs, (1, *lhs.sizes)), rhs, lhs_zero, rhs_zero)
        return b.reshape(row, (*row.sizes[:-2], *row.sizes[-1:]))
    if rhs.rank == 1:
        column = integer_matmul(b, lhs, reshaped_parameter(b, rhs, (*rhs.sizes, 1)), lhs_zero, rhs_zero)
        return b.reshape(column, column.sizes[:-1])
    (left, left_zero), (right, right_zero) = _signed(b, lhs, lhs_zero), _signed(b, rhs, rhs_zero)
    if left_zero is not None and left_zero.rank == 1 and left_zero.sizes[0] != ONE:
        left_zero = reshaped_parameter(b, left_zero, (*left_zero.sizes, 1))
    result = matmul(b, left, right, I32)
    if left_zero is not None:
        columns = _sums(b, right, right.rank - 2)
        result = b.binary(Subtract, result, _product(b, left_zero, columns))
    if right_zero is not None:
        rows: Value = _sums(b, left, left.rank - 1)
        if left_zero is not None:
            depth = known_scalar(left.sizes[-1], np.dtype(np.int32))
            rows = b.binary(Subtract, rows, _product(b, left_zero, depth))
        result = b.binary(Subtract, result, b.binary(Multiply, rows, right_zero))
    return result


def _product(b: GraphBuilder, x: Value, y: Value) -> Value:
    if isinstance(x, Known) and isinstance(y, Known) and x.is_literal and y.is_literal:
        with np.errstate(over="ignore"):
            return Known(np.asarray(x.elements * y.elements, np.int32))
    return b.binary(Multiply, x, y)


def _sums(b: GraphBuilder, x: Value, axis: int) -> Value:
    """Σ along an axis as i32; the axis stays, with size 1."""
    if isinstance(x, Known):
        return Known(x.elements.sum(axis=axis, keepdims=True, dtype=np.int32))
    sums = b.emit(Reduce, b.convert(x, I32), axes=(axis,), kind="sum")
    return b.reshape(sums, [ONE if each == axis else size for each, size in enumerate(x.sizes)])


@lowers("MatMulInteger")
def lower_matmul_integer(
    b: GraphBuilder, lhs: Value, rhs: Value, lhs_zero: Value | None = None, rhs_zero: Value | None = None
) -> Value:
    """(lhs − lhs_zero) · (rhs − rhs_zero) as i32"""
    return integer_matmul(b, lhs, rhs, lhs_zero, rhs_zero)


@lowers("QLinearMatMul")
def lower_qlinear_matmul(
    b: GraphBuilder,
    lhs: Value,
    lhs_scale: Value,
    lhs_zero: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """Codes of the product of what the codes of both stand for"""
    sums = integer_matmul(b, lhs, rhs, lhs_zero, rhs_zero)
    rows = (
        reshaped_parameter(b, lhs_scale, (*lhs_scale.sizes, 1)) if lhs_scale.rank == 1 and lhs.rank > 1 else lhs_scale
    )
    factor = b.binary(
        Divide, b.binary(Multiply, b.operand(rows, F32), b.operand(rhs_scale, F32)), b.operand(scale, F32)
    )
    scaled = b.emit(Multiply, b.convert(sums, F32), b.broadcast(factor, sums.sizes))
    return to_codes(b, scaled, integers_of(b, zero), numpy_of(zero))


# -- products of what codes stand for --------------------------------------------------------------------------------------


def product_of_dequantised(b: GraphBuilder, lhs: Value, rhs: Value, *, is_turned: bool = False) -> Tensor | None:
    """lhs [..., k] · rhs [k, n] in f32 by the integer product of their codes; None where they are not both given so.

    The codes of lhs have one scale; those of rhs are constant, with one scale or one for each column.

    Args:
        is_turned: rhs is stored as [n, k]. A transposition behind the codes is seen too.
    """
    if not isinstance(lhs, Tensor) or not isinstance(rhs, Tensor):
        return None
    weight, owner = rhs.value, rhs.value.owner
    if isinstance(owner, Transpose) and rhs.rank == 2:
        weight, is_turned = owner.operands[0], not is_turned
    left, right = b.dequantised.get(lhs.value), b.dequantised.get(weight)
    if left is None or right is None or left.axis is not None or not isinstance(right.codes, Known):
        return None
    codes = right.codes
    if not codes.is_literal or codes.rank != 2 or right.axis not in (None, 0 if is_turned else 1):
        return None
    if is_turned:
        codes = Known(np.ascontiguousarray(codes.elements.T))
    if codes.shape[0] > _MOST_SUMMED:
        return None
    sums = integer_matmul(b, left.codes, codes, left.zero, right.zero)
    factor = b.binary(Multiply, reshaped_parameter(b, left.scale, ()), right.scale)
    return b.emit(Multiply, b.convert(sums, F32), b.broadcast(factor, sums.sizes))


__all__ = ["integer_matmul", "product_of_dequantised"]
