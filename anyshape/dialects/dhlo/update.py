"""A tensor with part of it replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import (
    REQUIRED,
    Arg,
    Array,
    DhloOp,
    Environment,
    Oracle,
    Points,
    Sample,
    Sym,
    same_dtype,
)
from anyshape.dialects.dhlo.elementwise import operand_within
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import DTYPES, F32
from anyshape.dialects.sizes import Tensor, sizes_of, tensor
from anyshape.symbolic import Facts, Size

M, N, K = (Size.symbol(name) for name in "mnk")
ZERO = Size.const(0)


class DynamicUpdateSlice(DhloOp, op="dynamic_update_slice"):
    """result = x with x[starts[d] … starts[d] + update's size[d]) replaced by update (StableHLO dynamic_update_slice).

    Operands x, update of one dtype and rank. The part must lie inside x: whoever builds the op guards that. `in_place` says that the result
    is to lie in x's memory, of which only the part is written; `update-in-place` sets it where nothing reads x afterwards.
    """

    DEFAULTS: ClassVar = {"starts": REQUIRED, "in_place": False}
    SIZE_ATTRIBUTES = ("starts",)
    SAMPLES = (
        Sample(
            ((M + 3, N), (M, N)),
            {"starts": (1, 0)},
            dtypes=DTYPES,
            oracle=Oracle("aten.slice_scatter.default", (Arg(0), Arg(1), 0, 1, Sym("m + 1"))),
        ),
        Sample(
            ((M, N + K), (M, N)),
            {"starts": (0, K)},
            dtypes=(F32,),
            oracle=Oracle("aten.slice_scatter.default", (Arg(0), Arg(1), 1, Sym("k"), Sym("k + n"))),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes a tensor and its update, got {len(operands)} operands")
        dtype, starts = same_dtype(cls.name, operands), attributes["starts"]
        sizes, part = (sizes_of(operand) for operand in operands)
        if not len(starts) == len(part) == len(sizes):
            raise VerifyException(f"{cls.name}: update and starts must have one entry for each of {len(sizes)} axes")
        for axis, (start, extent, size) in enumerate(zip(starts, part, sizes, strict=True)):
            left = size - start - extent
            if (left.is_constant and left.value < 0) or (start.is_constant and start.value < 0):
                raise VerifyException(
                    f"{cls.name}: axis {axis} of size {size} has no part of {extent} elements that begins at {start}"
                )
        return [tensor(dtype, sizes)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, update = operands
        result = x.copy()
        starts = [start.evaluate(env) for start in self.size_list("starts")]
        part = tuple(slice(start, start + extent) for start, extent in zip(starts, update.shape, strict=True))
        if any(each.start < 0 or each.stop > extent for each, extent in zip(part, x.shape, strict=True)):
            raise IndexError(f"{self.name}: {update.shape} at {starts} does not lie inside {x.shape}")
        result[part] = update
        return [result]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        position: list[SSAValue] = []
        conditions: list[SSAValue] = []
        axes = zip(at, self.size_list("starts"), self.operand_sizes(1), self.result_sizes, strict=True)
        for index, start, extent, size in axes:
            local = index if start == ZERO else scalars.sub(index, points.size(start))
            position.append(local)
            if start != ZERO or extent != size:
                conditions.append(scalars.compare("lt", local, points.size(extent), unsigned=True))
        return operand_within(points, 1, position, conditions, lambda: points.operand(0, at))

    @law(
        "update of everything -> update",
        example=lambda g: g(DynamicUpdateSlice, g.input("m", "n"), g.input("m", "n"), starts=(0, 0)),
    )
    def whole(self, builder: Builder, facts: Facts) -> Simplified:
        whole = self.operands[0].type == self.operands[1].type and not self.attribute("in_place")
        return self.operands[1] if whole else None


__all__ = ["DynamicUpdateSlice"]
