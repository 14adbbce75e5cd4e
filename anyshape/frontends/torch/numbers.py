"""Numbers as tensors of rank 0: floats that are computed from sizes, and what is computed from numbers that the data say."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import sympy
import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._sympy import functions as symbolic
from torch.utils._sympy.symbol import SymT, symbol_is_type
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    And,
    Ceil,
    Compare,
    Divide,
    Exponential,
    Floor,
    FloorDivide,
    Log,
    Maximum,
    Minimum,
    Modulo,
    Multiply,
    Negate,
    Not,
    Or,
    Power,
    RoundNearestEven,
    Select,
    SizeOf,
    Sqrt,
    Subtract,
    Trunc,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dtypes import BOOL, F64, I64, DType
from anyshape.dialects.sizes import dtype_of
from anyshape.frontends.torch.builder import GraphBuilder, Value
from anyshape.frontends.torch.checks import require_none
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

_OPS: Mapping[type[sympy.Basic], type[DhloOp]] = {
    sympy.Add: Add,
    sympy.Mul: Multiply,
    symbolic.FloatPow: Power,
    symbolic.FloatTrueDiv: Divide,
    symbolic.IntTrueDiv: Divide,
    symbolic.OpaqueUnaryFn_exp: Exponential,
    symbolic.OpaqueUnaryFn_log: Log,
    symbolic.OpaqueUnaryFn_sqrt: Sqrt,
    sympy.Abs: Abs,
}
"""Functions of numbers; those of several arguments associate."""


def number(builder: GraphBuilder, expression: sympy.Basic) -> SSAValue:
    """The value of a sympy expression over sizes as an f64 of rank 0: Python computes such numbers in f64 too."""
    if isinstance(expression, sympy.Number):
        return builder.constant(float(expression), F64)
    if isinstance(expression, symbolic.ToFloat):
        return number(builder, expression.args[0])
    if expression.is_integer:
        return builder.convert(builder.emit(SizeOf, size=builder.names.expression(expression)), F64)
    kind = next((kind for function, kind in _OPS.items() if isinstance(expression, function)), None)
    if kind is None:
        raise Unsupported(
            f"the number {expression} is computed from sizes by {type(expression).__name__}, or from data"
        )
    operands = [number(builder, argument) for argument in expression.args]
    if kind is Power and expression.args[1] == 0.5:
        return builder.emit(Sqrt, operands[0])
    if len(operands) == 1:
        return builder.emit(kind, operands[0])
    return reduce(lambda total, operand: builder.emit(kind, total, operand), operands)


_OF_DATA: Mapping[Callable[..., Any], type[DhloOp]] = {
    abs: Abs,
    operator.add: Add,
    operator.and_: And,
    operator.floordiv: FloorDivide,
    operator.mod: Modulo,
    operator.mul: Multiply,
    operator.neg: Negate,
    operator.or_: Or,
    operator.pow: Power,
    operator.sub: Subtract,
    operator.truediv: Divide,
    torch.sym_max: Maximum,
    torch.sym_min: Minimum,
    torch.sym_not: Not,
}
"""Python's arithmetic on numbers: bools in bool, integers in i64, floats in f64."""
_ROUNDINGS: Mapping[Callable[..., Any], type[DhloOp]] = {
    math.ceil: Ceil,
    math.floor: Floor,
    math.trunc: Trunc,
    round: RoundNearestEven,
}
"""Python's integers of floats."""
DIVISIONS = frozenset({operator.floordiv, operator.mod, operator.truediv})
_COMPARISONS: Mapping[Callable[..., Any], str] = {
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
}  # fmt: skip


def number_of_data(builder: GraphBuilder, *operands: Value) -> SSAValue:
    """What the node computes from numbers of which the data say some."""
    target: Any = builder.node.target
    dtype = _dtype_of_number(builder.node.meta["val"])
    if target is torch.sym_ite:
        condition, *sides = operands
        chosen = [builder.operand(side, dtype) for side in sides]
        return builder.emit(Select, builder.operand(condition, BOOL), *chosen)
    if target in _COMPARISONS:
        kinds = {_dtype_of_operand(operand) for operand in operands}
        common = next(kind for kind in (F64, I64, BOOL) if kind in kinds)
        numbers = [builder.operand(operand, common) for operand in operands]
        return builder.emit(Compare, *numbers, direction=_COMPARISONS[target])
    if target is torch.sym_float:
        return builder.operand(operands[0], F64)
    if target in _ROUNDINGS and _is_python_s(builder.node):
        return builder.convert(builder.emit(_ROUNDINGS[target], builder.operand(operands[0], F64)), dtype)
    if target not in _OF_DATA:
        name = getattr(target, "__name__", target)
        raise Unsupported(f"`{name}` of a number that is computed from the data, or from floats")
    if target in DIVISIONS:
        require_divisor(builder, operands[-1])
    if _is_root(builder.node):
        return builder.emit(Sqrt, builder.operand(operands[0], F64))
    return builder.emit(_OF_DATA[target], *(builder.operand(operand, dtype) for operand in operands))


def _is_python_s(rounding: fx.Node) -> bool:
    """Whether an integer rounded from a float is Python's: of a float of the data it is not, as those may be infinite."""
    (number, *digits), value = rounding.args, rounding.meta["val"]
    of_sizes = isinstance(value, torch.SymInt) and not depends_on_data(value)
    return of_sizes and not digits and _is_reproducible(number)


def _is_reproducible(value: Any) -> bool:
    """Whether a number is Python's to the last bit, as its rounding to an integer has to be: IEEE 754 says so of these ops."""
    if not isinstance(value, fx.Node):
        return True
    if value.op == "call_function" and not isinstance(value.target, OpOverload):
        is_rounded_once = value.target in _ROUNDED_ONCE or _is_root(value)
        return is_rounded_once and all(map(_is_reproducible, value.args))
    return True


def _is_root(node: fx.Node) -> bool:
    return node.target is operator.pow and isinstance(node.args[1], float) and node.args[1] == 0.5


_ROUNDED_ONCE = frozenset(
    {abs, operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.floordiv, operator.mod}
    | {torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_ite, torch.sym_not, *_ROUNDINGS, *_COMPARISONS}
)


def depends_on_data(value: torch.SymInt) -> bool:
    """Whether an integer of PyTorch's is computed from a symbol that is no size of an input."""
    symbols: Any = value.node.expr.free_symbols
    return any(not symbol_is_type(symbol, SymT.SIZE) for symbol in symbols)


def require_divisor(builder: GraphBuilder, divisor: Value) -> None:
    """A call raises GuardError where the divisor is 0, of a float too: Python's numbers have no infinity for it."""
    if isinstance(divisor, SSAValue):
        zero = builder.constant(0, dtype_of(divisor.type))
        require_none(builder, builder.emit(Compare, divisor, zero, direction="eq"), "division_by_zero")
    elif isinstance(divisor, Size):
        builder.require(divisor.ne(0), "division by zero")


def _dtype_of_number(value: Any) -> DType:
    return (
        F64 if isinstance(value, float | torch.SymFloat) else BOOL if isinstance(value, bool | torch.SymBool) else I64
    )


def _dtype_of_operand(operand: Value) -> DType:
    """Of a tensor without axes that has the value of a number, or of a number."""
    if not isinstance(operand, SSAValue):
        return _dtype_of_number(operand)
    dtype = dtype_of(operand.type)
    return F64 if dtype.is_float else BOOL if dtype.is_bool else I64
