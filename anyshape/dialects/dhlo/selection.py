"""Elementwise ops whose operands or results differ in dtype: compare, select, clamp, convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import (
    REQUIRED,
    Arg,
    Array,
    DhloOp,
    Elementwise,
    Environment,
    Oracle,
    Sample,
    same_dtype,
    same_sizes,
)
from anyshape.dialects.dhlo.constant import Constant, constant_value
from anyshape.dialects.dhlo.elementwise import NUMERIC, is_numeric, rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I32, I64, U8, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, tensor
from anyshape.symbolic import Facts

_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


_MOVING = {f"dhlo.{name}" for name in ("broadcast_in_dim", "reshape", "transpose", "slice")}


def _is_moved_iota(value: SSAValue) -> bool:
    """Whether every element of `value` is an element of an iota."""
    op = value.owner
    while isinstance(op, DhloOp) and op.name in _MOVING:
        op = op.operands[0].owner
    return isinstance(op, DhloOp) and op.name == "dhlo.iota"


class Compare(Elementwise, op="compare"):
    """result = lhs ∘ rhs as bool; `direction` is one of eq, ne, lt, le, gt, ge. With NaN only `ne` is true."""

    ARITY = 2
    DEFAULTS: ClassVar = {"direction": REQUIRED}
    SAMPLES = tuple(
        Sample(
            (("m", "n"), ("m", "n")),
            {"direction": how},
            dtypes=DTYPES if how in ("eq", "lt") else (F32, U8, I32),
            oracle=Oracle(f"aten.{how}.Tensor", (Arg(0), Arg(1))),
        )
        for how in _COMPARISONS
    )

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return BOOL

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if attributes["direction"] not in _COMPARISONS:
            raise VerifyException(
                f'{cls.name}: direction is "{attributes["direction"]}", expected one of {list(_COMPARISONS)}'
            )
        return super().infer(operands, attributes)

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        lhs, rhs = (widened(operand) for operand in operands)
        return [np.asarray(_COMPARISONS[self.attribute("direction")](lhs, rhs), np.bool_)]

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.compare(self.attribute("direction"), *operands, unsigned=self.operand_dtype().is_unsigned)

    @law(
        "iota >= 0 -> true; iota < 0 -> false; also where the iota's elements were moved or repeated",
        example=lambda g: g(Compare, g.iota(0, "m"), g.full(0, "m", dtype=I64), direction="ge"),
    )
    def iota_is_nonnegative(self, builder: Builder, facts: Facts) -> Simplified:
        how, dtype = self.attribute("direction"), self.operand_dtype()
        if (
            how not in ("ge", "lt") or dtype != I64 or constant_value(self.operands[1]) != 0
        ):  # a narrow iota may wrap below 0
            return None
        if not _is_moved_iota(self.operands[0]):
            return None
        return Constant.emit(builder, value=how == "ge", dtype=BOOL, sizes=self.result_sizes)

    @law(
        "compare of x with itself -> constant, for integers and bools",
        example=lambda g: g(Compare, *[g.input("m", dtype=I32)] * 2, direction="le"),
    )
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        if self.operands[0] is not self.operands[1] or self.operand_dtype().is_float:
            return None
        return Constant.emit(
            builder, value=self.attribute("direction") in ("eq", "le", "ge"), dtype=BOOL, sizes=self.result_sizes
        )


class Select(Elementwise, op="select"):
    """result = on_true where pred, else on_false; operands pred (bool), on_true, on_false (StableHLO select)."""

    ARITY = 3
    SAMPLES = (
        Sample(
            (("m", "n"), ("m", "n"), ("m", "n")),
            dtypes=DTYPES,
            fixed={0: BOOL},
            oracle=Oracle("aten.where.self", (Arg(0), Arg(1), Arg(2))),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 3:
            raise VerifyException(f"{cls.name} takes 3 operands, got {len(operands)}")
        if not dtype_of(operands[0]).is_bool:
            raise VerifyException(f"{cls.name}: operand 0 is {dtype_of(operands[0])}, expected bool")
        return [tensor(same_dtype(cls.name, operands[1:]), same_sizes(cls.name, operands))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.where(*operands)]

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return scalars.select(*operands)

    @law(
        "select(true, a, b) -> a; select(false, a, b) -> b",
        example=lambda g: g(Select, g.full(1, "m", dtype=BOOL), g.input("m"), g.input("m")),
    )
    def decided(self, builder: Builder, facts: Facts) -> Simplified:
        value = constant_value(self.operands[0])
        return None if value is None else self.operands[1 if value else 2]

    @law("select(p, a, a) -> a", example=lambda g: g(Select, g.input("m", dtype=BOOL), *[g.input("m")] * 2))
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[1] if self.operands[1] is self.operands[2] else None


class Clamp(Elementwise, op="clamp"):
    """result = min(max(x, low), high); operands low, x, high (StableHLO clamp); NaN when any is NaN."""

    ARITY = 3
    SAMPLES = (
        Sample(
            (("m", "n"), ("m", "n"), ("m", "n")),
            dtypes=NUMERIC,
            oracle=Oracle("aten.clamp.Tensor", (Arg(1), Arg(0), Arg(2))),
        ),
    )

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return is_numeric(dtype)

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        low, x, high = (widened(operand) for operand in operands)
        return [rounded(np.minimum(np.maximum(x, low), high), self.result_dtype)]

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        low, x, high = operands
        unsigned = self.operand_dtype().is_unsigned
        return scalars.minimum(scalars.maximum(x, low, unsigned=unsigned), high, unsigned=unsigned)


def _is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`, and NaN stays NaN."""
    if source == target or source.is_bool:
        return True
    if target.is_float:
        exact_bits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[target.name]
        if source.is_float:
            return (source, target) in ((F16, F32), (F16, F64), (BF16, F32), (BF16, F64), (F32, F64))
        return 8 * source.bytes - (not source.is_unsigned) <= exact_bits
    if source.is_float or target.is_unsigned:
        return False
    return source.bytes < target.bytes or (source.bytes == target.bytes and not source.is_unsigned)


class Convert(Elementwise, op="convert"):
    """result = x as `dtype`.

    Floats round to nearest even; float → integer truncates toward zero and is undefined out of range, as in ATen; integer →
    narrower integer wraps; anything → bool is x ≠ 0, NaN included.
    """

    DEFAULTS: ClassVar = {"dtype": REQUIRED}
    SAMPLES = tuple(
        Sample(
            (("m", "n"),),
            {"dtype": target},
            dtypes=DTYPES,
            values={0: "finite"},
            oracle=Oracle("aten.to.dtype", (Arg(0), target)),
        )
        for target in DTYPES
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 1:
            raise VerifyException(f"{cls.name} takes 1 operand, got {len(operands)}")
        return [tensor(attributes["dtype"], same_sizes(cls.name, operands))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        (x,), source, target = operands, self.operand_dtype(), self.result_dtype
        if source == target:
            return [x]
        if source.is_float:
            x = x.astype(np.float64)
            if target.is_integer:  # through i64, so that a negative value wraps into an unsigned type
                with np.errstate(invalid="ignore"):
                    x = x.astype(np.int64)
        return [rounded(x, target)]

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        return scalars.convert(x, self.operand_dtype(), self.result_dtype)

    @law("convert to the same dtype -> x", example=lambda g: g(Convert, g.input("m"), dtype=F32))
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operand_dtype() == self.result_dtype else None

    @law(
        "convert(convert(x, a), b) -> convert(x, b) where the first loses nothing",
        example=lambda g: g(Convert, g(Convert, g.input("m", dtype=F16), dtype=F32), dtype=F64),
    )
    def through_lossless(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        if not isinstance(inner, Convert) or not _is_lossless(inner.operand_dtype(), inner.result_dtype):
            return None
        return Convert.emit(builder, inner.operands[0], dtype=self.result_dtype)


def converted(builder: Builder, x: SSAValue, dtype: DType) -> SSAValue:
    """x as `dtype`; x itself where it is that already."""
    return x if dtype_of(x.type) == dtype else Convert.emit(builder, x, dtype=dtype)


__all__ = ["Clamp", "Compare", "Convert", "Select", "converted"]
