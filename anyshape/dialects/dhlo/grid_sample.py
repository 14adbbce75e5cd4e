"""Sampling at positions that are data: PyTorch's `grid_sample`, spatial transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Points, Sample, same_dtype
from anyshape.dialects.dhlo.elementwise import operand_within, rounded, widened
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.resize import CUBIC, cubic_weights
from anyshape.dialects.dhlo.windows import Sampling, in_bounds
from anyshape.dialects.dtypes import F32, F64, FLOATS, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_PADDINGS = ("zeros", "border", "reflection")
Tap = tuple[SSAValue, SSAValue, SSAValue | None]
"""An index into an axis, whether it lies there, and its weight; None where that is 1."""


class GridSample(Sampling, op="grid_sample"):
    """result[b, c, o…] = Σ weights · x[b, c, taps…] around the position grid[b, o…, :], whose last component is that on the first axis.

    −1 and 1 are the centres of the first and the last element with `align_corners`, else the outer edges of x. `mode` weighs the
    nearest element (of two the even one), the two around a position by distance, or four by the cubic kernel with a = −0.75.
    A position outside of x is moved to the nearest inside (`border`) or mirrored at the ends (`reflection`), for `cubic` each tap
    is; what then is still outside (`zeros`: all of it) counts as 0. Positions of f16 and bf16 are computed in f32.
    """

    DEFAULTS: ClassVar = {"mode": REQUIRED, "padding": REQUIRED, "align_corners": False}
    SAMPLES = (
        *(
            Sample(
                ((2, 3, M, N), (2, K, 5, 2)), {"mode": mode, "padding": padding, "align_corners": corners},
                FLOATS if (mode, padding) == ("linear", "zeros") else (F32,), values={0: "unit", 1: "unit"},
                minimum=dict.fromkeys("mnk", 1),
                oracle=Oracle("aten.grid_sampler_2d.default", (Arg(0), Arg(1), number, place, corners)),
            )
            for number, mode in enumerate(("linear", "nearest", "cubic"))
            for place, padding in enumerate(_PADDINGS)
            for corners in (False, True)
            if mode != "nearest"
        ),
        Sample(
            ((2, 3, M, N, 4), (2, K, 1, 5, 3)), {"mode": "linear", "padding": "border", "align_corners": True},
            (F32, F64), values={0: "unit", 1: "unit"}, minimum=dict.fromkeys("mnk", 1),
            oracle=Oracle("aten.grid_sampler_3d.default", (Arg(0), Arg(1), 0, 1, True)),
        ),
        Sample(
            ((2, 3, M, N), (2, K, 5, 2)), {"mode": "nearest", "padding": "border", "align_corners": False}, (F64,),
            values={0: "unit", 1: "unit"}, minimum=dict.fromkeys("mnk", 1),
            oracle=Oracle("aten.grid_sampler_2d.default", (Arg(0), Arg(1), 1, 1, False)),
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes a tensor and a grid")
        if attributes["mode"] not in _TAPS or attributes["padding"] not in _PADDINGS:
            raise VerifyException(
                f"{cls.name}: {dict(attributes)}, expected one of {list(_TAPS)} and of {list(_PADDINGS)}"
            )
        sizes, grid = (sizes_of(operand) for operand in operands)
        count = len(sizes) - 2
        if len(grid) != len(sizes) or grid[-1] != Size.const(count) or grid[0] != sizes[0]:
            raise VerifyException(
                f"{cls.name}: a grid of {list(map(str, grid))} for a tensor of {list(map(str, sizes))}"
            )
        return [tensor(same_dtype(cls.name, operands, lambda dtype: dtype.is_float), (*sizes[:2], *grid[1:-1]))]

    @property
    def mode(self) -> str:
        return self.attribute("mode")

    @property
    def padding(self) -> str:
        return self.attribute("padding")

    @property
    def real(self) -> DType:
        """The dtype of positions and weights."""
        return accumulation_dtype(self.result_dtype)

    def points_read(self) -> int:
        return _TAPS[self.mode] ** (len(self.result_sizes) - 2)

    # -- by numpy -------------------------------------------------------------------------------------------------

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, grid = (widened(operand) for operand in operands)
        count = x.ndim - 2
        with np.errstate(all="ignore"):
            axes = [self._taps_of(grid[..., count - 1 - axis], x.shape[2 + axis]) for axis in range(count)]
            result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
            batch = np.arange(int(x.shape[0])).reshape(-1, *[1] * count)
            for taps in product(*axes):
                inside = np.logical_and.reduce([inside for _, inside, _ in taps])
                places = tuple(np.where(inside, index, 0) for index, _, _ in taps)
                values = np.moveaxis(x, 1, -1)[(batch, *places)]
                weight = np.prod([weight for _, _, weight in taps], axis=0)
                result += np.moveaxis(np.where(inside[..., None], values, 0) * weight[..., None], -1, 1)
        return [rounded(result, self.result_dtype)]

    def _taps_of(self, position: Array, extent: int) -> list[tuple[Array, Array, Array]]:
        """Index, whether it is in x, and weight of each tap at these positions."""
        source = (
            (position + 1) / 2 * (extent - 1) if self.attribute("align_corners") else ((position + 1) * extent - 1) / 2
        )
        source = source if self.mode == "cubic" else self._moved(source, extent)
        match self.mode:
            case "nearest":
                taps = [(np.round(source), np.ones_like(source))]
            case "linear":
                low = np.floor(source)
                taps = [(low, low + 1 - source), (low + 1, source - low)]
            case _:
                low = np.floor(source)
                t, a = source - low, CUBIC
                far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
                near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
                weights = [far[0], near[0], near[1], far[1]]
                taps = [(self._moved(low + offset, extent), weight) for offset, weight in enumerate(weights, -1)]
        safe = [np.clip(np.nan_to_num(place, nan=-1.0), -1, extent).astype(np.int64) for place, _ in taps]
        return [(at, (at >= 0) & (at < extent), weight) for at, (_, weight) in zip(safe, taps, strict=True)]

    def _moved(self, source: Array, extent: int) -> Array:
        """A position moved into x as the padding says."""
        if self.padding == "reflection":
            low, span = (0.0, float(extent - 1)) if self.attribute("align_corners") else (-0.5, float(extent))
            distance = np.abs(source - low)
            rest, flips = np.fmod(distance, span or 1.0), np.floor(distance / (span or 1.0))
            source = np.where(flips % 2 == 0, rest + low, span - rest + low) if span else np.zeros_like(source)
        return source if self.padding == "zeros" else np.clip(source, 0, extent - 1)

    # -- one element ----------------------------------------------------------------------------------------------

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, count = points.scalars, len(at) - 2
        dtype, real = self.result_dtype, self.real
        axes: list[list[Tap]] = []
        for axis in range(count):
            place = [at[0], *at[2:], points.size(count - 1 - axis)]
            position = scalars.convert(points.operand(1, place), dtype, real)
            axes.append(self._taps(points, position, self.operand_sizes()[2 + axis]))
        total: SSAValue | None = None
        for taps in product(*axes):
            place, conditions = [*at[:2], *(index for index, _, _ in taps)], [inside for _, inside, _ in taps]
            value = operand_within(points, 0, place, conditions, lambda: scalars.constant(0, dtype.scalar))
            value = scalars.convert(value, dtype, real)
            for _, _, weight in taps:
                value = value if weight is None else scalars.mul(value, weight)
            total = value if total is None else scalars.add(total, value)
        assert total is not None
        return scalars.convert(total, real, dtype)

    def _taps(self, points: Points, position: SSAValue, size: Size) -> list[Tap]:
        """The taps of an axis of `size` elements at a position in [−1, 1]."""
        scalars = points.scalars

        def constant(value: float) -> SSAValue:
            return scalars.constant(value, position.type)

        extent = scalars.position_of(points.size(size), self.real)
        moved = scalars.add(position, constant(1))
        if self.attribute("align_corners"):
            source = scalars.mul(scalars.mul(moved, constant(0.5)), scalars.sub(extent, constant(1)))
        else:
            source = scalars.mul(scalars.sub(scalars.mul(moved, extent), constant(1)), constant(0.5))
        if self.mode != "cubic":
            source = self._inside(scalars, source, extent)
        if self.mode == "nearest":
            return [self._tap(points, scalars.function("roundeven", source), extent, size, None)]
        low = scalars.function("floor", source)
        distance = scalars.sub(source, low)
        if self.mode == "linear":
            high = scalars.add(low, constant(1))
            pairs = [(low, scalars.sub(high, source)), (high, distance)]
        else:
            places = [scalars.add(low, constant(offset)) for offset in range(-1, 3)]
            moved_places = [self._inside(scalars, place, extent) for place in places]
            pairs = list(zip(moved_places, cubic_weights(scalars, distance), strict=True))
        return [self._tap(points, place, extent, size, weight) for place, weight in pairs]

    def _tap(self, points: Points, place: SSAValue, extent: SSAValue, size: Size, weight: SSAValue | None) -> Tap:
        """A whole position as an index; far outside, and NaN, become −1 or the size, which are outside too."""
        scalars = points.scalars
        outside = scalars.constant(-1, place.type)
        near = scalars.minimum(scalars.maximum(place, outside), extent)
        near = scalars.select(scalars.is_nan(place), outside, near)
        index = scalars.index_at(near, self.real)
        return index, in_bounds(points, index, size), weight

    def _inside(self, scalars: Scalars, source: SSAValue, extent: SSAValue) -> SSAValue:
        """A position moved into x as the padding says."""
        if self.padding == "zeros":
            return source

        def constant(value: float) -> SSAValue:
            return scalars.constant(value, source.type)

        last = scalars.sub(extent, constant(1))
        if self.padding == "reflection":
            corners: bool = self.attribute("align_corners")
            low, span = constant(0 if corners else -0.5), last if corners else extent
            some = scalars.compare("gt", span, constant(0))
            span = scalars.select(some, span, constant(1))
            distance = scalars.function("abs", scalars.sub(source, low))
            flips = scalars.function("floor", scalars.div(distance, span))
            rest = scalars.rem(distance, span)
            half = scalars.mul(flips, constant(0.5))
            even = scalars.compare("eq", scalars.function("floor", half), half)
            mirrored = scalars.select(even, scalars.add(rest, low), scalars.add(scalars.sub(span, rest), low))
            source = scalars.select(some, mirrored, constant(0))
        return scalars.minimum(scalars.maximum(source, constant(0)), last)


__all__ = ["GridSample"]
