"""Scalar `arith` and `math` ops by numpy, on arrays: one element for each point at which the op runs.

Integers are signless: an iN value is an array of signed N bit integers, and an unsigned op views its bits; i1 is bool, index is i64.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from anyshape.dialects.arith_extra import RemFOp
from anyshape.dialects.dtypes import DTYPES, DType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_NUMPY: dict[Attribute, np.dtype[Any]] = {
    IndexType(): np.dtype(np.int64),
    **{dtype.scalar: dtype.numpy for dtype in DTYPES if not (dtype.is_unsigned and dtype.is_integer)},
}


def numpy_of_scalar(type: Attribute) -> np.dtype[Any]:
    """The numpy dtype in which values of a scalar type are kept."""
    found = _NUMPY.get(type)
    if found is None:
        raise ValueError(f"scalar type {type} is not one of {', '.join(map(str, _NUMPY))}")
    return found


def to_signless(array: Array) -> Array:
    """A tensor's elements as scalars: unsigned integers keep their bits in the signed type."""
    return array.view(np.dtype(f"i{array.dtype.itemsize}")) if array.dtype.kind == "u" else array


def from_signless(array: Array, dtype: DType) -> Array:
    """Scalars as a tensor's elements of `dtype`."""
    return array.view(dtype.numpy) if dtype.is_integer and dtype.is_unsigned else array


def _unsigned(array: Array) -> Array:
    return array if array.dtype == np.bool_ else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _as_unsigned(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return f(_unsigned(a), _unsigned(b)).view(a.dtype)

    return apply


def _truncated_quotient(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    return quotient + ((np.fmod(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _wide(f: Callable[..., Array]) -> Callable[..., Array]:
    """f computed in f64 and rounded once."""

    def apply(*operands: Array) -> Array:
        return f(*(operand.astype(np.float64) for operand in operands)).astype(operands[0].dtype)

    return apply


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a · b + c of f64: the product of two f32 is exact, so that only the sum and the last narrowing round."""
    return a * b + c


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


_erf = np.vectorize(pymath.erf, otypes=[np.float64])

_BINARY: dict[type[Operation], Callable[[Array, Array], Array]] = {
    arith.AddfOp: np.add,
    arith.AddiOp: np.add,
    arith.SubfOp: np.subtract,
    arith.SubiOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.MuliOp: np.multiply,
    arith.DivfOp: np.divide,
    RemFOp: _wide(np.fmod),
    arith.DivSIOp: _truncated_quotient,
    arith.DivUIOp: _as_unsigned(np.floor_divide),
    arith.RemSIOp: np.fmod,
    arith.RemUIOp: _as_unsigned(np.remainder),
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.MaxUIOp: _as_unsigned(np.maximum),
    arith.MinUIOp: _as_unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.ShRUIOp: _as_unsigned(np.right_shift),
    math.Atan2Op: _wide(np.arctan2),
    math.CopySignOp: np.copysign,
    math.PowFOp: _wide(np.power),
}

_UNARY: dict[type[Operation], Callable[[Array], Array]] = {
    arith.NegfOp: np.negative,
    math.AbsFOp: np.abs,
    math.AcosOp: _wide(np.arccos),
    math.AcoshOp: _wide(np.arccosh),
    math.AsinOp: _wide(np.arcsin),
    math.AsinhOp: _wide(np.arcsinh),
    math.AtanOp: _wide(np.arctan),
    math.AtanhOp: _wide(np.arctanh),
    math.CeilOp: np.ceil,
    math.CosOp: _wide(np.cos),
    math.CoshOp: _wide(np.cosh),
    math.ErfOp: _wide(_erf),
    math.ExpOp: _wide(np.exp),
    math.Exp2Op: _wide(np.exp2),
    math.ExpM1Op: _wide(np.expm1),
    math.FloorOp: np.floor,
    math.LogOp: _wide(np.log),
    math.Log10Op: _wide(np.log10),
    math.Log1pOp: _wide(np.log1p),
    math.Log2Op: _wide(np.log2),
    math.RoundEvenOp: np.rint,
    math.RsqrtOp: _wide(_reciprocal_root),
    math.SinOp: _wide(np.sin),
    math.SinhOp: _wide(np.sinh),
    math.SqrtOp: _wide(np.sqrt),
    math.TanOp: _wide(np.tan),
    math.TanhOp: _wide(np.tanh),
    math.TruncOp: np.trunc,
}

_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare_integers(op: arith.CmpiOp, a: Array, b: Array) -> Array:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate in ("eq", "ne"):
        return _COMPARISONS[predicate](a, b)
    if predicate[0] == "u":
        a, b = _unsigned(a), _unsigned(b)
    return _COMPARISONS[predicate[1:]](a, b)


def _compare_floats(op: arith.CmpfOp, a: Array, b: Array) -> Array:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    unordered = np.isnan(a) | np.isnan(b)
    match predicate:
        case "true" | "false":
            return np.full_like(unordered, predicate == "true")
        case "uno":
            return unordered
        case "ord":
            return ~unordered
        case _:
            holds = _COMPARISONS[predicate[1:]](a, b)
            return holds | unordered if predicate[0] == "u" else holds & ~unordered


_CONVERSIONS = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.TruncIOp, arith.SIToFPOp, arith.FPToSIOp, arith.IndexCastOp,
)  # fmt: skip


def _convert(op: Operation, a: Array) -> Array:
    target = numpy_of_scalar(op.results[0].type)
    if isinstance(op, arith.TruncIOp) and target == np.bool_:
        return (a & 1).astype(np.bool_)
    if (
        isinstance(op, arith.ExtSIOp | arith.SIToFPOp) and a.dtype == np.bool_
    ):  # the only bit of a signed i1 is its sign
        return (-a.astype(np.int8)).astype(target)
    return a.astype(target)


def _constant(op: arith.ConstantOp) -> Array:
    value = op.value
    if not isinstance(value, IntegerAttr | FloatAttr):
        raise ValueError(f"scalar constant {value} is neither an integer nor a float")
    data = value.value.data
    if value.type == IntegerType(1):
        data = bool(data)
    return np.asarray(data).astype(numpy_of_scalar(op.result.type))


def interpret_op(op: Operation, operands: list[Array]) -> Array:
    """The result of one scalar op at every point; ValueError for an op that `Scalars` does not append."""
    kind = type(op)
    if kind in _BINARY:
        a, b = operands
        return _BINARY[kind](a, b)
    if kind in _UNARY:
        return _UNARY[kind](operands[0])
    match op:
        case arith.ConstantOp():
            return _constant(op)
        case arith.CmpiOp():
            return _compare_integers(op, *operands)
        case arith.CmpfOp():
            return _compare_floats(op, *operands)
        case arith.SelectOp():
            return np.where(*operands)
        case math.FmaOp():
            return _wide(_multiply_add)(*operands)
        case arith.ExtUIOp() | arith.UIToFPOp():
            return _unsigned(operands[0]).astype(numpy_of_scalar(op.results[0].type))
        case arith.BitcastOp():
            return operands[0].view(numpy_of_scalar(op.result.type))
        case _ if isinstance(op, _CONVERSIONS):
            return _convert(op, operands[0])
        case _:
            raise ValueError(f"{op.name} is not a scalar op that this interpreter knows")


def interpret_block(ops: Iterable[Operation], env: MutableMapping[SSAValue, Array]) -> None:
    """Run scalar ops in order; `env` has an array for each value from outside and receives one for each result.

    Arrays broadcast against each other: a value that is the same at every point may have shape ().
    """
    with np.errstate(all="ignore"):
        for op in ops:
            result = interpret_op(op, [env[operand] for operand in op.operands])
            env[op.results[0]] = np.asarray(result, numpy_of_scalar(op.results[0].type))


__all__ = ["from_signless", "interpret_block", "interpret_op", "numpy_of_scalar", "to_signless"]
