"""Pooling: the largest, its position, or the mean of every window along the last axes.

Small windows are walked where an element is computed, large ones are a reduction over `dhlo.windows`, which is never in memory.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import Iota
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Points, Sample, same_dtype
from anyshape.dialects.dhlo.binary import Add, Divide, Maximum, Minimum, Multiply, Or, Subtract
from anyshape.dialects.dhlo.constant import Constant, SizeOf
from anyshape.dialects.dhlo.elementwise import conjunction, operand_within, rounded, widened
from anyshape.dialects.dhlo.movement import BroadcastInDim, one_operand
from anyshape.dialects.dhlo.reduction import Reduce, accumulation_dtype, emit_in_f32, spread
from anyshape.dialects.dhlo.selection import Compare, Select, converted
from anyshape.dialects.dhlo.unary import IsNan
from anyshape.dialects.dhlo.windows import Place, Sampling, Windows, fits, in_bounds, window_place, windowed
from anyshape.dialects.dtypes import F32, F64, FLOATS, I32, I64, DType
from anyshape.dialects.scalars import highest, lowest
from anyshape.dialects.sizes import Tensor, dtype_of, rank_of, sizes_of, tensor
from anyshape.symbolic import Size, SizeLike

M, N, K = (Size.symbol(name) for name in "mnk")
UNROLLED = 32
"""Windows of up to so many places are walked by the code of one element."""


class Pool(Sampling, ABC):
    """A function of each window of the last axes of x: window o has the places o·stride + k·dilation − low that lie in x.

    `sizes` says how many windows each axis has, and by its length which axes are pooled: no window may lie outside of x.
    """

    DEFAULTS: ClassVar = {
        "window": REQUIRED,
        "strides": REQUIRED,
        "dilation": REQUIRED,
        "low": REQUIRED,
        "sizes": REQUIRED,
    }
    SIZE_ATTRIBUTES = ("sizes",)

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return operand

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, targets = one_operand(cls.name, operands), attributes["sizes"]
        sizes, dtype = sizes_of(operand), same_dtype(cls.name, operands, lambda dtype: not dtype.is_bool)
        lists = {key: attributes[key] for key in ("window", "strides", "dilation", "low")}
        if any(len(each) != len(targets) for each in lists.values()) or len(targets) > len(sizes):
            raise VerifyException(f"{cls.name}: {lists} for {len(targets)} pooled axes of {len(sizes)}")
        if any(each < 1 for key in ("window", "strides", "dilation") for each in lists[key]):
            raise VerifyException(f"{cls.name}: windows, strides and dilations are 1 at least, got {lists}")
        return [tensor(cls.result_dtype_of(dtype), (*sizes[: len(sizes) - len(targets)], *targets))]

    @property
    def window(self) -> tuple[int, ...]:
        return self.integers("window")

    @property
    def pooled_sizes(self) -> tuple[Size, ...]:
        """The sizes of x's pooled axes."""
        return self.operand_sizes()[len(self.operand_sizes()) - len(self.window) :]

    def points_read(self) -> int:
        return prod(self.window)

    @property
    def has_plan(self) -> bool:
        return prod(self.window) <= UNROLLED

    # -- one element ----------------------------------------------------------------------------------------------

    def place(self, points: Points, axis: int, position: SSAValue, within: int) -> Place:
        """Where place `within` of a window lies on pooled axis `axis`."""
        stride, dilation, low = (self.integers(key)[axis] for key in ("strides", "dilation", "low"))
        index = window_place(points, position, points.size(within * dilation), stride, 1, Size.const(low))
        size, count = self.pooled_sizes[axis], self.size_list("sizes")[axis]
        if low == 0 and fits(size, count, Size.const(self.window[axis]), stride, dilation):
            return index, None
        return index, in_bounds(points, index, size)

    def places_of(self, points: Points, at: Sequence[SSAValue]) -> Iterator[tuple[list[SSAValue], SSAValue | None]]:
        """The places of the window at the result's point `at`, in row-major order: indices into x, and whether they lie in it."""
        first = len(at) - len(self.window)
        axes = [
            [self.place(points, axis, at[first + axis], within) for within in range(extent)]
            for axis, extent in enumerate(self.window)
        ]
        for place in product(*axes):
            inside = [condition for _, condition in place if condition is not None]
            yield [*at[:first], *(index for index, _ in place)], conjunction(points.scalars, inside) if inside else None

    # -- by numpy, and by reductions --------------------------------------------------------------------------------

    def windows_of(self, x: Array, env: Environment) -> tuple[Array, Array]:
        """[i…, o…, k…] by numpy, and which of these lie in x."""
        targets = [size.evaluate(env) for size in self.size_list("sizes")]
        strides, dilation, low = (self.integers(key) for key in ("strides", "dilation", "low"))

        def places(axis: int, positions: Array, within: Array) -> tuple[Array, Array]:
            return positions * strides[axis] + within * dilation[axis] - low[axis], np.ones((), np.bool_)

        return windowed(x, targets, self.window, places)

    def emit_windows(self, builder: Builder, x: SSAValue, fill: float | int) -> SSAValue:
        """x in windows, `fill` where they leave it."""
        value = Constant.emit(builder, value=fill, dtype=dtype_of(x.type), sizes=())
        return Windows.emit(builder, x, value, **{key: self.attribute(key) for key in Windows.DEFAULTS})


def window_axes(rank: int, count: int) -> tuple[int, ...]:
    """The axes behind `rank` others."""
    return tuple(range(rank, rank + count))


def pool_samples(
    target: str,
    dtypes: tuple[DType, ...],
    *,
    more: Mapping[str, Any] | None = None,
    tail: tuple[Any, ...] = (),
    result: int = 0,
) -> tuple[Sample, ...]:
    """A pool of 2×3 at strides 2 and 1, padded by 1, and a large one that is not padded."""
    small = {"window": (2, 3), "strides": (2, 1), "dilation": (1, 1), "low": (1, 1), "sizes": (M // 2 + 1, N)}
    large = {"window": (5, 7), "strides": (5, 4), "dilation": (1, 1), "low": (0, 0), "sizes": (M // 5 + 1, N // 4 + 1)}
    small_call, large_call = (Arg(0), (2, 3), (2, 1), (1, 1), *tail), (Arg(0), (5, 7), (5, 4), (0, 0), *tail)
    oracles = [Oracle(target, call, result=result) for call in (small_call, large_call)]
    least = dict.fromkeys("mnk", 1)
    return (
        Sample(((K, M, N),), {**small, **(more or {})}, dtypes, minimum=least, oracle=oracles[0]),
        Sample(((2, M + 5, N + 7),), {**large, **(more or {})}, (F32, I64) if I64 in dtypes else (F32,), oracle=oracles[1]),
    )  # fmt: skip


class MaxPool(Pool, op="max_pool"):
    """result[i…, o…] = max over the window of x; NaN where one is in it (numpy fmax is not meant)."""

    SAMPLES = pool_samples("aten.max_pool2d.default", (*FLOATS, I32, I64))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        windows, inside = self.windows_of(x, env)
        axes = window_axes(x.ndim, len(self.window))
        low = x.dtype.type(lowest(self.result_dtype))
        return [rounded(np.max(np.where(inside, windows, low), axis=axes, initial=low), self.result_dtype)]

    def _clamps(self, axis: int) -> bool:
        """Whether a place outside x may read the nearest inside, which is in the window too. Neighbours that are read as vectors,
        all or every second, are read under a mask instead."""
        in_vectors = self.integers("strides")[axis] <= 2 and axis == len(self.window) - 1
        return self.integers("dilation")[axis] == 1 and not in_vectors

    def place(self, points: Points, axis: int, position: SSAValue, within: int) -> Place:
        index, inside = super().place(points, axis, position, within)
        if inside is None or not self._clamps(axis):
            return index, inside
        scalars, last = points.scalars, self.pooled_sizes[axis] - 1
        return scalars.minimum(scalars.maximum(index, points.size(0)), points.size(last)), None

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, dtype = points.scalars, self.result_dtype
        result: SSAValue | None = None
        for place, inside in self.places_of(points, at):
            conditions = [] if inside is None else [inside]
            value = operand_within(points, 0, place, conditions, lambda: scalars.constant(lowest(dtype), dtype.scalar))
            result = value if result is None else scalars.maximum(result, value, unsigned=dtype.is_unsigned)
        assert result is not None
        return result

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        windows = self.emit_windows(rewriter, self.operands[0], lowest(self.result_dtype))
        axes = window_axes(rank_of(self.operands[0].type), len(self.window))
        return [Reduce.emit(rewriter, windows, axes=axes, kind="max")]


class MaxPoolIndex(Pool, op="max_pool_index"):
    """result[i…, o…] = where in the pooled axes of x, taken as one in row-major order, the window is largest, as i64.

    The first place of equal ones, the last NaN where there is any (PyTorch's `max_pool2d_with_indices`).
    """

    SAMPLES = pool_samples("aten.max_pool2d_with_indices.default", (F32, F64, I32, I64), result=1)

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return I64

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        windows, inside = self.windows_of(x, env)
        count = len(self.window)
        flat = row_major_places(x.shape, count)
        places, _ = self.windows_of(flat, env)
        return [largest_place(windows, places, inside, window_axes(x.ndim, count))]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, dtype = points.scalars, self.operand_dtype()
        first = len(at) - len(self.window)
        best: SSAValue | None = None
        where = points.size(0)
        # From the last place to the first, so that the last choice is the first of equal ones; a NaN ends the search.
        for place, inside in reversed(list(self.places_of(points, at))):
            flat = place[first]
            for index, size in zip(place[first + 1 :], self.pooled_sizes[1:], strict=True):
                flat = scalars.add(scalars.mul(flat, points.size(size)), index)
            if inside is None:
                value = points.operand(0, place)
            else:
                with points.guarded(inside):
                    value = points.operand(0, place)
            if best is None:
                best = (
                    value
                    if inside is None
                    else scalars.select(inside, value, scalars.constant(lowest(dtype), dtype.scalar))
                )
                where = flat if inside is None else scalars.select(inside, flat, where)
                continue
            lower = scalars.compare("lt", value, best, unsigned=dtype.is_unsigned)
            takes = [scalars.logical_not(lower)] + ([] if inside is None else [inside])
            if dtype.is_float:
                takes.append(scalars.compare("eq", best, best))
            take = conjunction(scalars, takes)
            best, where = scalars.select(take, value, best), scalars.select(take, flat, where)
        return scalars.from_index(where, I64.scalar)

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        x = self.operands[0]
        windows = self.emit_windows(rewriter, x, lowest(self.operand_dtype()))
        places = self.emit_windows(rewriter, emit_places(rewriter, sizes_of(x.type), len(self.window)), -1)
        return [emit_largest_place(rewriter, windows, places, len(self.window))]


def largest_place(windows: Array, places: Array, inside: Array, axes: tuple[int, ...]) -> Array:
    """Of each window the place of its largest element, the first of equal ones, the last NaN."""
    none = highest(I64)
    if 0 in windows.shape:
        return np.full([extent for axis, extent in enumerate(windows.shape) if axis not in axes], none, np.int64)
    nan = np.isnan(windows) & inside if windows.dtype.kind == "f" else np.zeros_like(inside)
    low = -np.inf if windows.dtype.kind == "f" else np.iinfo(windows.dtype).min
    top = np.max(np.where(inside & ~nan, windows, low), axis=axes, keepdims=True)
    first = np.min(np.where(inside & (windows == top), places, none), axis=axes)
    last: Array = np.max(np.where(nan, places, -1), axis=axes)
    return np.asarray(np.where(nan.any(axis=axes), last, first), np.int64)


def row_major_places(shape: Sequence[int], count: int) -> Array:
    """`emit_places` by numpy."""
    extents = tuple(shape[len(shape) - count :])
    places: Array = np.arange(prod(extents), dtype=np.int64).reshape(extents)
    return np.broadcast_to(places, tuple(shape))


def emit_places(builder: Builder, sizes: Sequence[Size], count: int) -> SSAValue:
    """The row-major position of each element in the last `count` axes, as i64 of these sizes."""
    first = len(sizes) - count
    flat = Iota.emit(builder, axis=first, sizes=sizes)
    for axis in range(first + 1, len(sizes)):
        extent = emit_size(builder, sizes[axis], sizes)
        flat = Add.emit(builder, Multiply.emit(builder, flat, extent), Iota.emit(builder, axis=axis, sizes=sizes))
    return flat


def emit_size(builder: Builder, size: SizeLike, sizes: Sequence[Size]) -> SSAValue:
    """A size at every point of a tensor of these sizes, as i64."""
    if isinstance(size, int) or size.is_constant:
        return Constant.emit(builder, value=Size.of(size).value, dtype=I64, sizes=sizes)
    return BroadcastInDim.emit(builder, SizeOf.emit(builder, size=size), dimensions=(), sizes=sizes)


def emit_largest_place(builder: Builder, windows: SSAValue, places: SSAValue, count: int) -> SSAValue:
    """`largest_place` over the last `count` axes, where `places` is −1 for what is in no window.

    The place of a NaN is the negative key −1 − place, so the least key of a window is that of its last NaN, or of its first extremum.
    """
    dtype, sizes = dtype_of(windows.type), sizes_of(windows.type)
    axes = window_axes(len(sizes) - count, count)
    top = spread(builder, Reduce.emit(builder, windows, axes=axes, kind="max"), axes, sizes)
    found, key = Compare.emit(builder, windows, top, direction="eq"), places
    less = Constant.emit(builder, value=-1, dtype=I64, sizes=sizes)
    if dtype.is_float:
        nan = IsNan.emit(builder, windows)
        found = Or.emit(builder, found, nan)
        key = Select.emit(builder, nan, Subtract.emit(builder, less, places), places)
    none = Constant.emit(builder, value=highest(I64), dtype=I64, sizes=sizes)
    in_window = Compare.emit(builder, places, less, direction="gt")
    key = Select.emit(builder, in_window, Select.emit(builder, found, key, none), none)
    least = Reduce.emit(builder, key, axes=axes, kind="min")
    kept = sizes_of(least.type)
    negative = Compare.emit(builder, least, Constant.emit(builder, value=0, dtype=I64, sizes=kept), direction="lt")
    place = Subtract.emit(builder, Constant.emit(builder, value=-1, dtype=I64, sizes=kept), least)
    return Select.emit(builder, negative, place, least)


@dataclass(frozen=True)
class Divisor:
    """What the sum of a window is divided by: how many of its places count, or `given` where that is not 0.

    `axes`: for each pooled axis the window, the stride, the padding, the size, and how many windows there are. With
    `include_pad`, places in the padding on both sides count.
    """

    axes: tuple[tuple[int, int, int, Size, Size], ...]
    include_pad: bool
    given: int

    @property
    def constant(self) -> int | None:
        """The divisor where it is the same for all windows."""
        if self.given:
            return self.given
        return prod(window for window, *_ in self.axes) if all(map(self._all_whole, self.axes)) else None

    def _all_whole(self, axis: tuple[int, int, int, Size, Size]) -> bool:
        """Whether every place of an axis counts in every window."""
        window, stride, low, size, windows = axis
        if low and not self.include_pad:
            return False
        return fits(size + 2 * low, windows, Size.const(window), stride, 1)

    def by_numpy(self, rank: int, windows: Sequence[int], env: Environment) -> Array:
        """The divisors, to be broadcast to a tensor of `rank` axes, of which the last are the windows."""
        if self.constant is not None:
            return np.full([1] * rank, self.constant)
        divisor = np.ones([1] * rank, np.int64)
        for at, (extent, (window, stride, low, size, _)) in enumerate(
            zip(windows, self.axes, strict=True), rank - len(windows)
        ):
            pad, start = low if self.include_pad else 0, np.arange(extent) * stride - low
            count = np.minimum(start + window, size.evaluate(env) + pad) - np.maximum(start, -pad)
            divisor = divisor * count.reshape([-1 if each == at else 1 for each in range(rank)])
        return divisor

    def at(self, points: Points, position: Sequence[SSAValue], dtype: DType) -> SSAValue:
        """The divisor of the window at `position`."""
        scalars = points.scalars
        if self.constant is not None:
            return scalars.constant(self.constant, dtype.scalar)
        count: SSAValue | None = None
        for index, (window, stride, low, size, _) in zip(position, self.axes, strict=True):
            pad = low if self.include_pad else 0
            start = scalars.sub(scalars.mul(index, points.size(stride)), points.size(low))
            end = scalars.minimum(scalars.add(start, points.size(window)), points.size(size + pad))
            own = scalars.sub(end, scalars.maximum(start, points.size(-pad)))
            count = own if count is None else scalars.mul(count, own)
        assert count is not None
        return scalars.position_of(count, dtype) if dtype.is_float else scalars.from_index(count, dtype.scalar)

    def emit(self, builder: Builder, sizes: Sequence[Size], dtype: DType) -> SSAValue:
        """The divisors as a tensor of these sizes, of which the last are the windows."""
        if self.constant is not None:
            return Constant.emit(builder, value=self.constant, dtype=dtype, sizes=sizes)
        divisor: SSAValue | None = None
        for at, (window, stride, low, size, windows) in enumerate(self.axes, len(sizes) - len(self.axes)):
            pad, own = low if self.include_pad else 0, (windows,)
            of_size = partial(emit_size, builder, sizes=own)
            start = Multiply.emit(builder, Iota.emit(builder, axis=0, sizes=own), of_size(stride))
            start = Subtract.emit(builder, start, of_size(low))
            end = Minimum.emit(builder, Add.emit(builder, start, of_size(window)), of_size(size + pad))
            count = Subtract.emit(builder, end, Maximum.emit(builder, start, of_size(-pad)))
            count = BroadcastInDim.emit(builder, converted(builder, count, dtype), dimensions=(at,), sizes=sizes)
            divisor = count if divisor is None else Multiply.emit(builder, divisor, count)
        assert divisor is not None
        return divisor


class AvgPool(Pool, op="avg_pool"):
    """result[i…, o…] = Σ of the window's elements in x / divisor.

    The divisor is `divisor` where that is not 0, else the number of the window's places in x, or, with `count_include_pad`, in x and
    the padding of `low` on both sides. Floats, f16 and bf16 in f32; integers are divided towards zero. No dilation.
    """

    DEFAULTS: ClassVar = {**Pool.DEFAULTS, "count_include_pad": True, "divisor": 0}
    SAMPLES = (
        *pool_samples("aten.avg_pool2d.default", (*FLOATS, I64), more={"count_include_pad": True}),
        *pool_samples("aten.avg_pool2d.default", (F32, F64), more={"count_include_pad": False}, tail=(False, False)),
        *pool_samples("aten.avg_pool2d.default", (F32,), more={"divisor": 3}, tail=(False, True, 3)),
    )  # fmt: skip

    @property
    def accumulator(self) -> DType:
        return accumulation_dtype(self.result_dtype)

    @property
    def divisor(self) -> Divisor:
        low, strides = self.integers("low"), self.integers("strides")
        axes = zip(self.window, strides, low, self.pooled_sizes, self.size_list("sizes"), strict=True)
        return Divisor(tuple(axes), self.attribute("count_include_pad"), self.integer("divisor"))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        windows, inside = self.windows_of(x, env)
        with np.errstate(all="ignore"):
            axes = window_axes(x.ndim, len(self.window))
            total = np.where(inside, windows, x.dtype.type(0)).sum(axis=axes, dtype=x.dtype)
        divisor = self.divisor.by_numpy(total.ndim, total.shape[total.ndim - len(self.window) :], env)
        if not self.result_dtype.is_float:
            quotient = total // np.maximum(divisor, 1)
            return [rounded(quotient + ((total < 0) & (quotient * divisor != total)), self.result_dtype)]
        with np.errstate(all="ignore"):
            return [rounded(total / divisor, self.result_dtype)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, dtype = points.scalars, self.result_dtype
        total: SSAValue | None = None
        for place, inside in self.places_of(points, at):
            conditions = [] if inside is None else [inside]
            value = operand_within(points, 0, place, conditions, lambda: scalars.constant(0, dtype.scalar))
            value = scalars.convert(value, dtype, self.accumulator)
            total = value if total is None else scalars.add(total, value)
        assert total is not None
        divisor = self.divisor.at(points, at[len(at) - len(self.window) :], self.accumulator)
        mean = scalars.div(total, divisor) if dtype.is_float else scalars.trunc_div(total, divisor)
        return scalars.convert(mean, self.accumulator, dtype)

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        windows = self.emit_windows(rewriter, emit_in_f32(rewriter, self.operands[0]), 0)
        axes = window_axes(rank_of(self.operands[0].type), len(self.window))
        total = Reduce.emit(rewriter, windows, axes=axes, kind="sum")
        mean = Divide.emit(rewriter, total, self.divisor.emit(rewriter, sizes_of(total.type), dtype_of(total.type)))
        return [converted(rewriter, mean, self.result_dtype)]


__all__ = [
    "AvgPool", "Divisor", "MaxPool", "MaxPoolIndex", "Pool", "emit_largest_place", "emit_places", "emit_size", "largest_place",
    "row_major_places", "window_axes",
]  # fmt: skip
