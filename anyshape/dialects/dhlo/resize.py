"""Resizing: the last axes of x sampled at as many points as the result is to have, with the conventions of PyTorch's `interpolate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, f64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Points, Sample, Sym
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.windows import Sampling
from anyshape.dialects.dtypes import F32, F64, FLOATS, U8, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")
CUBIC = -0.75
"""The free coefficient of the cubic kernel (Keys, 1981, there a); PyTorch and OpenCV have −0.75."""
TAPS: Mapping[str, int] = {"nearest": 1, "nearest-exact": 1, "linear": 2, "cubic": 4}
"""The elements of an axis that each mode weighs."""


def floats(*values: float) -> DenseArrayBase[Any]:
    """An attribute that holds a list of floats."""
    return DenseArrayBase.from_list(f64, list(values))


Taps: TypeAlias = "list[tuple[SSAValue, SSAValue | None]]"
"""Indices into an axis with their weights; None where the only weight is 1."""


class Resize(Sampling, op="resize"):
    """result[i…, o…] = Σ weights · x at taps around src(o) on each of the last axes, which get `sizes`.

    With r = n/m for an axis of n elements that gets m, or 1/scale where `scales`, floats as an attribute, has one that is not 0
    (for nearest, as in PyTorch's kernels, only where m is neither n nor 2n):

    | mode | src(o) | taps |
    |---|---|---|
    | nearest | ⌊o·r⌋ | that one |
    | nearest-exact | ⌊(o + ½)·r⌋ | that one |
    | linear | max((o + ½)·r − ½, 0) | the two around it, by their distance |
    | cubic | (o + ½)·r − ½ | the four around it, by the cubic kernel with a = −0.75 |

    `align_corners`: linear and cubic have src(o) = o·(n − 1)/(m − 1), 0 for m = 1. A tap outside x is the nearest inside. Positions are
    f32, of f64 tensors f64 for linear and cubic; f16 and bf16 are weighed in f32. Axes have an element at least.
    """

    DEFAULTS: ClassVar = {"mode": REQUIRED, "sizes": REQUIRED, "align_corners": False, "scales": ()}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (
        Sample(
            ((2, 3, M), ), {"mode": "nearest", "sizes": (N,)}, (*FLOATS, U8), minimum={"m": 1, "n": 1},
            oracle=Oracle("aten.upsample_nearest1d.default", (Arg(0), (Sym("n"),))),
        ),
        Sample(
            ((2, 1, M), ), {"mode": "nearest", "sizes": (M + 3 * M // 10,), "scales": floats(1.3)}, (F32,), minimum={"m": 1},
            oracle=Oracle("aten.upsample_nearest1d.default", (Arg(0), (Sym("m+((3*m) floordiv 10)"),), 1.3)),
        ),
        Sample(
            ((2, 1, M, N), ), {"mode": "nearest-exact", "sizes": (N, M)}, (F32,), minimum={"m": 1, "n": 1},
            oracle=Oracle("aten._upsample_nearest_exact2d.default", (Arg(0), (Sym("n"), Sym("m")))),
        ),
        *(
            Sample(
                ((2, 1, M, N), ), {"mode": mode, "sizes": (K, 2 * N), "align_corners": corners}, dtypes, values={0: "unit"},
                minimum=dict.fromkeys("mnk", 1), oracle=Oracle(target, (Arg(0), (Sym("k"), Sym("2*n")), corners)),
            )
            for mode, target in (("linear", "aten.upsample_bilinear2d.default"), ("cubic", "aten.upsample_bicubic2d.default"))
            for corners, dtypes in ((False, FLOATS), (True, (F32,)))
        ),
        Sample(
            ((2, 1, M), ), {"mode": "linear", "sizes": (M + M // 2,), "scales": floats(1.5)}, (F32, F64), values={0: "unit"},
            minimum={"m": 2}, oracle=Oracle("aten.upsample_linear1d.default", (Arg(0), (Sym("m+(m floordiv 2)"),), False, 1.5)),
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, targets, mode = one_operand(cls.name, operands), attributes["sizes"], attributes["mode"]
        sizes, dtype = sizes_of(operand), dtype_of(operand)
        if mode not in TAPS:
            raise VerifyException(f'{cls.name}: mode is "{mode}", expected one of {list(TAPS)}')
        if dtype.is_bool or (TAPS[mode] > 1 and not dtype.is_float):
            raise VerifyException(f"{cls.name}: {mode} does not take {dtype}")
        if len(targets) > len(sizes) or len(attributes["scales"]) not in (0, len(targets)):
            raise VerifyException(
                f"{cls.name}: {len(targets)} sizes and {len(attributes['scales'])} scales for {len(sizes)} axes"
            )
        return [tensor(dtype, (*sizes[: len(sizes) - len(targets)], *targets))]

    @property
    def mode(self) -> str:
        return self.attribute("mode")

    @property
    def count(self) -> int:
        """How many axes are resized."""
        return len(self.size_list("sizes"))

    @property
    def resized(self) -> tuple[Size, ...]:
        """The sizes of x's axes that are resized."""
        return self.operand_sizes()[len(self.operand_sizes()) - self.count :]

    @property
    def positions(self) -> DType:
        """The dtype of positions and weights."""
        return F64 if self.operand_dtype() == F64 and TAPS[self.mode] > 1 else F32

    def points_read(self) -> int:
        return TAPS[self.mode] ** self.count

    def scale(self, axis: int) -> float:
        """The scale that was given for an axis; 0 where it follows from the sizes."""
        scales: tuple[float, ...] = self.attribute("scales")
        return scales[axis] if scales and scales[axis] > 0 and not self.attribute("align_corners") else 0.0

    # -- by numpy -------------------------------------------------------------------------------------------------

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        for axis, target in enumerate(self.size_list("sizes")):
            at = x.ndim - self.count + axis
            indices, weights = self._taps_of(axis, x.shape[at], target.evaluate(env))
            taken = np.take(x, indices.reshape(-1), axis=at)
            taken = taken.reshape(*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
            if TAPS[self.mode] == 1:
                x = np.squeeze(taken, at + 1)
                continue
            with np.errstate(all="ignore"):
                x = (taken * weights.reshape(*weights.shape, *[1] * (x.ndim - at - 1))).sum(axis=at + 1)
        return [rounded(x, self.result_dtype)]

    def _taps_of(self, axis: int, extent: int, target: int) -> tuple[Array, Array]:
        """[o, tap] of an axis: indices and weights."""
        real = np.float32 if TAPS[self.mode] == 1 else np.float64
        scale, where = self.scale(axis), np.arange(target, dtype=real)
        if self.attribute("align_corners"):
            ratio = real(max(extent - 1, 0)) / real(target - 1) if target > 1 else real(0)
        else:
            by_sizes = not scale or (self.mode == "nearest" and target in (extent, 2 * extent))
            ratio = real(extent) / real(max(target, 1)) if by_sizes else real(1.0 / scale)
        match self.mode:
            case "nearest" | "nearest-exact":
                index = np.floor((where + real(0.5 if self.mode == "nearest-exact" else 0)) * ratio).astype(np.int64)
                return np.minimum(index, extent - 1)[:, None], np.ones((target, 1))
            case _:
                pass
        source = where * ratio if self.attribute("align_corners") else (where + 0.5) * ratio - 0.5
        if extent == target:
            source = where
        if self.mode == "linear":
            source = np.maximum(source, 0)
        first = np.minimum(np.floor(source).astype(np.int64), extent - 1)
        distance = np.clip(source - first, 0, 1)
        offsets = np.arange(2) if self.mode == "linear" else np.arange(-1, 3)
        weights = [1 - distance, distance] if self.mode == "linear" else _cubic_weights_by_numpy(distance)
        return np.clip(first[:, None] + offsets, 0, extent - 1), np.stack(weights, axis=1)

    # -- one element ----------------------------------------------------------------------------------------------

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, first = points.scalars, len(at) - self.count
        axes = [self._taps(points, axis, at[first + axis]) for axis in range(self.count)]
        if TAPS[self.mode] == 1:
            return points.operand(0, [*at[:first], *(taps[0][0] for taps in axes)])
        dtype, accumulator = self.result_dtype, accumulation_dtype(self.result_dtype)
        values = {
            place: scalars.convert(points.operand(0, [*at[:first], *place]), dtype, accumulator)
            for place in product(*([index for index, _ in taps] for taps in axes))
        }
        return scalars.convert(weighted(scalars, axes, values, ()), accumulator, dtype)

    def _taps(self, points: Points, axis: int, position: SSAValue) -> Taps:
        """The taps of an axis at a position of the result."""
        scalars, real, size = points.scalars, self.positions, self.resized[axis]
        where = scalars.position_of(position, real)
        ratio = self._ratio(points, axis)
        half = scalars.constant(0.5, real.scalar)
        match self.mode:
            case "nearest":
                return [(_nearest_inside(points, scalars.mul(where, ratio), size), None)]
            case "nearest-exact":
                return [(_nearest_inside(points, scalars.mul(scalars.add(where, half), ratio), size), None)]
            case _:
                pass
        if self.attribute("align_corners"):
            source = scalars.mul(where, ratio)
        else:
            source = scalars.sub(scalars.mul(scalars.add(where, half), ratio), half)
            if self.scale(axis):  # a scale that leaves the size as it is copies
                same = scalars.compare("eq", points.size(size), points.size(self.size_list("sizes")[axis]))
                source = scalars.select(same, where, source)
        if self.mode == "linear":
            return self._linear(points, axis, scalars.maximum(source, scalars.constant(0, real.scalar)))
        return self._cubic(points, axis, source)

    def _ratio(self, points: Points, axis: int) -> SSAValue:
        """How far one step of the result goes in x."""
        scalars, real = points.scalars, self.positions
        size, target, scale = self.resized[axis], self.size_list("sizes")[axis], self.scale(axis)
        if scale:
            ratio = scalars.constant(1.0 / scale, real.scalar)
            if self.mode != "nearest":
                return ratio
            # A scale that leaves the size as it is, or doubles it, goes by the sizes.
            for multiple, whole in ((1, 1.0), (2, 0.5)):
                fits = scalars.compare("eq", points.size(target), points.size(multiple * size))
                ratio = scalars.select(fits, scalars.constant(whole, real.scalar), ratio)
            return ratio
        if not self.attribute("align_corners"):
            return scalars.div(
                scalars.position_of(points.size(size), real), scalars.position_of(points.size(target), real)
            )
        steps = points.size(target - 1)
        several = scalars.compare("gt", steps, points.size(0))
        divisor = scalars.position_of(scalars.maximum(steps, points.size(1)), real)
        ratio = scalars.div(scalars.position_of(points.size(size - 1), real), divisor)
        return scalars.select(several, ratio, scalars.constant(0, real.scalar))

    def _linear(self, points: Points, axis: int, source: SSAValue) -> Taps:
        scalars, real, last = points.scalars, self.positions, points.size(self.resized[axis] - 1)
        low = scalars.minimum(scalars.index_at(source, real), last)
        high = scalars.minimum(scalars.add(low, points.size(1)), last)
        zero, one = (scalars.constant(value, real.scalar) for value in (0, 1))
        distance = scalars.sub(source, scalars.position_of(low, real))
        distance = scalars.minimum(scalars.maximum(distance, zero), one)
        return [(low, scalars.sub(one, distance)), (high, distance)]

    def _cubic(self, points: Points, axis: int, source: SSAValue) -> Taps:
        scalars, real, last = points.scalars, self.positions, points.size(self.resized[axis] - 1)
        floor = scalars.function("floor", source)
        base = scalars.minimum(scalars.index_at(floor, real), last)
        zero, one = (scalars.constant(value, real.scalar) for value in (0, 1))
        distance = scalars.sub(source, scalars.position_of(base, real))
        distance = scalars.minimum(scalars.maximum(distance, zero), one)
        taps: Taps = []
        for offset, weight in enumerate(cubic_weights(scalars, distance), -1):
            index = scalars.add(base, points.size(offset))
            taps.append((scalars.minimum(scalars.maximum(index, points.size(0)), last), weight))
        return taps


def weighted(
    scalars: Scalars, axes: Sequence[Taps], values: Mapping[tuple[SSAValue, ...], SSAValue], place: tuple[SSAValue, ...]
) -> SSAValue:
    """Σ weights · values over the taps of the axes behind `place`, the last axis first."""
    if len(place) == len(axes):
        return values[place]
    total: SSAValue | None = None
    for index, weight in axes[len(place)]:
        assert weight is not None
        term = scalars.mul(weight, weighted(scalars, axes, values, (*place, index)))
        total = term if total is None else scalars.add(total, term)
    assert total is not None
    return total


def cubic_weights(scalars: Scalars, distance: SSAValue) -> list[SSAValue]:
    """The weights of the elements at −1, 0, 1 and 2 of a point at `distance` in [0, 1] from element 0."""

    def constant(value: float) -> SSAValue:
        return scalars.constant(value, distance.type)

    def near(x: SSAValue) -> SSAValue:
        """(a + 2)·x³ − (a + 3)·x² + 1 for x in [0, 1]"""
        inner = scalars.sub(scalars.mul(constant(CUBIC + 2), x), constant(CUBIC + 3))
        return scalars.add(scalars.mul(scalars.mul(inner, x), x), constant(1))

    def far(x: SSAValue) -> SSAValue:
        """a·x³ − 5a·x² + 8a·x − 4a for x in [1, 2]"""
        inner = scalars.sub(scalars.mul(constant(CUBIC), x), constant(5 * CUBIC))
        inner = scalars.add(scalars.mul(inner, x), constant(8 * CUBIC))
        return scalars.sub(scalars.mul(inner, x), constant(4 * CUBIC))

    rest = scalars.sub(constant(1), distance)
    return [far(scalars.add(distance, constant(1))), near(distance), near(rest), far(scalars.add(rest, constant(1)))]


def _cubic_weights_by_numpy(t: Array) -> list[Array]:
    a = CUBIC

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _nearest_inside(points: Points, source: SSAValue, size: Size) -> SSAValue:
    """⌊source⌋ of a source that is not negative, the last element at most."""
    return points.scalars.minimum(points.scalars.index_at(source, F32), points.size(size - 1))


__all__ = ["CUBIC", "TAPS", "Resize", "cubic_weights", "floats", "weighted"]
