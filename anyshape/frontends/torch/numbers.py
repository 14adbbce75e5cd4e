"""Floating point numbers that are computed from sizes, as tensors of rank 0."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import sympy
from torch.utils._sympy import functions as symbolic
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Divide, Exponential, Log, Multiply, Power, SizeOf, Sqrt
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dtypes import F64
from anyshape.frontends.torch.builder import GraphBuilder
from anyshape.frontends.torch.unsupported import Unsupported

_OPS: Mapping[type[sympy.Basic], type[DhloOp]] = {
    sympy.Add: Add,
    sympy.Mul: Multiply,
    symbolic.FloatPow: Power,
    symbolic.FloatTrueDiv: Divide,
    symbolic.IntTrueDiv: Divide,
    symbolic.OpaqueUnaryFn_exp: Exponential,
    symbolic.OpaqueUnaryFn_log: Log,
    symbolic.OpaqueUnaryFn_sqrt: Sqrt,
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
    if len(operands) == 1:
        return builder.emit(kind, operands[0])
    return reduce(lambda total, operand: builder.emit(kind, total, operand), operands)
