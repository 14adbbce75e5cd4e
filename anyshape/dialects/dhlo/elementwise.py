"""The elementwise families; `unary.py`, `binary.py` and `selection.py` hold the ops.

References compute floats in f64 and round once. Scalars compute functions of f16 and bf16 in f32 and round once, as PyTorch does.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import Arg, Array, Elementwise, Environment, Oracle, Points, Sample
from anyshape.dialects.dtypes import BF16, DTYPES, F16, F32, FLOATS, INTEGERS, DType
from anyshape.dialects.scalars import Scalars

EXPENSIVE = 10
"""`COST` of an element that takes a division or a polynomial: computing it twice is worse than a round trip through cache."""
NUMERIC = tuple(dtype for dtype in DTYPES if not dtype.is_bool)
BITWISE = tuple(dtype for dtype in DTYPES if not dtype.is_float)


def is_numeric(dtype: DType) -> bool:
    return not dtype.is_bool


def widened(x: Array) -> Array:
    """Floats as f64, in which references compute; other arrays as they are."""
    return x.astype(np.float64) if x.dtype.kind not in "biu" else x


def rounded(x: Any, dtype: DType) -> Array:
    """`x` as an array of `dtype`; a value out of a float's range becomes infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype.numpy)


def in_f32(scalars: Scalars, dtype: DType, operands: Sequence[SSAValue], f: Callable[..., SSAValue]) -> SSAValue:
    """f(operands…), computed in f32 where `dtype` is f16 or bf16."""
    if dtype not in (F16, BF16):
        return f(*operands)
    wide = [scalars.convert(operand, dtype, F32) for operand in operands]
    return scalars.convert(f(*wide), F32, dtype)


class Unary(Elementwise, ABC):
    """result = f(x), where `numpy_function` is f on arrays."""

    ARITY: ClassVar[int] = 1

    def numpy_function(self, x: Array) -> Array:
        """f by numpy; floats arrive as f64."""
        raise TypeError(f"{self.name} has no numpy function")

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [rounded(self.numpy_function(widened(operands[0])), self.result_dtype)]


class FloatUnary(Unary, ABC):
    """result = f(x) on floats; `FUNCTION` names f as `Scalars.FUNCTIONS` does, else `compute` says it."""

    FUNCTION: ClassVar[str]
    COST = EXPENSIVE

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        return dtype.is_float

    def compute(self, scalars: Scalars, x: SSAValue) -> SSAValue:
        """f of an f32 or f64."""
        return scalars.function(self.FUNCTION, x)

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        return in_f32(scalars, self.operand_dtype(), operands, partial(self.compute, scalars))


class Binary(Elementwise, ABC):
    """result = f(lhs, rhs), where `numpy_function` is f on arrays."""

    ARITY: ClassVar[int] = 2

    def numpy_function(self, lhs: Array, rhs: Array) -> Array:
        """f by numpy; floats arrive as f64, the result is rounded to the result's dtype."""
        raise TypeError(f"{self.name} has no numpy function")

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            lhs, rhs = (widened(operand) for operand in operands)
            return [rounded(self.numpy_function(lhs, rhs), self.result_dtype)]


def unary_samples(
    target: str | None,
    *,
    values: str = "normal",
    dtypes: tuple[DType, ...] = FLOATS,
    attributes: dict[str, AttributeValue] | None = None,
    keywords: dict[str, Any] | None = None,
) -> tuple[Sample, ...]:
    """The sample of a unary op: one matrix, and the ATen call that says the same."""
    oracle = Oracle(target, (Arg(0),), keywords or {}) if target else None
    return (Sample((("m", "n"),), attributes or {}, dtypes=dtypes, values={0: values}, oracle=oracle),)


def binary_samples(
    target: str | None,
    *,
    dtypes: tuple[DType, ...] = NUMERIC,
    values: dict[int, str] | None = None,
    attributes: dict[str, AttributeValue] | None = None,
    keywords: dict[str, Any] | None = None,
) -> tuple[Sample, ...]:
    """The sample of a binary op: two matrices of one size, and the ATen call that says the same."""
    oracle = Oracle(target, (Arg(0), Arg(1)), keywords or {}) if target else None
    return (Sample((("m", "n"), ("m", "n")), attributes or {}, dtypes=dtypes, values=values or {}, oracle=oracle),)


def conjunction(scalars: Scalars, conditions: Sequence[SSAValue]) -> SSAValue:
    """All of one or more i1 values."""
    return reduce(scalars.logical_and, conditions)


def operand_within(
    points: Points,
    index: int,
    at: Sequence[SSAValue],
    conditions: Sequence[SSAValue],
    otherwise: Callable[[], SSAValue],
) -> SSAValue:
    """The element of operand `index` at `at` where all of the i1 `conditions` hold, and read only there; elsewhere `otherwise()`."""
    if not conditions:
        return points.operand(index, at)
    inside = conjunction(points.scalars, conditions)
    with points.guarded(inside):
        element = points.operand(index, at)
    return points.scalars.select(inside, element, otherwise())


__all__ = [
    "BITWISE",
    "EXPENSIVE",
    "INTEGERS",
    "NUMERIC",
    "Binary",
    "FloatUnary",
    "Unary",
    "binary_samples",
    "conjunction",
    "in_f32",
    "is_numeric",
    "operand_within",
    "rounded",
    "unary_samples",
    "widened",
]
