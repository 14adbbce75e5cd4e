"""Products of tensors: the general dot product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import Arg, Array, DhloOp, Environment, Oracle, Sample, same_dtype
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dhlo.elementwise import NUMERIC, rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import BF16, F16, F32, F64, I8, I32, DType
from anyshape.dialects.sizes import Tensor, dtype_of, numel, sizes_of, tensor
from anyshape.symbolic import Facts, Size

M, N, K, B = (Size.symbol(name) for name in "mnkb")


class DotGeneral(DhloOp, op="dot_general"):
    """result[b…, i…, j…] = Σ_k lhs[b…, i…, k…] · rhs[b…, j…, k…] (StableHLO dot_general).

    `lhs_batch` pairs with `rhs_batch`, `lhs_contract` with `rhs_contract`; the other axes are free. Result axes: batch, free of
    lhs, free of rhs. `dtype` is that of the result, at least as wide as the operands' (None: theirs, the wider
    of two floats where one holds every value of the other): products and sums are those of
    the operands converted to it, so i8 · i8 -> i32 is exact. Integers wrap; kernels accumulate f16 and bf16 in f32 (`accumulator`); a
    sum over nothing is 0.
    """

    DEFAULTS: ClassVar = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (), "rhs_contract": (), "dtype": None}
    PLANNED = True
    SAMPLES = (
        Sample(
            ((M, K), (K, N)),
            {"lhs_contract": (1,), "rhs_contract": (0,)},
            dtypes=NUMERIC,
            values={0: "unit", 1: "unit"},
            oracle=Oracle("aten.mm.default", (Arg(0), Arg(1))),
        ),
        Sample(
            ((B, M, K), (B, N, K)),
            {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,)},
            dtypes=(F32, F64),
            values={0: "unit", 1: "unit"},
            oracle=Oracle("aten.einsum.default", ("bmk,bnk->bmn", [Arg(0), Arg(1)])),
        ),
        Sample(
            ((M, K), (K, N)),
            {"lhs_contract": (1,), "rhs_contract": (0,), "dtype": I32},
            dtypes=(I8,),
            oracle=Oracle("aten._int_mm.default", (Arg(0), Arg(1))),
        ),
        Sample(((M, K), (K, N)), {"lhs_contract": (1,), "rhs_contract": (0,)}, dtypes=(F32,), fixed={1: BF16}),
        Sample(((M, K), (N, K)), {"lhs_contract": (1,), "rhs_contract": (1,)}, dtypes=(F32,), fixed={1: F16}),
        Sample(((M, K), (N, K)), {"lhs_contract": (1,), "rhs_contract": (1,)}, dtypes=(F32,), fixed={1: I8}),
        Sample(
            ((M, 3), (N,)), {}, dtypes=(F32,), oracle=Oracle("aten.einsum.default", ("ma,n->man", [Arg(0), Arg(1)]))
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes 2 operands, got {len(operands)}")
        dtype = cls._factor_dtype(operands)
        lhs, rhs = (sizes_of(operand) for operand in operands)
        for side, sizes in (("lhs", lhs), ("rhs", rhs)):
            named = (*attributes[f"{side}_batch"], *attributes[f"{side}_contract"])
            if len(set(named)) != len(named) or any(not 0 <= axis < len(sizes) for axis in named):
                raise VerifyException(f"{cls.name}: {side} axes {list(named)} must differ and be in [0, {len(sizes)})")
        for kind in ("batch", "contract"):
            left, right = attributes[f"lhs_{kind}"], attributes[f"rhs_{kind}"]
            if len(left) != len(right):
                raise VerifyException(
                    f"{cls.name}: lhs_{kind} {list(left)} and rhs_{kind} {list(right)} differ in length"
                )
            for i, j in zip(left, right, strict=True):
                if lhs[i] != rhs[j]:
                    raise VerifyException(
                        f"{cls.name}: {kind} axis {i} of lhs has size {lhs[i]}, axis {j} of rhs {rhs[j]}"
                    )
        lhs_batch: tuple[int, ...] = attributes["lhs_batch"]
        batch = [lhs[axis] for axis in lhs_batch]
        free = [
            size
            for side, sizes in (("lhs", lhs), ("rhs", rhs))
            for axis, size in enumerate(sizes)
            if axis not in (*attributes[f"{side}_batch"], *attributes[f"{side}_contract"])
        ]
        return [tensor(cls._result_dtype(dtype, attributes["dtype"]), batch + free)]

    @classmethod
    def _factor_dtype(cls, operands: Sequence[Tensor]) -> DType:
        """The dtype that both operands have, or that holds every value of both."""
        lhs, rhs = map(dtype_of, operands)
        for wide, narrow in ((lhs, rhs), (rhs, lhs)):
            if wide.is_float and wide.bytes > narrow.bytes and (narrow.is_float or (narrow == I8 and wide.bytes >= 4)):
                return wide
        return same_dtype(cls.name, operands, lambda dtype: not dtype.is_bool)

    @classmethod
    def _result_dtype(cls, operands: DType, dtype: DType | None) -> DType:
        if dtype is None or dtype == operands:
            return operands
        same_kind = dtype.is_float == operands.is_float and not dtype.is_bool
        if not same_kind or dtype.bytes <= operands.bytes or dtype.is_unsigned:
            raise VerifyException(
                f"{cls.name}: {operands} operands have no {dtype} result; expected a wider dtype of their kind"
            )
        return dtype

    def free_axes(self, operand: int) -> tuple[int, ...]:
        """The axes of an operand that are neither batch nor contracted."""
        side = ("lhs", "rhs")[operand]
        named = (*self.integers(f"{side}_batch"), *self.integers(f"{side}_contract"))
        return tuple(axis for axis in range(len(self.operand_sizes(operand))) if axis not in named)

    @property
    def accumulator(self) -> DType:
        return accumulation_dtype(self.result_dtype)

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        dtype = self.result_dtype
        lhs, rhs = (widened(operand if dtype.is_float else operand.astype(dtype.numpy)) for operand in operands)
        labels: list[list[int]] = [[0] * lhs.ndim, [0] * rhs.ndim]
        count = 0
        for kind in ("batch", "contract"):
            for i, j in zip(self.integers(f"lhs_{kind}"), self.integers(f"rhs_{kind}"), strict=True):
                labels[0][i] = labels[1][j] = count
                count += 1
        out = list(range(len(self.integers("lhs_batch"))))
        for operand in (0, 1):
            for axis in self.free_axes(operand):
                labels[operand][axis] = count
                out.append(count)
                count += 1
        with np.errstate(all="ignore"):
            return [rounded(np.einsum(lhs, labels[0], rhs, labels[1], out), self.result_dtype)]

    @law(
        "dot over an axis of size 0 -> 0",
        example=lambda g: g(DotGeneral, g.input("m", 0), g.input(0, "n"), lhs_contract=(1,), rhs_contract=(0,)),
    )
    def over_empty_axis(self, builder: Builder, facts: Facts) -> Simplified:
        depth = numel([self.operand_sizes()[axis] for axis in self.integers("lhs_contract")])
        if facts.simplify(depth) != Size.const(0):
            return None
        return Constant.emit(builder, value=0, dtype=self.result_dtype, sizes=self.result_sizes)


__all__ = ["DotGeneral"]
