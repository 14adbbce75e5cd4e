"""Scans: every prefix of an axis combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import check_axis
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Sample
from anyshape.dialects.dhlo.elementwise import BITWISE, NUMERIC, rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.reduction import COMBINERS, check_kind
from anyshape.dialects.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, FLOATS, I64, DType
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Facts, Size

PREFIX_COMBINERS: Mapping[str, np.ufunc] = {**COMBINERS, "logaddexp": np.logaddexp}
"""How each kind of scan combines two elements: as reductions do, and ln(eᵃ + eᵇ)."""


def _sample(
    kind: str, axis: int, target: str | None, dtypes: tuple[DType, ...], values: str = "normal", rank: int = 3
) -> Sample:
    oracle = Oracle(target, (Arg(0), axis)) if target else None
    return Sample((("m", "n", "k")[:rank],), {"axis": axis, "kind": kind}, dtypes, {}, {0: values}, oracle=oracle)


class Scan(DhloOp, op="scan"):
    """result[…, i, …] = x[…, 0, …] ∘ … ∘ x[…, i, …] along `axis`; `kind` says which ∘: sum, prod, max, min, and, or, logaddexp.

    Sizes and dtype are x's. max and min are NaN from the first NaN on; integers wrap; a logaddexp b = ln(eᵃ + eᵇ) of floats, taken as
    max(a, b) + ln(1 + exp(−|a − b|)), so no element is too small for those before it. Kernels combine in the order of the axis, or
    in vectors of neighbours, whichever the schedule has; they accumulate sums, products and logaddexp of floats one width up
    (`accumulator`) and round each result once. (numpy `ufunc.accumulate`, JAX `associative_scan`.)
    """

    DEFAULTS: ClassVar = {"axis": REQUIRED, "kind": "sum"}
    PLANNED = True
    SAMPLES = (
        _sample("sum", 2, "aten.cumsum.default", NUMERIC, values="finite"),
        _sample("sum", 1, "aten.cumsum.default", NUMERIC, values="finite"),
        _sample("sum", 0, "aten.cumsum.default", (F32, I64), values="unit", rank=1),
        _sample("prod", 0, "aten.cumprod.default", (F32, F64, I64), values="unit"),
        _sample("max", 1, None, DTYPES, rank=2),
        _sample("max", 0, None, DTYPES, rank=2),
        _sample("min", 2, None, DTYPES),
        _sample("and", 0, None, (BOOL,)),
        _sample("or", 1, None, BITWISE, rank=2),
        _sample("logaddexp", 1, "aten.logcumsumexp.default", FLOATS),
        _sample("logaddexp", 0, "aten.logcumsumexp.default", (F32, F64), rank=1),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        check_axis(cls.name, attributes["axis"], len(sizes_of(operand)))
        kind, dtype = attributes["kind"], dtype_of(operand)
        check_kind(cls.name, kind, dtype, PREFIX_COMBINERS)
        if kind == "logaddexp" and not dtype.is_float:
            raise VerifyException(f"{cls.name}: {kind} does not take {dtype}")
        return [tensor(dtype_of(operand), sizes_of(operand))]

    @property
    def axis(self) -> int:
        return self.integer("axis")

    @property
    def kind(self) -> str:
        return self.attribute("kind")

    @property
    def accumulator(self) -> DType:
        """f32 for sums, products and logaddexp of f16 and bf16, f64 for those of f32: a prefix is one long chain, whose error would
        else grow with its length, and no cut into blocks can help since every element of it is a result. (PyTorch's CPU
        kernels do the same.)
        """
        dtype = self.result_dtype
        if self.kind not in ("sum", "prod", "logaddexp"):
            return dtype
        return F32 if dtype in (F16, BF16) else F64 if dtype == F32 else dtype

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        with np.errstate(all="ignore"):
            return [
                rounded(PREFIX_COMBINERS[self.kind].accumulate(x, axis=self.axis, dtype=x.dtype), self.result_dtype)
            ]

    @law("scan over an axis of size 1 -> x", example=lambda g: g(Scan, g.input("m", 1, "n"), axis=1, kind="sum"))
    def over_one(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if facts.simplify(self.operand_sizes()[self.axis]) is Size.const(1) else None

    @law(
        "scan(scan(x)) -> scan(x) of an idempotent kind, along one axis",
        example=lambda g: g(Scan, g(Scan, g.input("m", "n"), axis=0, kind="max"), axis=0, kind="max"),
    )
    def idempotent(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        if not isinstance(inner, Scan) or self.kind in ("sum", "prod", "logaddexp"):
            return None
        return inner.result if (inner.axis, inner.kind) == (self.axis, self.kind) else None


__all__ = ["Scan"]
