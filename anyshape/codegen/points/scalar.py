"""The scalar ops of plans, `arith` and `math`, on scalars or vectors of machine values.

f16 and bf16 are f32 here (see the package's page), and `index` is i64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.points.narrow import round_to, widen
from anyshape.codegen.vector_math import VECTOR_MATH
from anyshape.support.errors import CodegenError

Emitter = Callable[..., Value]


@cache
def _name(element: Attribute) -> str:
    return str(element)


def memory_type(b: Builder, element: Attribute) -> Type:
    """The type of an element in memory: a byte for i1, i16 for the bits of bf16, i64 for an index."""
    if isinstance(element, IntegerType):
        return b.i8 if element.bitwidth == 1 else b.type(f"i{element.bitwidth}")
    if isinstance(element, BFloat16Type):
        return b.i16
    return b.i64 if isinstance(element, IndexType) else b.type(_name(element))


def compute_type(b: Builder, element: Attribute) -> Type:
    """The type in which values of an element type are computed: f32 for f16 and bf16, i64 for an index."""
    if isinstance(element, Float16Type | BFloat16Type):
        return b.f32
    return b.i64 if isinstance(element, IndexType) else b.type(_name(element))


def value_bits(element: Attribute) -> int:
    """Bits of a lane that computes with this element type; 0 for i1 and indices, which follow the others."""
    if isinstance(element, IntegerType):
        return element.bitwidth if element.bitwidth > 1 else 0
    if isinstance(element, AnyFloat):
        return max(32, element.bitwidth)
    return 0


def constant_number(op: arith.ConstantOp) -> int | float:
    """The number of a scalar constant."""
    attribute = op.value
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return attribute.value.data
    raise CodegenError("a plan holds a constant that is no scalar", got=attribute, expected="an integer or a float")


def emitter_of(op: Operation, mask: Value | None) -> Emitter:
    """The function `(builder, *operands) -> value` of a scalar op; lanes outside `mask` may hold anything, zeros too.

    CodegenError for an op that plans do not have.
    """
    if isinstance(op, arith.CmpfOp):
        return _comparison(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data])
    if isinstance(op, arith.CmpiOp):
        return _comparison(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data])
    if isinstance(op, arith.MaximumfOp | arith.MinimumfOp):
        return _extremum(op)
    if isinstance(op, arith.BitcastOp):
        return _bitcast(op)
    if op.name in _CONVERSIONS:
        return _conversion(op, signed=_CONVERSIONS[op.name])
    if op.name in _DIVISIONS:
        return _division(_DIVISIONS[op.name], mask)
    found = _ARITH.get(op.name) or VECTOR_MATH.get(op.name)
    if found is None:
        raise CodegenError("no machine code is known for an op of a plan", got=op.name, expected="an arith or math op")
    return found


def _comparison(predicate: str) -> Emitter:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        return b.cmp(predicate, x, y)

    return emit


def _division(operation: Emitter, mask: Value | None) -> Emitter:
    """Lanes that do not exist hold zeros, and an integer division by zero traps."""

    def emit(b: Builder, x: Value, y: Value) -> Value:
        return operation(b, x, y if mask is None or b.width(y) is None else b.select(mask, y, 1))

    return emit


def _bitcast(op: arith.BitcastOp) -> Emitter:
    """Bits that are taken for a float: narrow ones are widened at once."""
    target = op.result.type

    def emit(b: Builder, x: Value) -> Value:
        return widen(b, x if isinstance(target, BFloat16Type) else b.bitcast(x, memory_type(b, target)), target)

    return emit


def _conversion(op: Operation, *, signed: bool) -> Emitter:
    source, target = op.operands[0].type, op.results[0].type
    # The only bit of a signed i1 is its sign.
    negate = signed and source == IntegerType(1)

    def emit(b: Builder, x: Value) -> Value:
        value = b.convert(x, compute_type(b, target), signed=signed)
        if op.name == "arith.truncf":
            return round_to(b, value, target)
        return b.neg(value) if negate else value

    return emit


def _extremum(op: arith.MaximumfOp | arith.MinimumfOp) -> Emitter:
    """NaN if either is NaN, in one instruction beside a number, else in three.

    `select(y > x, y, x)` is x where a NaN is compared. With a y that is no NaN that is all; else a NaN y must win.
    """
    predicate = "ogt" if isinstance(op, arith.MaximumfOp) else "olt"
    first, second = (_is_number(operand.owner) for operand in op.operands)

    def emit(b: Builder, x: Value, y: Value) -> Value:
        if first and not second:
            x, y = y, x
        chosen = b.select(b.cmp(predicate, y, x), y, x)
        return chosen if first or second else b.select(b.is_nan(y), y, chosen)

    return emit


def _is_number(owner: object) -> bool:
    """True for a constant that is not NaN."""
    return isinstance(owner, arith.ConstantOp) and not math.isnan(constant_number(owner))


def _signless(operation: Callable[..., Value], *, signed: bool) -> Emitter:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        return operation(b, x, y, signed=signed)

    return emit


_CONVERSIONS: Mapping[str, bool] = MappingProxyType(
    {
        "arith.extf": True,
        "arith.truncf": True,
        "arith.extsi": True,
        "arith.extui": False,
        "arith.trunci": True,
        "arith.sitofp": True,
        "arith.uitofp": False,
        "arith.fptosi": True,
        "arith.fptoui": False,
        "arith.index_cast": True,
        "arith.index_castui": False,
    }
)
"""Conversions, and whether they read their integer as signed."""

_DIVISIONS: Mapping[str, Emitter] = MappingProxyType(
    {
        "arith.divsi": _signless(Builder.div, signed=True),
        "arith.divui": _signless(Builder.div, signed=False),
        "arith.remsi": _signless(Builder.rem, signed=True),
        "arith.remui": _signless(Builder.rem, signed=False),
    }
)

_ARITH: Mapping[str, Emitter] = MappingProxyType(
    {
        "arith.addf": Builder.add,
        "arith.addi": Builder.add,
        "arith.subf": Builder.sub,
        "arith.subi": Builder.sub,
        "arith.mulf": Builder.mul,
        "arith.muli": Builder.mul,
        "arith.divf": Builder.div,
        "arith.remf": Builder.rem,
        "arith.negf": Builder.neg,
        "arith.maxsi": Builder.maximum,
        "arith.minsi": Builder.minimum,
        "arith.maxui": _signless(Builder.maximum, signed=False),
        "arith.minui": _signless(Builder.minimum, signed=False),
        "arith.andi": Builder.and_,
        "arith.ori": Builder.or_,
        "arith.xori": Builder.xor,
        "arith.shli": Builder.shl,
        "arith.shrsi": Builder.sar,
        "arith.shrui": Builder.shr,
        "arith.select": Builder.select,
    }
)

_LIGHT = {"absf", "ceil", "copysign", "floor", "fma", "roundeven", "rsqrt", "sqrt", "trunc"}
HEAVY = frozenset(name for name in VECTOR_MATH if name.removeprefix("math.") not in _LIGHT)
"""Ops of many instructions and constants: a body with them is unrolled less."""
