"""An axis in pieces: how a long reduction becomes many short ones that threads share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Points, Sample, same_dtype
from anyshape.dialects.dhlo.elementwise import operand_within
from anyshape.dialects.dhlo.movement import delinearise, linearise
from anyshape.dialects.dtypes import DTYPES, F32
from anyshape.dialects.sizes import Tensor, numel, rank_of, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")


class Chunk(DhloOp, op="chunk"):
    """result[…, c, l, …] = the element c·L + l of neighbouring `axes` taken as one; operand 1, of rank 0, behind the last element.

    The axes, n elements together, become two of sizes `count` and L: `length` where it is given, which `count` times is n at least,
    else ⌈n / count⌉; `count` is at least 1.
    """

    DEFAULTS: ClassVar = {"axes": REQUIRED, "count": REQUIRED, "length": ()}
    SIZE_ATTRIBUTES = ("count", "length")
    SAMPLES = (
        Sample(((M, N), ()), {"axes": (0,), "count": (3,)}, dtypes=DTYPES),
        Sample(((M, N, K), ()), {"axes": (1, 2), "count": (N + 2,)}, dtypes=(F32,)),
        Sample(((M, N), ()), {"axes": (1,), "count": ((N + 3) // 4,), "length": (4,)}, dtypes=(F32,), minimum={"n": 1}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2 or rank_of(operands[1]) != 0:
            raise VerifyException(f"{cls.name} takes a tensor and a value of rank 0")
        sizes = sizes_of(operands[0])
        axes: tuple[int, ...] = attributes["axes"]
        if not axes or axes[0] < 0 or axes[-1] >= len(sizes) or any(b != a + 1 for a, b in pairwise(axes)):
            raise VerifyException(f"{cls.name}: axes {list(axes)} are no neighbours in [0, {len(sizes)})")
        if len(attributes["count"]) != 1 or attributes["count"][0].constant_or(1) < 1:
            raise VerifyException(f"{cls.name}: count {list(attributes['count'])} is not one size of at least 1")
        if len(attributes["length"]) > 1:
            raise VerifyException(f"{cls.name}: length {list(attributes['length'])} is more than one size")
        count: Size = attributes["count"][0]
        (length,) = attributes["length"] or [(numel([sizes[axis] for axis in axes]) + count - 1) // count]
        return [tensor(same_dtype(cls.name, operands), [*sizes[: axes[0]], count, length, *sizes[axes[-1] + 1 :]])]

    @property
    def axes(self) -> tuple[int, ...]:
        return self.integers("axes")

    @property
    def total(self) -> Size:
        """How many elements the axes have together."""
        return numel([self.operand_sizes()[axis] for axis in self.axes])

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        (x, value), first, after = operands, self.axes[0], self.axes[-1] + 1
        sizes = [size.evaluate(env) for size in self.result_sizes]
        before, behind = x.shape[:first], x.shape[after:]
        flat = np.full((*before, sizes[first] * sizes[first + 1], *behind), value, x.dtype)
        total = self.total.evaluate(env)
        flat[(slice(None),) * first + (slice(0, total),)] = x.reshape(*before, total, *behind)
        return [flat.reshape(sizes)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, first = points.scalars, self.axes[0]
        position = linearise(points, at[first : first + 2], self.result_sizes[first : first + 2])
        inside = scalars.compare("lt", position, points.size(self.total), unsigned=True)
        indices = delinearise(points, position, [self.operand_sizes()[axis] for axis in self.axes])
        place = (*at[:first], *indices, *at[first + 2 :])
        return operand_within(points, 0, place, [inside], lambda: points.operand(1, ()))


__all__ = ["Chunk"]
