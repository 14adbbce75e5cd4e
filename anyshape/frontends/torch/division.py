"""Integer quotients and remainders: the call is refused where an element is divided by 0, as PyTorch raises RuntimeError there.

ATen's kernels find such a divisor on the way. Here the zeros among the divisors are counted, once however often each divides, unless it
is known when compiling that there are none: of numbers, of constants, of what is clamped from below, and of sizes. By floats anything is
divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Clamp,
    Compare,
    Convert,
    Divide,
    FloorDivide,
    Maximum,
    Modulo,
    Multiply,
    Reduce,
    Remainder,
    Reshape,
    SizeOf,
    Trunc,
    Weight,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dhlo.constant import constant_value
from anyshape.dialects.dtypes import I64, DType
from anyshape.dialects.messages import PLACE
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Lowering, Value, lowers
from anyshape.symbolic import Size, size_min


def divided(builder: GraphBuilder, lhs: Value, rhs: Value, kind: type[DhloOp]) -> SSAValue:
    """kind(lhs, rhs) in the result's dtype; of integers no divisor of an element may be 0."""
    dtype, sizes = builder.result_dtype, builder.result_sizes
    divisor = builder.operand(rhs, dtype)
    if dtype.is_integer and not (_is_size(builder, rhs, dtype) or _is_never_zero(builder, divisor)):
        _require_divisors(builder, divisor, sizes)
    dividend = builder.broadcast(builder.operand(lhs, dtype, sizes), sizes)
    return builder.emit(kind, dividend, builder.broadcast(divisor, sizes))


def _is_size(builder: GraphBuilder, rhs: Value, dtype: DType) -> bool:
    """Whether the divisor is a size that is not 0 where the result has elements; that it does not wrap to 0 is required then."""
    if not isinstance(rhs, Size):
        return False
    if rhs not in builder.result_sizes and builder.facts.prove(rhs.ge(1)) is not True:
        return False
    if dtype.bytes < I64.bytes:
        builder.require((rhs % 2 ** (8 * dtype.bytes) - size_min(rhs, 1)).ge(0), "division by zero")
    return True


def _is_never_zero(builder: GraphBuilder, divisor: SSAValue) -> bool:
    """Whether it is known when compiling that no element is 0."""
    number, op = _constant(divisor), divisor.owner
    if number is not None:
        return number != 0
    match op:
        case BroadcastInDim() | Reshape():
            return _is_never_zero(builder, op.operands[0])
        case Convert():
            source, target = dtype_of(op.operands[0].type), dtype_of(divisor.type)
            keeps = source.is_integer and source.bytes <= target.bytes  # a wider one may wrap to 0
            return keeps and _is_never_zero(builder, op.operands[0])
        case Maximum():
            return any(map(_is_positive, op.operands))
        case Clamp():
            low, _, high = op.operands
            return _is_positive(low) and _is_positive(high)
        case Weight():
            name = op.attribute("name")
            return not builder.store.is_live(name) and bool(np.all(builder.store[name] != 0))
        case _:
            return False


def _is_positive(value: SSAValue) -> bool:
    number = _constant(value)
    return number is not None and number > 0


def _constant(value: SSAValue) -> int | None:
    """The integer that every element is, as it is held in its dtype."""
    number = constant_value(value)
    return None if number is None else int(np.asarray(number).astype(dtype_of(value.type).numpy))


def _require_divisors(builder: GraphBuilder, divisor: SSAValue, sizes: Sequence[Size]) -> None:
    """The call raises GuardError where an element of `divisor` is 0 and the result, of these sizes, has elements."""
    own, dtype = sizes_of(divisor.type), dtype_of(divisor.type)
    wrong = builder.emit(Compare, divisor, builder.constant(0, dtype, own), direction="eq")
    zeros = builder.convert(wrong, I64)
    if own:
        zeros = builder.emit(Reduce, builder.reshape(zeros, (numel(own),)), axes=(0,), kind="sum")
    if numel(own) != numel(sizes):  # it is repeated, perhaps no times
        zeros = builder.emit(Multiply, zeros, builder.emit(SizeOf, size=size_min(numel(sizes), 1)))
    builder.emit(
        Check,
        zeros,
        zeros,
        error="guard",
        message="ZeroDivisionError: integers are divided by 0",
        got=f"{PLACE} zeros among the divisors",
        expected="none",
        remedy="divide floats, or take another divisor where it is 0 (torch.where)",
    )


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def lower_div_mode(builder: GraphBuilder, lhs: Value, rhs: Value, rounding_mode: str | None = None) -> SSAValue:
    """lhs / rhs, rounded down, towards 0, or not at all"""
    if rounding_mode == "floor":
        return divided(builder, lhs, rhs, FloorDivide)
    quotient = divided(builder, lhs, rhs, Divide)
    return builder.emit(Trunc, quotient) if rounding_mode is not None and builder.result_dtype.is_float else quotient


@lowers("aten.floor_divide.Scalar")
def lower_floor_divide(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    """⌊lhs / rhs⌋"""
    return divided(builder, lhs, rhs, FloorDivide)


@lowers("aten.remainder.Scalar_Tensor")
def lower_remainder_of_number(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    """lhs − rhs·⌊lhs / rhs⌋"""
    return divided(builder, lhs, rhs, Modulo)


DIVISIONS: Mapping[type[DhloOp], Lowering] = {
    kind: partial(divided, kind=kind) for kind in (FloorDivide, Modulo, Remainder)
}
"""How the overloads are lowered that these ops name in their headers."""


__all__ = ["DIVISIONS", "divided"]
