"""Windows of a tensor: the last axes of x cut into positions and places within a window, read where they lie.

The result is never in memory where a reduction over the window axes follows: that is pooling with large windows. `pooling.py` walks
small windows itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Oracle, Points, Sample, same_dtype
from anyshape.dialects.dhlo.base import Arg as Operand
from anyshape.dialects.dhlo.elementwise import operand_within
from anyshape.dialects.dtypes import F32, I64
from anyshape.dialects.sizes import Tensor, rank_of, sizes_of, tensor
from anyshape.symbolic import Size, size_max, size_min

M, N, K = (Size.symbol(name) for name in "mnk")
ZERO, ONE = Size.const(0), Size.const(1)
Place = tuple[SSAValue, SSAValue | None]
"""An index value into an axis, and the i1 that says whether it lies in the axis; None where it always does."""


class Sampling(DhloOp, ABC):
    """An op whose element reads operand 0 at several points, or at one that its own index tells."""

    @abstractmethod
    def points_read(self) -> int:
        """At how many points one element of the result reads operand 0, as fusion counts."""

    @property
    def cost(self) -> int:
        """Simple operations for one element of the result, its operands' not counted."""
        return 4 * self.points_read()


class WindowsFamily(Sampling, ABC):
    """result[i…, o…, k…] = x[i…, p(o, k)…], or operand 1, of rank 0, where a place p is not in x or not in its window.

    The windowed axes are the last ones, as many as `sizes` names; they become the positions o of `sizes`, and behind all of them
    come the places k within a window.
    """

    DEFAULTS: ClassVar = {"sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)

    @classmethod
    @abstractmethod
    def window_of(cls, sizes: Sequence[Size], attributes: Mapping[str, Any]) -> Sequence[Size]:
        """How many places each windowed axis has, from the sizes of these axes of x."""

    @abstractmethod
    def place(self, points: Points, axis: int, position: SSAValue, within: SSAValue) -> Place:
        """p(o, k) on windowed axis `axis`."""

    @abstractmethod
    def places(self, axis: int, extent: int, positions: Array, within: Array, env: Environment) -> tuple[Array, Array]:
        """p(o, k) by numpy and whether it is one, on an axis of `extent` elements; `positions` and `within` are broadcast."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2 or rank_of(operands[1]) != 0:
            raise VerifyException(f"{cls.name} takes a tensor and a value of rank 0")
        sizes, targets = sizes_of(operands[0]), attributes["sizes"]
        first = len(sizes) - len(targets)
        if first < 0:
            raise VerifyException(f"{cls.name}: {len(targets)} windowed axes, but the tensor has {len(sizes)}")
        window = cls.window_of(sizes[first:], attributes)
        return [tensor(same_dtype(cls.name, operands), (*sizes[:first], *targets, *window))]

    @property
    def count(self) -> int:
        """How many axes are windowed."""
        return len(self.size_list("sizes"))

    @property
    def windowed_sizes(self) -> tuple[Size, ...]:
        """The sizes of x's windowed axes."""
        return self.operand_sizes()[len(self.operand_sizes()) - self.count :]

    def points_read(self) -> int:
        return 1

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, fill = operands
        result = [size.evaluate(env) for size in self.result_sizes]
        first = x.ndim - self.count

        def places(axis: int, positions: Array, within: Array) -> tuple[Array, Array]:
            return self.places(axis, x.shape[first + axis], positions, within, env)

        windows, inside = windowed(x, result[first : x.ndim], result[x.ndim :], places)
        return [np.where(inside, windows, fill).astype(x.dtype)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        first = len(self.operand_sizes()) - self.count
        source, conditions = list(at[:first]), list[SSAValue]()
        for axis in range(self.count):
            index, inside = self.place(points, axis, at[first + axis], at[first + self.count + axis])
            source.append(index)
            if inside is not None:
                conditions.append(inside)
        return operand_within(points, 0, source, conditions, lambda: points.operand(1, ()))


def windowed(
    x: Array,
    positions: Sequence[int],
    window: Sequence[int],
    places: Callable[[int, Array, Array], tuple[Array, Array]],
) -> tuple[Array, Array]:
    """[i…, o…, k…] by numpy: x at `places(axis, o, k)` on its last axes, and whether these are valid and in x (else any element)."""
    first, count = x.ndim - len(positions), len(positions)
    result = (*x.shape[:first], *positions, *window)
    inside = np.ones([1] * len(result), np.bool_)
    taken = [_along(extent, axis, len(result)) for axis, extent in enumerate(x.shape[:first])]
    for axis in range(count):
        at, place = first + axis, first + count + axis
        where, valid = places(axis, *(_along(result[each], each, len(result)) for each in (at, place)))
        inside = inside & valid & (where >= 0) & (where < x.shape[at])
        taken.append(np.where((where >= 0) & (where < x.shape[at]), where, 0))
    inside = np.broadcast_to(inside, result)
    if x.size == 0 or 0 in result:
        return np.zeros(result, x.dtype), inside
    return np.broadcast_to(x[tuple(taken)], result), inside


def _along(extent: int, axis: int, rank: int) -> Array:
    """0, 1, 2, … along one axis of a tensor."""
    return np.arange(extent).reshape([-1 if each == axis else 1 for each in range(rank)])


def in_bounds(points: Points, index: SSAValue, size: Size) -> SSAValue:
    """0 <= index < size."""
    return points.scalars.compare("lt", index, points.size(size), unsigned=True)


class Windows(WindowsFamily, op="windows"):
    """result[i…, o…, k…] = x[i…, (o·stride + k·dilation − low)…] inside x, else operand 1 (PyTorch's unfold, im2col)."""

    DEFAULTS: ClassVar = {
        "window": REQUIRED,
        "strides": REQUIRED,
        "dilation": REQUIRED,
        "low": REQUIRED,
        "sizes": REQUIRED,
    }
    SIZE_ATTRIBUTES = ("window", "sizes", "low")
    SAMPLES = (
        Sample(
            ((M, N + 3), ()), {"window": (3,), "strides": (1,), "dilation": (1,), "low": (0,), "sizes": (N + 1,)},
            dtypes=(F32, I64), values={1: "zero"}, oracle=Oracle("aten.unfold.default", (Operand(0), 1, 3, 1)),
        ),
        Sample(
            ((K, M, N), ()),
            {"window": (2, 3), "strides": (2, 1), "dilation": (1, 2), "low": (1, 2), "sizes": ((M + 2) // 2, N)},
            dtypes=(F32,), values={1: "zero"},
        ),
    )  # fmt: skip

    @classmethod
    def window_of(cls, sizes: Sequence[Size], attributes: Mapping[str, Any]) -> Sequence[Size]:
        lists = {key: len(attributes[key]) for key in ("window", "strides", "dilation", "low")}
        if any(length != len(sizes) for length in lists.values()):
            raise VerifyException(f"{cls.name}: {lists} entries, expected {len(sizes)} of each")
        return attributes["window"]

    def points_read(self) -> int:
        """So often neighbouring windows read an element again, as far as it is known."""
        overlap = 1
        for window, stride in zip(self.size_list("window"), self.integers("strides"), strict=True):
            overlap *= max(1, -(-window.constant_or(stride) // stride))
        return overlap

    def place(self, points: Points, axis: int, position: SSAValue, within: SSAValue) -> Place:
        stride, dilation = self.integers("strides")[axis], self.integers("dilation")[axis]
        low, size, window = self.size_list("low")[axis], self.windowed_sizes[axis], self.size_list("window")[axis]
        index = window_place(points, position, within, stride, dilation, low)
        if low == ZERO and fits(size, self.size_list("sizes")[axis], window, stride, dilation):
            return index, None
        return index, in_bounds(points, index, size)

    def places(self, axis: int, extent: int, positions: Array, within: Array, env: Environment) -> tuple[Array, Array]:
        stride, dilation = self.integers("strides")[axis], self.integers("dilation")[axis]
        where = positions * stride + within * dilation - self.size_list("low")[axis].evaluate(env)
        return where, np.ones(where.shape, np.bool_)


def window_place(
    points: Points, position: SSAValue, within: SSAValue, stride: int, dilation: int, low: Size
) -> SSAValue:
    """position·stride + within·dilation − low."""
    scalars = points.scalars
    start = position if stride == 1 else scalars.mul(position, points.size(stride))
    step = within if dilation == 1 else scalars.mul(within, points.size(dilation))
    index = scalars.add(start, step)
    return index if low == ZERO else scalars.sub(index, points.size(low))


def fits(size: Size, positions: Size, window: Size, stride: int, dilation: int) -> bool:
    """Whether `positions` windows that begin in x end in it, since no more of them would."""
    return positions in {
        (size - dilation * (window - 1) - 1) // stride + 1,
        (size - dilation * (window - 1) - 1 + stride) // stride,
    }


class AdaptiveWindows(WindowsFamily, op="adaptive_windows"):
    """result[i…, o…, k…] = x[i…, (s(o) + k)…] where s(o) + k < s'(o), else operand 1: window o is [s(o), s'(o)),
    s(o) = ⌊o·n/m⌋, s'(o) = ⌈(o + 1)·n/m⌉ of an axis of n elements that becomes m; they cover x and overlap by one at most.

    The window axes have `window` places, as many as the longest window: `longest_window`.
    """

    DEFAULTS: ClassVar = {"window": REQUIRED, "sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("window", "sizes")
    SAMPLES = (
        Sample(((M, N), ()), {"window": (N // 3 + 2,), "sizes": (3,)}, dtypes=(F32, I64), values={1: "zero"}),
        Sample(
            ((K, M, N), ()), {"window": (M // K + 2, N // 5 + 2), "sizes": (K, 5)}, dtypes=(F32,), values={1: "zero"},
            minimum={"k": 1},
        ),
    )  # fmt: skip

    @classmethod
    def window_of(cls, sizes: Sequence[Size], attributes: Mapping[str, Any]) -> Sequence[Size]:
        if len(attributes["window"]) != len(sizes):
            raise VerifyException(f"{cls.name}: {len(attributes['window'])} windows for {len(sizes)} axes")
        return attributes["window"]

    def place(self, points: Points, axis: int, position: SSAValue, within: SSAValue) -> Place:
        scalars, (size, target) = points.scalars, (self.windowed_sizes[axis], self.size_list("sizes")[axis])
        if size.is_constant and target.is_constant and target.value > 0 and size.value % target.value == 0:
            start = scalars.mul(position, points.size(size.value // target.value))
            return scalars.add(start, within), None
        start, end = adaptive_bounds(points, position, size, target)
        index = scalars.add(start, within)
        return index, scalars.compare("lt", index, end)

    def places(self, axis: int, extent: int, positions: Array, within: Array, env: Environment) -> tuple[Array, Array]:
        target = max(1, self.size_list("sizes")[axis].evaluate(env))
        where = positions * extent // target + within
        return where, where < -(-(positions + 1) * extent // target)


def longest_window(size: Size, target: Size) -> Size:
    """⌊n/m⌋, and up to two more where m does not divide n: no adaptive window has more places."""
    by = size_max(target, 1)
    return size // by + size_min(size % by, 2)


def adaptive_bounds(points: Points, position: SSAValue, size: Size, target: Size) -> tuple[SSAValue, SSAValue]:
    """s(o) and s'(o) of an axis of `size` elements that becomes `target`."""
    scalars, extent = points.scalars, points.size(size)
    by = points.size(size_max(target, 1))
    scaled = scalars.mul(position, extent)
    beyond = scalars.add(scalars.add(scaled, extent), points.size(size_max(target, 1) - 1))
    return scalars.trunc_div(scaled, by, unsigned=True), scalars.trunc_div(beyond, by, unsigned=True)


__all__ = [
    "AdaptiveWindows",
    "Sampling",
    "Windows",
    "WindowsFamily",
    "adaptive_bounds",
    "fits",
    "in_bounds",
    "longest_window",
    "window_place",
    "windowed",
]
