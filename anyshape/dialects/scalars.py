"""Scalar arithmetic as upstream `arith` and `math` ops: what an element of a result is written with.

Op classes append these through `Scalars` and never choose a vector width; an emitter later widens the very same ops.
Values are signless as MLIR wants them, so whoever asks says whether integers are unsigned.
"""

from __future__ import annotations

import math as pymath
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, Float32Type, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from anyshape.dialects.arith_extra import RemFOp
from anyshape.dialects.dtypes import DType

Comparison: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]

_FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}

INDEX = IndexType()
_F32 = Float32Type()
I1 = IntegerType(1)


def is_float(value: SSAValue) -> bool:
    return isinstance(value.type, AnyFloat)


def _bits(type: Attribute) -> int:
    if isinstance(type, IntegerType):
        return type.bitwidth
    if isinstance(type, AnyFloat):
        return type.bitwidth
    raise TypeError(f"{type} has no bit width")


@dataclass(frozen=True, slots=True)
class Scalars:
    """Appends scalar ops at a builder's insertion point and returns their results."""

    builder: Builder

    FUNCTIONS: ClassVar[dict[str, type[Operation]]] = {
        "abs": math.AbsFOp,
        "acos": math.AcosOp,
        "acosh": math.AcoshOp,
        "asin": math.AsinOp,
        "asinh": math.AsinhOp,
        "atan": math.AtanOp,
        "atanh": math.AtanhOp,
        "ceil": math.CeilOp,
        "cos": math.CosOp,
        "cosh": math.CoshOp,
        "erf": math.ErfOp,
        "exp": math.ExpOp,
        "exp2": math.Exp2Op,
        "expm1": math.ExpM1Op,
        "floor": math.FloorOp,
        "log": math.LogOp,
        "log10": math.Log10Op,
        "log1p": math.Log1pOp,
        "log2": math.Log2Op,
        "roundeven": math.RoundEvenOp,
        "rsqrt": math.RsqrtOp,
        "sin": math.SinOp,
        "sinh": math.SinhOp,
        "sqrt": math.SqrtOp,
        "tan": math.TanOp,
        "tanh": math.TanhOp,
        "trunc": math.TruncOp,
    }

    def _append(self, op: Operation) -> SSAValue:
        self.builder.insert(op)
        return op.results[0]

    def constant(self, value: float | int | bool, type: Attribute) -> SSAValue:
        """A scalar constant of an integer, index or float type."""
        if isinstance(type, AnyFloat):
            return self._append(arith.ConstantOp(FloatAttr(float(value), type)))
        assert isinstance(type, IntegerType | IndexType)
        integer = cast("IntegerType | IndexType", type)
        return self._append(arith.ConstantOp(IntegerAttr(int(value), integer, truncate_bits=True)))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a + b; integers wrap; a bool sum is a disjunction."""
        if a.type == I1:
            return self.logical_or(a, b)
        return self._append(arith.AddfOp(a, b) if is_float(a) else arith.AddiOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.SubfOp(a, b) if is_float(a) else arith.SubiOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a · b; integers wrap; a bool product is a conjunction."""
        if a.type == I1:
            return self.logical_and(a, b)
        return self._append(arith.MulfOp(a, b) if is_float(a) else arith.MuliOp(a, b))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a / b of floats."""
        return self._append(arith.DivfOp(a, b))

    def trunc_div(self, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """Integer quotient rounded to zero. The divisor must be neither 0 nor, signed, −1 beside the minimum."""
        return self._append(arith.DivUIOp(a, b) if unsigned else arith.DivSIOp(a, b))

    def trunc_rem(self, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """Integer remainder with the dividend's sign; same condition as `trunc_div`."""
        return self._append(arith.RemUIOp(a, b) if unsigned else arith.RemSIOp(a, b))

    def rem(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a − b · trunc(a / b) of floats, exact: C's fmod."""
        return self._append(RemFOp(a, b))

    def neg(self, a: SSAValue) -> SSAValue:
        if is_float(a):
            return self._append(arith.NegfOp(a))
        return self.sub(self.constant(0, a.type), a)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a · b + c, rounded once."""
        return self._append(math.FmaOp(a, b, c))

    def function(self, name: str, a: SSAValue) -> SSAValue:
        """One of `FUNCTIONS` of a float."""
        return self._append(self.FUNCTIONS[name](a))  # pyright: ignore[reportCallIssue]

    def pow(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(math.PowFOp(a, b))

    def atan2(self, y: SSAValue, x: SSAValue) -> SSAValue:
        """The angle of the point (x, y), in [−π, π]."""
        return self._append(math.Atan2Op(y, x))

    def copysign(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """|a| with the sign of b, that of zeros and NaNs too."""
        return self._append(math.CopySignOp(a, b))

    def compare(self, how: Comparison, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """a ∘ b as i1. Floats compare ordered (false with NaN) except `ne`, which is true with NaN, as IEEE 754 says."""
        if is_float(a):
            return self._append(arith.CmpfOp(a, b, _FLOAT_PREDICATES[how]))
        table = _UNSIGNED_PREDICATES if unsigned or a.type == I1 else _SIGNED_PREDICATES
        return self._append(arith.CmpiOp(a, b, table[how]))

    def is_nan(self, a: SSAValue) -> SSAValue:
        return self._append(arith.CmpfOp(a, a, "uno"))

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        return self._append(arith.SelectOp(condition, if_true, if_false))

    def maximum(self, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """max(a, b); NaN when either is NaN."""
        if is_float(a):
            return self._append(arith.MaximumfOp(a, b))
        return self._append(arith.MaxUIOp(a, b) if unsigned or a.type == I1 else arith.MaxSIOp(a, b))

    def minimum(self, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """min(a, b); NaN when either is NaN."""
        if is_float(a):
            return self._append(arith.MinimumfOp(a, b))
        return self._append(arith.MinUIOp(a, b) if unsigned or a.type == I1 else arith.MinSIOp(a, b))

    def logical_and(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Bitwise and of integers; conjunction of bools."""
        return self._append(arith.AndIOp(a, b))

    def logical_or(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.OrIOp(a, b))

    def logical_xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.XOrIOp(a, b))

    def logical_not(self, a: SSAValue) -> SSAValue:
        """Bitwise complement of integers; negation of bools."""
        return self.logical_xor(a, self.constant(1 if a.type == I1 else -1, a.type))

    def shift_left(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.ShLIOp(a, b))

    def shift_right(self, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> SSAValue:
        return self._append(arith.ShRUIOp(a, b) if unsigned else arith.ShRSIOp(a, b))

    def to_index(self, a: SSAValue) -> SSAValue:
        """A signed integer as an index."""
        return a if a.type == INDEX else self._append(arith.IndexCastOp(a, INDEX))

    def position_of(self, index: SSAValue, real: DType) -> SSAValue:
        """An index as a float. For f32, whose positions are exact up to 2²⁴, by way of i32: lanes stay as narrow as the float's."""
        narrow = IntegerType(8 * real.bytes)
        return self._append(arith.SIToFPOp(self.from_index(index, narrow), cast("AnyFloat", real.scalar)))

    def index_at(self, position: SSAValue, real: DType) -> SSAValue:
        """A float rounded towards zero as an index: the inverse of `position_of`."""
        return self.to_index(self._append(arith.FPToSIOp(position, IntegerType(8 * real.bytes))))

    def from_index(self, a: SSAValue, type: Attribute) -> SSAValue:
        return self._append(arith.IndexCastOp(a, type))

    def bitcast(self, a: SSAValue, target: DType) -> SSAValue:
        """The same bits as a value of another type of as many bits."""
        return self._append(arith.BitcastOp(a, target.scalar))

    def convert(self, a: SSAValue, source: DType, target: DType) -> SSAValue:
        """`a` of dtype `source` as dtype `target`.

        Floats round to nearest even; float → integer truncates toward zero (values out of range are undefined, as in
        ATen); integer → narrower integer wraps; anything → bool is `a != 0`.
        """
        if source == target:
            return a
        if target.is_bool:
            return self.compare("ne", a, self.constant(0, source.scalar))
        if source.is_float and target.is_float:
            return self._convert_float(a, target)
        if source.is_float:
            wide = IntegerType(64)  # negative → unsigned and out of range narrow integers wrap, as on PyTorch's CPU
            return self._resize_integer(self._append(arith.FPToSIOp(a, wide)), target, unsigned=False)
        if target.is_float:
            op = arith.UIToFPOp if source.is_unsigned else arith.SIToFPOp
            return self._append(op(a, cast("AnyFloat", target.scalar)))
        return self._resize_integer(a, target, unsigned=source.is_unsigned)

    def _convert_float(self, a: SSAValue, target: DType) -> SSAValue:
        have, want = _bits(a.type), _bits(target.scalar)
        type = cast("AnyFloat", target.scalar)
        if have == want:  # f16 <-> bf16 meet in f32
            return self._append(arith.TruncFOp(self._append(arith.ExtFOp(a, _F32)), type))
        return self._append((arith.ExtFOp if want > have else arith.TruncFOp)(a, type))

    def _resize_integer(self, a: SSAValue, target: DType, *, unsigned: bool) -> SSAValue:
        have, want = _bits(a.type), _bits(target.scalar)
        type = cast("IntegerType", target.scalar)
        if have == want:
            return a
        if want < have:
            return self._append(arith.TruncIOp(a, type))
        return self._append((arith.ExtUIOp if unsigned else arith.ExtSIOp)(a, type))


def lowest(dtype: DType) -> float | int:
    """The identity of `maximum`: −inf, or the smallest integer."""
    if dtype.is_float:
        return -pymath.inf
    return 0 if dtype.is_unsigned else -(1 << (8 * dtype.bytes - 1))


def highest(dtype: DType) -> float | int:
    """The identity of `minimum`: +inf, or the largest integer."""
    if dtype.is_float:
        return pymath.inf
    if dtype.is_bool:
        return 1
    return (1 << (8 * dtype.bytes - (0 if dtype.is_unsigned else 1))) - 1
