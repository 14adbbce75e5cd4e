"""ATen elementwise ops that say more than one `dhlo` op: scaling, rounding modes, comparisons with promotion."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    And,
    Clamp,
    Compare,
    Divide,
    ExponentialMinusOne,
    IsFinite,
    Maximum,
    Minimum,
    Multiply,
    Not,
    Or,
    Power,
    Rsqrt,
    Select,
    ShiftLeft,
    ShiftRightArithmetic,
    Sign,
    Sqrt,
    Subtract,
    Xor,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.bits import BitcastConvert, can_read_bits
from anyshape.dialects.dtypes import BOOL, F16, DType
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.dtypes import dtype_of_torch
from anyshape.frontends.torch.unsupported import Unsupported


def operands(builder: GraphBuilder, values: Sequence[Value], dtype: DType) -> list[SSAValue]:
    """Tensors and numbers in one dtype, repeated to the result's sizes."""
    sizes = builder.result_sizes
    return [builder.broadcast(builder.operand(value, dtype, sizes), sizes) for value in values]


def binary(builder: GraphBuilder, kind: type[DhloOp], lhs: Value, rhs: Value) -> SSAValue:
    """kind(lhs, rhs) in the result's dtype."""
    return builder.emit(kind, *operands(builder, (lhs, rhs), builder.result_dtype))


def _is_number(value: Value, number: int) -> bool:
    return isinstance(value, int | float) and value == number


@lowers("aten.add.Tensor", "aten.add.Scalar")
def lower_add(builder: GraphBuilder, lhs: Value, rhs: Value, alpha: Value = 1) -> SSAValue:
    """lhs + alpha·rhs; an integer 0 adds nothing"""
    if _is_number(rhs, 0) and not builder.result_dtype.is_float and builder.is_result(lhs):
        return lhs
    return binary(builder, Add, lhs, rhs if _is_number(alpha, 1) else binary(builder, Multiply, rhs, alpha))


@lowers("aten.sub.Tensor", "aten.sub.Scalar")
def lower_sub(builder: GraphBuilder, lhs: Value, rhs: Value, alpha: Value = 1) -> SSAValue:
    """lhs − alpha·rhs"""
    return binary(builder, Subtract, lhs, rhs if _is_number(alpha, 1) else binary(builder, Multiply, rhs, alpha))


@lowers("aten.rsub.Scalar", "aten.rsub.Tensor")
def lower_rsub(builder: GraphBuilder, rhs: Value, lhs: Value, alpha: Value = 1) -> SSAValue:
    """lhs − alpha·rhs"""
    return lower_sub(builder, lhs, rhs, alpha)


@lowers("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def lower_div(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return binary(builder, Divide, lhs, rhs)


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def lower_maximum(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return binary(builder, Maximum, lhs, rhs)


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def lower_minimum(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return binary(builder, Minimum, lhs, rhs)


@lowers("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def lower_clamp(builder: GraphBuilder, x: Value, low: Value = None, high: Value = None) -> SSAValue:
    """min(max(x, low), high), each bound where there is one"""
    if builder.node.target is torch.ops.aten.hardtanh.default:
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    if low is not None and high is not None:
        low, x, high = operands(builder, (low, x, high), builder.result_dtype)
        return builder.emit(Clamp, low, x, high)
    if high is None:
        return binary(builder, Maximum, x, low)
    return binary(builder, Minimum, x, high)


@lowers("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def lower_pow(builder: GraphBuilder, base: Value, exponent: Value) -> SSAValue:
    """base ^ exponent; small exponents are products and roots, as ATen computes them

    Of f16 it takes no roots: (−∞)^0.5 is ∞ there, as of C's `pow`, and NaN of every other dtype.
    """
    dtype = builder.result_dtype
    if isinstance(exponent, int | float) and not isinstance(base, int | float):
        x = builder.operand(base, dtype)
        if exponent == 1:
            return x
        if exponent == 2:
            return builder.emit(Multiply, x, x)
        if exponent == 3:
            return builder.emit(Multiply, builder.emit(Multiply, x, x), x)
        if exponent == 0.5 and dtype != F16:
            return builder.emit(Sqrt, x)
        if exponent == -0.5 and dtype != F16:
            return builder.emit(Rsqrt, x)
    return binary(builder, Power, base, exponent)


@lowers("aten.reciprocal.default")
def lower_reciprocal(builder: GraphBuilder, x: Value) -> SSAValue:
    return binary(builder, Divide, 1.0, x)


@lowers("aten.leaky_relu.default")
def lower_leaky_relu(builder: GraphBuilder, x: SSAValue, negative_slope: float = 0.01) -> SSAValue:
    """x where x > 0, else negative_slope·x"""
    positive = _compare(builder, "gt", x, 0, dtype_of(x.type))
    return builder.emit(Select, positive, x, binary(builder, Multiply, x, negative_slope))


@lowers("aten.elu.default")
def lower_elu(
    builder: GraphBuilder, x: SSAValue, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> SSAValue:
    """scale·x where x > 0, else scale·alpha·(exp(input_scale·x) − 1)"""
    positive = _compare(builder, "gt", x, 0, dtype_of(x.type))
    below = builder.emit(ExponentialMinusOne, binary(builder, Multiply, x, input_scale))
    return builder.emit(
        Select, positive, binary(builder, Multiply, x, scale), binary(builder, Multiply, below, alpha * scale)
    )


@lowers("aten.exp2.default")
def lower_exp2(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return binary(builder, Power, 2.0, x)


@lowers("aten.sign.default", "aten.sgn.default")
def lower_sign(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """1 above 0, −1 below 0, else 0: of NaN too, where `dhlo.sign` gives NaN"""
    dtype = dtype_of(x.type)
    if dtype.is_float:
        above, below = (builder.convert(_compare(builder, side, x, 0, dtype), dtype) for side in ("gt", "lt"))
        return builder.emit(Subtract, above, below)
    return builder.emit(Sign, x)


# -- comparisons and logic -------------------------------------------------------------------------------------------

_DIRECTIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _compare(builder: GraphBuilder, direction: str, lhs: Value, rhs: Value, dtype: DType) -> SSAValue:
    return builder.emit(Compare, *operands(builder, (lhs, rhs), dtype), direction=direction)


def _register_comparison(direction: str) -> None:
    @lowers(f"aten.{direction}.Tensor", f"aten.{direction}.Scalar")
    def lower_comparison(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
        return _compare(builder, direction, lhs, rhs, builder.promoted_dtype())


for _direction in _DIRECTIONS:
    _register_comparison(_direction)


def as_bool(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """x ≠ 0"""
    dtype = dtype_of(x.type)
    if dtype.is_bool:
        return x
    return builder.emit(Compare, x, builder.constant(0, dtype, sizes_of(x.type)), direction="ne")


@lowers("aten.logical_not.default")
def lower_logical_not(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    return builder.emit(Not, as_bool(builder, x))


def _register_logical(name: str, kind: type[DhloOp]) -> None:
    @lowers(f"aten.logical_{name}.default")
    def lower_logical(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
        return builder.emit(kind, *operands(builder, (as_bool(builder, lhs), as_bool(builder, rhs)), BOOL))


def _register_bitwise(name: str, kind: type[DhloOp]) -> None:
    @lowers(f"aten.__{name}__.Tensor", f"aten.__{name}__.Scalar")
    def lower_bitwise(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
        return binary(builder, kind, lhs, rhs)


for _name, _kind in (("and", And), ("or", Or), ("xor", Xor)):
    _register_logical(_name, _kind)
    _register_bitwise(_name, _kind)


@lowers("aten.__lshift__.Scalar", "aten.__lshift__.Tensor")
def lower_shift_left(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return binary(builder, ShiftLeft, lhs, rhs)


@lowers("aten.__rshift__.Scalar", "aten.__rshift__.Tensor")
def lower_shift_right(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return binary(builder, ShiftRightArithmetic, lhs, rhs)


# -- selection and conversion ----------------------------------------------------------------------------------------


@lowers("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def lower_where(builder: GraphBuilder, condition: SSAValue, on_true: Value, on_false: Value) -> SSAValue:
    predicate = builder.broadcast(as_bool(builder, condition), builder.result_sizes)
    return builder.emit(Select, predicate, *operands(builder, (on_true, on_false), builder.result_dtype))


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def lower_masked_fill(builder: GraphBuilder, x: SSAValue, mask: SSAValue, value: Value) -> SSAValue:
    return lower_where(builder, mask, value, x)


@lowers("aten._to_copy.default", "aten.to.dtype", "prims.convert_element_type.default")
def lower_to_copy(builder: GraphBuilder, x: Value, *_: Value, **__: Value) -> SSAValue:
    """x in another dtype; a number where PyTorch made it a tensor, as function transforms do"""
    return builder.operand(x, builder.result_dtype)


@lowers("aten.copy.default")
def lower_copy(builder: GraphBuilder, _into: SSAValue, source: SSAValue, *_: Value) -> SSAValue:
    """The source with the sizes and the dtype of the target"""
    return builder.broadcast(builder.convert(source, builder.result_dtype), builder.result_sizes)


@lowers("aten.view.dtype")
def lower_view_dtype(builder: GraphBuilder, x: SSAValue, dtype: torch.dtype) -> SSAValue:
    target = dtype_of_torch(dtype)
    if not can_read_bits(dtype_of(x.type), target):
        raise Unsupported(f"reading the bits of {dtype_of(x.type)} as {target} has no op")
    return x if dtype_of(x.type) == target else builder.emit(BitcastConvert, x, dtype=target)


@lowers(
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
)
def lower_identity(_builder: GraphBuilder, x: SSAValue, **_: Value) -> SSAValue:
    """Values have no strides and no storage: a copy is the value itself."""
    return x


@lowers("aten.isfinite.default")
def lower_isfinite(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    if not dtype_of(x.type).is_float:
        return builder.constant(True, BOOL, sizes_of(x.type))
    return builder.emit(IsFinite, x)
