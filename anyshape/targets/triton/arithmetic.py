"""Scalar `arith` and `math` ops in Triton, whose operators take blocks as they take scalars.

f32 division and square root are the correctly rounded ones; `/` and `tl.sqrt` would be approximate.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation

from anyshape.support.errors import CodegenError
from anyshape.targets.triton.syntax import binary, call, compare, dotted, negated, number, tuple_of

_FLOATS: dict[type[Attribute], tuple[str, str]] = {
    Float16Type: ("float16", "fp16"),
    BFloat16Type: ("bfloat16", "bf16"),
    Float32Type: ("float32", "fp32"),
    Float64Type: ("float64", "fp64"),
}

_OPERATORS: dict[type[Operation], str] = {
    arith.AddfOp: "+",
    arith.AddiOp: "+",
    arith.SubfOp: "-",
    arith.SubiOp: "-",
    arith.MulfOp: "*",
    arith.MuliOp: "*",
    arith.DivSIOp: "//",
    arith.RemSIOp: "%",
    arith.AndIOp: "&",
    arith.OrIOp: "|",
    arith.XOrIOp: "^",
    arith.ShLIOp: "<<",
    arith.ShRSIOp: ">>",
}
_UNSIGNED_OPERATORS: dict[type[Operation], str] = {arith.DivUIOp: "//", arith.RemUIOp: "%", arith.ShRUIOp: ">>"}
_UNSIGNED_EXTREMES: dict[type[Operation], str] = {arith.MaxUIOp: "tl.maximum", arith.MinUIOp: "tl.minimum"}

_FUNCTIONS: dict[type[Operation], str] = {
    arith.SelectOp: "tl.where",
    arith.MaxSIOp: "tl.maximum",
    arith.MinSIOp: "tl.minimum",
    math.AbsFOp: "tl.abs",
    math.CeilOp: "tl.ceil",
    math.CosOp: "tl.cos",
    math.ErfOp: "tl.erf",
    math.ExpOp: "tl.exp",
    math.Exp2Op: "tl.exp2",
    math.FloorOp: "tl.floor",
    math.FmaOp: "tl.fma",
    math.LogOp: "tl.log",
    math.RsqrtOp: "tl.rsqrt",
    math.SinOp: "tl.sin",
}
_EXTREMES: dict[type[Operation], str] = {arith.MaximumfOp: "tl.maximum", arith.MinimumfOp: "tl.minimum"}

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLOAT_PREDICATES = ("oeq", "ogt", "oge", "olt", "ole", "une")
"""Triton compares ordered, except `!=`."""

_CASTS = (arith.ExtFOp, arith.TruncFOp, arith.TruncIOp, arith.FPToSIOp, arith.IndexCastOp)
_SIGNED_CASTS = (arith.ExtSIOp, arith.SIToFPOp)
_UNSIGNED_CASTS = (arith.ExtUIOp, arith.UIToFPOp)


def _names(type: Attribute) -> tuple[str, str]:
    """A scalar type's name under `tl.`, and in signatures."""
    if isinstance(type, IndexType):
        return "int64", "i64"
    for bits in (1, 8, 16, 32, 64):
        if type == IntegerType(bits):
            return f"int{bits}", f"i{bits}"
    for kind, names in _FLOATS.items():
        if isinstance(type, kind):
            return names
    raise CodegenError(
        "Triton has no such element type", got=type, expected="f16, bf16, f32, f64, i1, i8 to i64, index"
    )


def dtype(type: Attribute) -> ast.expr:
    """`tl.float32` for f32, and so on; an index is an i64."""
    return dotted(f"tl.{_names(type)[0]}")


def signature_of(type: Attribute) -> str:
    """The type as Triton's signatures spell it."""
    return _names(type)[1]


def cast(value: ast.expr, type: Attribute) -> ast.expr:
    return call("tl.cast", value, dtype(type))


def constant(value: bool | int | float, type: Attribute) -> ast.expr:
    """A typed scalar; an index stays a literal."""
    if isinstance(type, IndexType):
        return number(int(value))
    if isinstance(type, Float32Type):
        value = float(np.float32(value))  # the text does not depend on how the plan spelled the number
    return call("tl.full", tuple_of(), number(value), dtype(type))


def extreme(function: str, lhs: ast.expr, rhs: ast.expr) -> ast.expr:
    """`tl.maximum` or `tl.minimum` of floats, NaN where one of them is."""
    return call(function, lhs, rhs, propagate_nan=dotted("tl.PropagateNan.ALL"))


def _as_unsigned(value: ast.expr, type: Attribute) -> ast.expr:
    """The bits of a signless integer read as unsigned; Triton's int1 is unsigned already."""
    if type == IntegerType(1):
        return value
    return call("tl.cast", value, dotted(f"tl.u{_names(type)[0]}"))


def _constant_of(op: arith.ConstantOp) -> ast.expr:
    value = op.value
    if not isinstance(value, IntegerAttr | FloatAttr):
        raise CodegenError("a constant is no scalar", where=op.name, got=value, expected="an integer or a float")
    data = value.value.data
    return constant(bool(data) if value.type == IntegerType(1) else data, value.type)


def _comparison(op: arith.CmpiOp | arith.CmpfOp, lhs: ast.expr, rhs: ast.expr) -> ast.expr:
    code, type = op.predicate.value.data, op.operands[0].type
    if isinstance(op, arith.CmpiOp):
        predicate = arith.CMPI_COMPARISON_OPERATIONS[code]
        if predicate.startswith("u"):
            lhs, rhs = _as_unsigned(lhs, type), _as_unsigned(rhs, type)
        return compare(_COMPARISONS[predicate[-2:]], lhs, rhs)
    predicate = arith.CMPF_COMPARISON_OPERATIONS[code]
    if predicate == "uno":
        return binary("|", compare("!=", lhs, lhs), compare("!=", rhs, rhs))
    if predicate not in _FLOAT_PREDICATES:
        raise _refused(op, "ordered comparisons, `une` and `uno`")
    return compare(_COMPARISONS[predicate[-2:]], lhs, rhs)


def _refused(op: Operation, expected: str) -> CodegenError:
    return CodegenError("an op has no emission for Triton", where=op.name, got=op, expected=expected)


def _division(op: Operation, operands: Sequence[ast.expr]) -> ast.expr:
    is_f32 = isinstance(op.results[0].type, Float32Type)
    return call("tl.div_rn", *operands) if is_f32 else binary("/", *operands)


def _square_root(op: Operation, operands: Sequence[ast.expr]) -> ast.expr:
    is_f32 = isinstance(op.results[0].type, Float32Type)
    return call("tl.sqrt_rn" if is_f32 else "tl.sqrt", *operands)


def _converted(op: Operation, value: ast.expr) -> ast.expr:
    source, target = op.operands[0].type, op.results[0].type
    if isinstance(op, _UNSIGNED_CASTS):
        return cast(_as_unsigned(value, source), target)
    if isinstance(op, arith.TruncIOp) and target == IntegerType(1):
        return cast(binary("&", value, number(1)), target)
    if isinstance(op, _SIGNED_CASTS) and source == IntegerType(1):
        return negated(cast(value, target))  # the only bit of a signed i1 is its sign
    return cast(value, target)


def _bits_as(op: Operation, operands: Sequence[ast.expr]) -> ast.expr:
    return call("tl.cast", *operands, dtype(op.results[0].type), bitcast=number(True))


_OTHERS: dict[type[Operation], Callable[[Operation, Sequence[ast.expr]], ast.expr]] = {
    arith.BitcastOp: _bits_as,
    arith.DivfOp: _division,
    math.SqrtOp: _square_root,
}


def scalar_expression(op: Operation, operands: Sequence[ast.expr]) -> ast.expr:
    """The value of one scalar op; CodegenError for an op without an emission."""
    kind, result = type(op), op.results[0].type
    if kind in _OPERATORS:
        return binary(_OPERATORS[kind], *operands)
    if kind in _FUNCTIONS:
        return call(_FUNCTIONS[kind], *operands)
    if kind in _EXTREMES:
        return extreme(_EXTREMES[kind], *operands)
    if kind in _OTHERS:
        return _OTHERS[kind](op, operands)
    if kind in _UNSIGNED_OPERATORS:
        return cast(binary(_UNSIGNED_OPERATORS[kind], *(_as_unsigned(each, result) for each in operands)), result)
    if kind in _UNSIGNED_EXTREMES:
        return cast(call(_UNSIGNED_EXTREMES[kind], *(_as_unsigned(each, result) for each in operands)), result)
    match op:
        case arith.ConstantOp():
            return _constant_of(op)
        case arith.CmpiOp() | arith.CmpfOp():
            return _comparison(op, *operands)
        case arith.NegfOp():
            return negated(*operands)
        case _ if isinstance(op, _CASTS + _SIGNED_CASTS + _UNSIGNED_CASTS):
            return _converted(op, *operands)
        case _:
            raise _refused(op, "one of arith's and math's ops that Triton's language has")


__all__ = ["cast", "constant", "dtype", "extreme", "scalar_expression", "signature_of"]
