"""Elements of a tensor at places that are linear in the result's indices: any strides over its memory, and diagonals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import check_axis
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Points, Sample, Sym
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.reduction import without
from anyshape.dialects.dtypes import DTYPES, F32
from anyshape.dialects.sizes import Tensor, dtype_of, rank_of, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")


class AsStrided(DhloOp, op="as_strided"):
    """result[i…] = x[offset + Σ strides[d]·i[d]], x of rank 1: elements may be read several times, or not at all.

    All places must lie inside x; whoever builds the op makes that a condition.
    """

    DEFAULTS: ClassVar = {"sizes": REQUIRED, "strides": REQUIRED, "offset": 0}
    SIZE_ATTRIBUTES = ("sizes", "strides", "offset")
    SAMPLES = (
        Sample(
            ((M + N + 2,),),
            {"sizes": (M + 1, N), "strides": (1, 1), "offset": 1},
            dtypes=DTYPES,
            oracle=Oracle("aten.as_strided.default", (Arg(0), (Sym("m + 1"), Sym("n")), (1, 1), 1)),
        ),
        Sample(
            ((M * N * 3,),),
            {"sizes": (3, M, N), "strides": (1, 3, 3 * M), "offset": 0},
            dtypes=(F32,),
            oracle=Oracle("aten.as_strided.default", (Arg(0), (3, Sym("m"), Sym("n")), (1, 3, Sym("3*m")), 0)),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        if rank_of(operand) != 1:
            raise VerifyException(f"{cls.name} takes a tensor of rank 1, got rank {rank_of(operand)}")
        if len(attributes["sizes"]) != len(attributes["strides"]) or len(attributes["offset"]) != 1:
            raise VerifyException(f"{cls.name}: one stride for each size, and one offset")
        return [tensor(dtype_of(operand), attributes["sizes"])]

    @property
    def offset(self) -> Size:
        (only,) = self.size_list("offset")
        return only

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        sizes = [size.evaluate(env) for size in self.result_sizes]
        places = np.full(sizes, self.offset.evaluate(env), np.int64)
        for axis, stride in enumerate(self.size_list("strides")):
            steps = stride.evaluate(env) * np.arange(sizes[axis])
            places = places + steps.reshape([-1 if each == axis else 1 for each in range(len(sizes))])
        return [np.take(operands[0], places) if places.size else np.zeros(sizes, operands[0].dtype)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, place = points.scalars, points.size(self.offset)
        for index, stride in zip(at, self.size_list("strides"), strict=True):
            moved = index if stride == Size.const(1) else scalars.mul(index, points.size(stride))
            place = scalars.add(place, moved)
        return points.operand(0, [place])


class Diagonal(DhloOp, op="diagonal"):
    """result[i…, k] = x[…, k + row, …, k + column, …] on axes `first` and `second`, which are dropped; `length` counts k.

    All elements must lie inside x; whoever builds the op makes that a condition.
    """

    DEFAULTS: ClassVar = {"first": REQUIRED, "second": REQUIRED, "row": 0, "column": 0, "length": REQUIRED}
    SIZE_ATTRIBUTES = ("length",)
    SAMPLES = (
        Sample(
            ((M, M + N),),
            {"first": 0, "second": 1, "length": M},
            dtypes=DTYPES,
            oracle=Oracle("aten.diagonal.default", (Arg(0),)),
        ),
        Sample(
            ((M, K, M + 1),),
            {"first": 2, "second": 0, "row": 1, "length": M},
            dtypes=(F32,),
            oracle=Oracle("aten.diagonal.default", (Arg(0), -1, 2, 0)),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        first, second = attributes["first"], attributes["second"]
        for axis in (first, second):
            check_axis(cls.name, axis, rank_of(operand))
        if first == second or attributes["row"] < 0 or attributes["column"] < 0:
            raise VerifyException(f"{cls.name} takes two different axes, row and column of 0 or more")
        return [tensor(dtype_of(operand), [*without(sizes_of(operand), (first, second)), *attributes["length"]])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        length = self.result_sizes[-1].evaluate(env)
        x = np.moveaxis(operands[0], (self.integer("first"), self.integer("second")), (-2, -1))
        along = np.arange(length)
        return [x[..., along + self.integer("row"), along + self.integer("column")]]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        rest = iter(at[:-1])
        first, second = self.integer("first"), self.integer("second")
        starts = {first: self.integer("row"), second: self.integer("column")}
        source: list[SSAValue] = []
        for axis in range(len(at) + 1):
            if axis not in starts:
                source.append(next(rest))
            elif starts[axis] == 0:
                source.append(at[-1])
            else:
                source.append(points.scalars.add(at[-1], points.size(starts[axis])))
        return points.operand(0, source)


__all__ = ["AsStrided", "Diagonal"]
