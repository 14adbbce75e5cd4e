"""Reductions over axes: one op for all kinds, the position of an extremum, the mean."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import Iota, check_axis
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Sample
from anyshape.dialects.dhlo.binary import Divide, Or
from anyshape.dialects.dhlo.constant import Constant, SizeOf
from anyshape.dialects.dhlo.elementwise import BITWISE, NUMERIC, rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import BroadcastInDim, one_operand
from anyshape.dialects.dhlo.selection import Compare, Convert, Select, converted
from anyshape.dialects.dhlo.unary import IsNan
from anyshape.dialects.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I64, DType
from anyshape.dialects.scalars import Scalars, highest, lowest
from anyshape.dialects.sizes import Tensor, dtype_of, numel, sizes_of, tensor
from anyshape.symbolic import Facts, Size

COMBINERS: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
"""How each kind of reduction combines two elements."""


def without(sizes: Sequence[Size], axes: Sequence[int]) -> list[Size]:
    """The sizes of the axes that are not in `axes`."""
    return [size for axis, size in enumerate(sizes) if axis not in axes]


def check_axes(name: str, axes: Sequence[int], rank: int) -> None:
    """VerifyException unless the axes are increasing and in [0, rank)."""
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < rank for axis in axes):
        raise VerifyException(f"{name}: axes {list(axes)} must increase and be in [0, {rank})")


def check_kind(name: str, kind: str, dtype: DType, kinds: Collection[str] = COMBINERS) -> None:
    """VerifyException unless `kind` is one of `kinds` and takes this dtype."""
    if kind not in kinds:
        raise VerifyException(f'{name}: kind is "{kind}", expected one of {list(kinds)}')
    if (kind in ("sum", "prod") and dtype.is_bool) or (kind in ("and", "or") and dtype.is_float):
        raise VerifyException(f"{name}: {kind} does not take {dtype}")


def spread(builder: Builder, reduced: SSAValue, axes: Sequence[int], sizes: Sequence[Size]) -> SSAValue:
    """A value without `axes`, repeated along them to `sizes`."""
    dimensions = tuple(axis for axis in range(len(sizes)) if axis not in axes)
    return BroadcastInDim.emit(builder, reduced, dimensions=dimensions, sizes=sizes)


def accumulation_dtype(dtype: DType) -> DType:
    """f16 and bf16 are summed in f32, every other dtype in itself."""
    return F32 if dtype in (F16, BF16) else dtype


def identity_of(kind: str, dtype: DType) -> float | int:
    """e with combine(e, x) = x: what a reduction over no elements gives."""
    match kind:
        case "sum" | "or":
            return 0
        case "prod":
            return 1
        case "max":
            return lowest(dtype)
        case "min":
            return highest(dtype)
        case _:
            return 1 if dtype.is_bool else 255 if dtype.is_unsigned else -1


def _sample(
    kind: str, axes: tuple[int, ...], target: str | None, dtypes: tuple[DType, ...], values: str = "normal"
) -> Sample:
    """A reduction of [m, n, k]; PyTorch has no maximum or minimum over no elements."""
    oracle = Oracle(target, (Arg(0), axes)) if target else None
    minimum = dict.fromkeys("mnk", 1) if kind in ("max", "min") else {}
    return Sample((("m", "n", "k"),), {"axes": axes, "kind": kind}, dtypes, {}, {0: values}, minimum, oracle)


class Reduce(DhloOp, op="reduce"):
    """result[i…] = x combined over `axes`, which are dropped; `kind` is one of sum, prod, max, min, and, or.

    max and min are NaN where any element is; integers wrap; over no elements the result is `identity`. The order of the
    combinations is the schedule's. Kernels accumulate f16 and bf16 in f32 (`accumulator`) and round once at the end.
    """

    DEFAULTS: ClassVar = {"axes": REQUIRED, "kind": "sum"}
    PLANNED = True
    SAMPLES = (
        _sample("sum", (1,), "aten.sum.dim_IntList", NUMERIC, values="finite"),
        _sample("sum", (0, 2), "aten.sum.dim_IntList", (F32, F64), values="unit"),
        _sample("prod", (1, 2), None, (F32, F64, I64), values="nonzero"),
        _sample("max", (1,), "aten.amax.default", DTYPES),
        _sample("min", (0, 1), "aten.amin.default", DTYPES),
        _sample("and", (1, 2), "aten.all.dims", (BOOL,)),
        _sample("or", (0,), "aten.any.dims", (BOOL,)),
        _sample("and", (0,), None, BITWISE),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, kind = one_operand(cls.name, operands), attributes["kind"]
        dtype, sizes = dtype_of(operand), sizes_of(operand)
        check_axes(cls.name, attributes["axes"], len(sizes))
        check_kind(cls.name, kind, dtype)
        return [tensor(dtype, without(sizes, attributes["axes"]))]

    @property
    def axes(self) -> tuple[int, ...]:
        return self.integers("axes")

    @property
    def kind(self) -> str:
        return self.attribute("kind")

    @property
    def identity(self) -> float | int:
        return identity_of(self.kind, self.result_dtype)

    @property
    def accumulator(self) -> DType:
        return accumulation_dtype(self.result_dtype)

    def combine(self, scalars: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        """a and b combined; values of the accumulator's scalar type."""
        unsigned = self.result_dtype.is_unsigned
        combiners: dict[str, Callable[[], SSAValue]] = {
            "sum": lambda: scalars.add(a, b),
            "prod": lambda: scalars.mul(a, b),
            "max": lambda: scalars.maximum(a, b, unsigned=unsigned),
            "min": lambda: scalars.minimum(a, b, unsigned=unsigned),
            "and": lambda: scalars.logical_and(a, b),
            "or": lambda: scalars.logical_or(a, b),
        }
        return combiners[self.kind]()

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        with np.errstate(all="ignore"):
            start = x.dtype.type(self.identity)
            total = COMBINERS[self.kind].reduce(x, axis=self.axes, dtype=x.dtype, initial=start) if self.axes else x
            return [rounded(total, self.result_dtype)]

    @law("reduce over no axes -> x", example=lambda g: g(Reduce, g.input("m", "n"), axes=(), kind="max"))
    def over_nothing(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if not self.axes else None

    @law(
        "reduce over an axis of size 0 -> identity",
        example=lambda g: g(Reduce, g.input("m", 0), axes=(1,), kind="prod"),
    )
    def over_empty_axis(self, builder: Builder, facts: Facts) -> Simplified:
        extent = numel([self.operand_sizes()[axis] for axis in self.axes])
        if facts.simplify(extent) != Size.const(0):
            return None
        return Constant.emit(builder, value=self.identity, dtype=self.result_dtype, sizes=self.result_sizes)

    @law(
        "reduce(reduce(x)) of one kind -> reduce(x), where intermediate rounding is none",
        example=lambda g: g(Reduce, g(Reduce, g.input("m", "n", "k"), axes=(1,), kind="max"), axes=(1,), kind="max"),
    )
    def compose(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        exact = self.kind in ("max", "min", "and", "or") or not self.result_dtype.is_float
        if not isinstance(inner, Reduce) or inner.kind != self.kind or not exact:
            return None
        left = [axis for axis in range(len(inner.operand_sizes())) if axis not in inner.axes]
        axes = tuple(sorted((*inner.axes, *(left[axis] for axis in self.axes))))
        return Reduce.emit(builder, inner.operands[0], axes=axes, kind=self.kind)


class ArgExtremum(DhloOp, ABC):
    """result[i…] = the first position along `axis`, which is dropped, at which x is extreme, as i64; a NaN is extreme.

    Over no elements the value is the largest i64: a front end whose framework raises an error puts a guard before the op.
    """

    DEFAULTS: ClassVar = {"axis": REQUIRED}
    KIND: ClassVar[str]

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, axis = one_operand(cls.name, operands), attributes["axis"]
        check_axis(cls.name, axis, len(sizes_of(operand)))
        return [tensor(I64, without(sizes_of(operand), (axis,)))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, axis = widened(operands[0]), self.integer("axis")
        if x.shape[axis] == 0:
            return [np.full(np.delete(x.shape, axis), highest(I64), np.int64)]
        return [np.asarray((np.argmax if self.KIND == "max" else np.argmin)(x, axis), np.int64)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        x, axis, sizes = self.operands[0], self.integer("axis"), self.operand_sizes()
        extreme = spread(rewriter, Reduce.emit(rewriter, x, axes=(axis,), kind=self.KIND), (axis,), sizes)
        found = Compare.emit(rewriter, x, extreme, direction="eq")
        if self.operand_dtype().is_float:
            found = Or.emit(rewriter, found, IsNan.emit(rewriter, x))
        position = Iota.emit(rewriter, axis=axis, sizes=sizes)
        beyond = Constant.emit(rewriter, value=highest(I64), dtype=I64, sizes=sizes)
        candidate = Select.emit(rewriter, found, position, beyond)
        return [Reduce.emit(rewriter, candidate, axes=(axis,), kind="min")]


class ArgMax(ArgExtremum, op="argmax"):
    """result[i…] = the first position of the maximum of x along `axis`."""

    KIND = "max"
    SAMPLES = (
        Sample((("m", "n"),), {"axis": 1}, dtypes=NUMERIC, minimum={"n": 1}, oracle=Oracle("aten.argmax.default", (Arg(0), 1))),
    )  # fmt: skip


class ArgMin(ArgExtremum, op="argmin"):
    """result[i…] = the first position of the minimum of x along `axis`."""

    KIND = "min"
    SAMPLES = (
        Sample((("m", "n"),), {"axis": 0}, dtypes=NUMERIC, minimum={"m": 1}, oracle=Oracle("aten.argmin.default", (Arg(0), 0))),
    )  # fmt: skip


def emit_mean(builder: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Σ x / count over `axes`, in x's own dtype; NaN over no elements."""
    sizes, dtype = sizes_of(x.type), dtype_of(x.type)
    total = Reduce.emit(builder, x, axes=tuple(axes), kind="sum")
    count, kept = numel([sizes[axis] for axis in axes]), without(sizes, axes)
    if count.is_constant:
        divisor = Constant.emit(builder, value=count.value, dtype=dtype, sizes=kept)
    else:
        scalar = Convert.emit(builder, SizeOf.emit(builder, size=count), dtype=dtype)
        divisor = BroadcastInDim.emit(builder, scalar, dimensions=(), sizes=kept)
    return Divide.emit(builder, total, divisor)


def emit_in_f32(builder: Builder, x: SSAValue) -> SSAValue:
    """x as f32 where it is f16 or bf16."""
    return converted(builder, x, accumulation_dtype(dtype_of(x.type)))


class Mean(DhloOp, op="mean"):
    """result[i…] = (Σ x) / count over `axes`, which are dropped; NaN over no elements. Floats only; f16 and bf16 in f32."""

    DEFAULTS: ClassVar = {"axes": REQUIRED}
    SAMPLES = (
        Sample((("m", "n", 3),), {"axes": (1, 2)}, oracle=Oracle("aten.mean.dim", (Arg(0), (1, 2)))),
        Sample((("m", 5),), {"axes": (1,)}, dtypes=(F32,), oracle=Oracle("aten.mean.dim", (Arg(0), (1,)))),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        if not dtype_of(operand).is_float:
            raise VerifyException(f"{cls.name} does not take {dtype_of(operand)}")
        check_axes(cls.name, attributes["axes"], len(sizes_of(operand)))
        return [tensor(dtype_of(operand), without(sizes_of(operand), attributes["axes"]))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, axes = widened(operands[0]), self.integers("axes")
        count = int(np.prod([x.shape[axis] for axis in axes]))
        with np.errstate(all="ignore"):
            return [rounded(x.sum(axis=axes) / np.float64(count), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        mean = emit_mean(rewriter, emit_in_f32(rewriter, self.operands[0]), self.integers("axes"))
        return [converted(rewriter, mean, self.result_dtype)]


__all__ = [
    "COMBINERS", "ArgExtremum", "ArgMax", "ArgMin", "Mean", "Reduce", "accumulation_dtype", "check_axes", "check_kind", "emit_in_f32",
    "emit_mean", "identity_of", "spread", "without",
]  # fmt: skip
