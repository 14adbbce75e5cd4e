"""The scalar ops of plans, `arith` and `math`, on scalars or vectors of machine values.

f16 and bf16 are f32 here (see the package's page), and `index` is i64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from anyshape.codegen.vector_math import VECTOR_MATH
from anyshape.support.errors import CodegenError

Emitter = Callable[..., Value]
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def memory_type(b: Builder, element: Attribute) -> Type:
    """The type of an element in memory: a byte for i1, i64 for an index."""
    if isinstance(element, IntegerType):
        return b.i8 if element.width.data == 1 else b.type(f"i{element.width.data}")
    return b.i64 if isinstance(element, IndexType) else b.type(str(element))


def compute_type(b: Builder, element: Attribute) -> Type:
    """The type in which values of an element type are computed: f32 for f16 and bf16, i64 for an index."""
    if isinstance(element, Float16Type | BFloat16Type):
        return b.f32
    return b.i64 if isinstance(element, IndexType) else b.type(str(element))


def value_bits(element: Attribute) -> int:
    """Bits of a lane that computes with this element type; 0 for i1 and indices, which follow the others."""
    if isinstance(element, IntegerType):
        return element.width.data if element.width.data > 1 else 0
    if isinstance(element, AnyFloat):
        return max(32, element.bitwidth)
    return 0


def round_to(b: Builder, value: Value, element: Attribute) -> Value:
    """A computed value rounded to what the element type can hold, in the type in which it is computed."""
    if isinstance(element, Float16Type | BFloat16Type):
        return b.convert(b.convert(value, b.type(str(element))), b.f32)
    return value


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
    special = _special(op)
    if special is not None:
        return special
    if op.name in _DIVISIONS:
        return lambda b, x, y: _DIVISIONS[op.name](b, x, _safe_divisor(b, y, mask))
    found = _ARITH.get(op.name) or VECTOR_MATH.get(op.name)
    if found is None:
        raise CodegenError("no machine code is known for an op of a plan", got=op.name, expected="an arith or math op")
    return found


def _safe_divisor(b: Builder, divisor: Value, mask: Value | None) -> Value:
    """Lanes that do not exist hold zeros, and an integer division by zero traps."""
    return divisor if mask is None or b.width(divisor) is None else b.select(mask, divisor, 1)


def _special(op: Operation) -> Emitter | None:
    """Ops whose code depends on their attributes or types."""
    if isinstance(op, arith.CmpfOp):
        predicate = _FLOAT_PREDICATES[op.predicate.value.data]
        return lambda b, x, y: b.cmp(predicate, x, y)
    if isinstance(op, arith.CmpiOp):
        predicate = _INTEGER_PREDICATES[op.predicate.value.data]
        return lambda b, x, y: b.cmp(predicate, x, y)
    if isinstance(op, arith.MaximumfOp | arith.MinimumfOp):
        return _extremum(op)
    if op.name in _CONVERSIONS:
        signed = _CONVERSIONS[op.name]
        target = op.results[0].type
        if op.name == "arith.truncf":
            return lambda b, x: round_to(b, b.convert(x, compute_type(b, target)), target)
        return lambda b, x: _convert(b, x, compute_type(b, target), signed)
    return None


def _extremum(op: arith.MaximumfOp | arith.MinimumfOp) -> Emitter:
    """NaN if either is NaN, in one or two machine instructions for each comparison.

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
    if not isinstance(owner, arith.ConstantOp):
        return False
    number = constant_number(owner)
    return number == number


def _convert(b: Builder, x: Value, target: Type, signed: bool) -> Value:
    return b.convert(x, target, signed=signed)


def _signless(operation: Callable[..., Value], *, signed: bool) -> Emitter:
    return lambda b, x, y: operation(b, x, y, signed=signed)


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

HEAVY = frozenset(name for name in VECTOR_MATH if name.removeprefix("math.") in
                  {"cos", "erf", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "powf", "sin", "tanh"})  # fmt: skip
"""Ops of many instructions and constants: a body with them is unrolled less."""

