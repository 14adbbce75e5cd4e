"""Padding by elements of the tensor itself: mirrored, repeated, or from the other end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Points, Sample, Sym
from anyshape.dialects.dhlo.elementwise import NUMERIC
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.windows import Sampling, in_bounds
from anyshape.dialects.dtypes import F32
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Facts, Size

M, N, K = (Size.symbol(name) for name in "mnk")
ZERO = Size.const(0)
_NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class BorderPad(Sampling, op="border_pad"):
    """result[i…] = x[p(i − low)…]; sizes are low + size + high, where a negative amount crops.

    `reflect`: p mirrors at the first and the last element, which are not repeated; `replicate`: p is the nearest element;
    `circular`: p counts on from the other end. What is added is less than a mirrored axis, no more than one that is gone round.
    """

    DEFAULTS: ClassVar = {"mode": REQUIRED, "low": REQUIRED, "high": REQUIRED}
    SIZE_ATTRIBUTES = ("low", "high")
    SAMPLES = (
        *(
            Sample(
                ((2, M + 3, N + 4),), {"mode": mode, "low": (0, 2, K), "high": (0, 0, 3)}, NUMERIC if mode == "replicate" else (F32,),
                minimum={"n": 33}, oracle=Oracle("aten._pad_enum.default", (Arg(0), (Sym("k"), 3, 2, 0), number)),
            )
            for number, mode in enumerate(("reflect", "replicate", "circular"))
        ),
        Sample(
            ((2, M + 3),), {"mode": "reflect", "low": (0, -1), "high": (0, 2)}, (F32,),
            oracle=Oracle("aten.reflection_pad1d.default", (Arg(0), (-1, 2))),
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, low, high = one_operand(cls.name, operands), attributes["low"], attributes["high"]
        if attributes["mode"] not in _NUMPY:
            raise VerifyException(f'{cls.name}: mode is "{attributes["mode"]}", expected one of {list(_NUMPY)}')
        sizes = sizes_of(operand)
        if not len(low) == len(high) == len(sizes):
            raise VerifyException(f"{cls.name}: low and high must have one entry for each of {len(sizes)} axes")
        return [tensor(dtype_of(operand), [a + size + b for a, size, b in zip(low, sizes, high, strict=True)])]

    def points_read(self) -> int:
        return 2

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        (x,) = operands
        if 0 in x.shape or 0 in [size.evaluate(env) for size in self.result_sizes]:
            return [np.zeros([size.evaluate(env) for size in self.result_sizes], x.dtype)]
        padded = x
        for axis, (low, high) in enumerate(zip(self.size_list("low"), self.size_list("high"), strict=True)):
            before, after = low.evaluate(env), high.evaluate(env)
            padded = _padded(padded, axis, before, after, _NUMPY[self.attribute("mode")])
        return [padded]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        plain: list[SSAValue] = []
        source: list[SSAValue] = []
        for index, low, high, size in zip(
            at, self.size_list("low"), self.size_list("high"), self.operand_sizes(), strict=True
        ):
            local = index if low == ZERO else scalars.sub(index, points.size(low))
            plain.append(local)
            source.append(local if low == ZERO and high == ZERO else self._source(points, local, size))
        part = points.part(at[-1])
        if plain[-1] is source[-1] or part is not None:
            last = source[-1] if part is None or part.local is None else part.local
            return points.operand(0, [*source[:-1], last])
        # Along the last axis, neighbours inside x are one vector: only the few beside it are gathered.
        inside = in_bounds(points, plain[-1], self.operand_sizes()[-1])
        with points.guarded(inside):
            near = points.operand(0, [*source[:-1], plain[-1]])
        with points.guarded(scalars.logical_not(inside)):
            far = points.operand(0, source)
        return scalars.select(inside, near, far)

    def _source(self, points: Points, local: SSAValue, size: Size) -> SSAValue:
        """p of a position that may lie outside of an axis."""
        scalars, zero, last = points.scalars, points.size(0), points.size(size - 1)
        match self.attribute("mode"):
            case "reflect":
                before = scalars.maximum(local, scalars.sub(zero, local))
                beyond = scalars.sub(last, before)
                return scalars.sub(last, scalars.maximum(beyond, scalars.sub(zero, beyond)))
            case "replicate":
                return scalars.minimum(scalars.maximum(local, zero), last)
            case _:
                extent = points.size(size)
                later = scalars.select(scalars.compare("lt", local, zero), scalars.add(local, extent), local)
                return scalars.select(scalars.compare("gt", later, last), scalars.sub(later, extent), later)

    @law(
        "border_pad by 0 -> x",
        example=lambda g: g(BorderPad, g.input("m", "n"), mode="reflect", low=(0, 0), high=(0, 0)),
    )
    def by_nothing(self, builder: Builder, facts: Facts) -> Simplified:
        amounts = (*self.size_list("low"), *self.size_list("high"))
        return self.operands[0] if all(amount == ZERO for amount in amounts) else None


def _padded(x: Array, axis: int, before: int, after: int, mode: str) -> Array:
    """One axis padded by numpy, or cropped by a negative amount."""
    added = [(max(0, before), max(0, after)) if each == axis else (0, 0) for each in range(x.ndim)]
    padded = cast(Array, np.pad(x, added, mode=mode))  # pyright: ignore[reportCallIssue, reportArgumentType]
    end = int(padded.shape[axis]) + min(0, after)
    return np.take(padded, np.arange(max(0, -before), end), axis=axis)


__all__ = ["BorderPad"]
