"""Adaptive pooling: the last axes of x cut into as many windows as the result is to have elements, whatever their sizes are."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import Iota
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Sample, Sym, same_dtype
from anyshape.dialects.dhlo.binary import Add, Divide, FloorDivide, Multiply, Subtract
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.movement import BroadcastInDim, Reshape, one_operand
from anyshape.dialects.dhlo.pooling import (
    AvgPool,
    MaxPool,
    Pool,
    emit_largest_place,
    emit_places,
    emit_size,
    largest_place,
    row_major_places,
    window_axes,
)
from anyshape.dialects.dhlo.reduction import Mean, Reduce, emit_in_f32
from anyshape.dialects.dhlo.selection import converted
from anyshape.dialects.dhlo.windows import AdaptiveWindows, longest_window, windowed
from anyshape.dialects.dtypes import F32, F64, FLOATS, I64, DType
from anyshape.dialects.scalars import lowest
from anyshape.dialects.sizes import Tensor, dtype_of, rank_of, sizes_of, tensor
from anyshape.symbolic import Size, size_max

M, N, K = (Size.symbol(name) for name in "mnk")
ONE = Size.const(1)


class AdaptivePool(DhloOp, ABC):
    """A function of the windows [⌊o·n/m⌋, ⌈(o + 1)·n/m⌉) of the last axes of x, of n elements each, that become `sizes` m."""

    DEFAULTS: ClassVar = {"sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return operand

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        sizes, targets = sizes_of(one_operand(cls.name, operands)), attributes["sizes"]
        if len(targets) > len(sizes):
            raise VerifyException(f"{cls.name}: {len(targets)} pooled axes, but the tensor has {len(sizes)}")
        dtype = same_dtype(cls.name, operands, lambda dtype: dtype.is_float)
        return [tensor(cls.result_dtype_of(dtype), (*sizes[: len(sizes) - len(targets)], *targets))]

    @property
    def count(self) -> int:
        """How many axes are pooled."""
        return len(self.size_list("sizes"))

    @property
    def pooled_sizes(self) -> tuple[Size, ...]:
        """The sizes of x's pooled axes."""
        return self.operand_sizes()[len(self.operand_sizes()) - self.count :]

    @property
    def window_axes(self) -> tuple[int, ...]:
        return window_axes(len(self.operand_sizes()), self.count)

    def windows_of(self, x: Array, env: Environment) -> tuple[Array, Array]:
        """[i…, o…, k…] by numpy, and which of these are in their windows."""
        targets = [size.evaluate(env) for size in self.size_list("sizes")]
        extents = x.shape[x.ndim - self.count :]
        window = [-(-extent // max(1, target)) + 1 for extent, target in zip(extents, targets, strict=True)]

        def places(axis: int, positions: Array, within: Array) -> tuple[Array, Array]:
            where = positions * extents[axis] // max(1, targets[axis]) + within
            return where, where < -(-(positions + 1) * extents[axis] // max(1, targets[axis]))

        return windowed(x, targets, window, places)

    def emit_windows(self, builder: Builder, x: SSAValue, fill: float | int) -> SSAValue:
        value = Constant.emit(builder, value=fill, dtype=dtype_of(x.type), sizes=())
        targets = self.size_list("sizes")
        window = [longest_window(*pair) for pair in zip(sizes_of(x.type)[-self.count :], targets, strict=True)]
        return AdaptiveWindows.emit(builder, x, value, window=window, sizes=targets)

    def as_plain(self, builder: Builder, kind: type[Pool]) -> SSAValue | None:
        """A pool of equal windows, where the sizes are constant and divide."""
        pairs = list(zip(self.pooled_sizes, self.size_list("sizes"), strict=True))
        if not all(
            size.is_constant and by.is_constant and by.value > 0 and size.value % by.value == 0 for size, by in pairs
        ):
            return None
        window = tuple(size.value // by.value for size, by in pairs)
        if 0 in window:
            return None
        ones, zeros = (1,) * self.count, (0,) * self.count
        return kind.emit(
            builder,
            self.operands[0],
            window=window,
            strides=window,
            dilation=ones,
            low=zeros,
            sizes=self.size_list("sizes"),
        )


def _samples(target: str | None, dtypes: tuple[DType, ...], result: int = 0) -> tuple[Sample, ...]:
    least = dict.fromkeys("mnk", 1)
    oracles = [
        Oracle(target, (Arg(0), sizes), result=result) if target else None for sizes in ((3, Sym("k")), (1, 1), (2, 5))
    ]
    return (
        Sample((("k", M, N),), {"sizes": (3, K)}, dtypes, minimum=least, oracle=oracles[0]),
        Sample(((1, M, N),), {"sizes": (1, 1)}, (F32,), minimum=least, oracle=oracles[1]),
        Sample(((K, 6, 5),), {"sizes": (2, 5)}, (F32,), minimum=least, oracle=oracles[2]),
    )


class AdaptiveAvgPool(AdaptivePool, op="adaptive_avg_pool"):
    """result[i…, o…] = the mean of window o (PyTorch's `adaptive_avg_pool2d`). Floats only; f16 and bf16 in f32."""

    SAMPLES = _samples("aten._adaptive_avg_pool2d.default", FLOATS)

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        windows, inside = self.windows_of(widened(operands[0]), env)
        axes = self.window_axes
        with np.errstate(all="ignore"):
            total = np.where(inside, windows, 0.0).sum(axis=axes)
            return [rounded(total / inside.sum(axis=axes), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        if all(size == ONE for size in self.size_list("sizes")):
            axes = range(len(self.result_sizes) - self.count, len(self.result_sizes))
            mean = Mean.emit(rewriter, self.operands[0], axes=tuple(axes))
            return [Reshape.emit(rewriter, mean, sizes=self.result_sizes)]
        plain = self.as_plain(rewriter, AvgPool)
        if plain is not None:
            return [plain]
        windows = self.emit_windows(rewriter, emit_in_f32(rewriter, self.operands[0]), 0)
        total = Reduce.emit(rewriter, windows, axes=self.window_axes, kind="sum")
        counts = emit_window_counts(
            rewriter, self.pooled_sizes, self.size_list("sizes"), sizes_of(total.type), dtype_of(total.type)
        )
        return [converted(rewriter, Divide.emit(rewriter, total, counts), self.result_dtype)]


def emit_window_counts(
    builder: Builder, pooled: Sequence[Size], targets: Sequence[Size], sizes: Sequence[Size], dtype: DType
) -> SSAValue:
    """How many elements each adaptive window has, of `sizes`, whose last axes are the windows of axes of `pooled` elements."""
    counts: SSAValue | None = None
    for axis, (extent, target) in enumerate(zip(pooled, targets, strict=True)):
        own, by = (target,), size_max(target, 1)
        of_size = partial(emit_size, builder, sizes=own)
        start = Multiply.emit(builder, Iota.emit(builder, axis=0, sizes=own), of_size(extent))
        beyond = Add.emit(builder, start, of_size(extent + by - 1))
        ends = (FloorDivide.emit(builder, each, of_size(by)) for each in (beyond, start))
        count = converted(builder, Subtract.emit(builder, *ends), dtype)
        at = len(sizes) - len(targets) + axis
        count = BroadcastInDim.emit(builder, count, dimensions=(at,), sizes=tuple(sizes))
        counts = count if counts is None else Multiply.emit(builder, counts, count)
    assert counts is not None
    return counts


class AdaptiveMaxPool(AdaptivePool, op="adaptive_max_pool"):
    """result[i…, o…] = the largest element of window o, NaN where one is in it (PyTorch's `adaptive_max_pool2d`)."""

    SAMPLES = _samples("aten.adaptive_max_pool2d.default", FLOATS)

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        windows, inside = self.windows_of(x, env)
        low = x.dtype.type(lowest(self.result_dtype))
        return [rounded(np.max(np.where(inside, windows, low), axis=self.window_axes, initial=low), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        plain = self.as_plain(rewriter, MaxPool)
        if plain is not None:
            return [plain]
        windows = self.emit_windows(rewriter, self.operands[0], lowest(self.result_dtype))
        return [Reduce.emit(rewriter, windows, axes=self.window_axes, kind="max")]


class AdaptiveMaxPoolIndex(AdaptivePool, op="adaptive_max_pool_index"):
    """result[i…, o…] = where in the pooled axes of x, taken as one in row-major order, window o is largest, as i64.

    The first place of equal ones, the last NaN where there is any.
    """

    SAMPLES = _samples("aten.adaptive_max_pool2d.default", (F32, F64), result=1)

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return I64

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = widened(operands[0])
        flat = row_major_places(x.shape, self.count)
        windows, inside = self.windows_of(x, env)
        return [largest_place(windows, self.windows_of(flat, env)[0], inside, self.window_axes)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        x = self.operands[0]
        windows = self.emit_windows(rewriter, x, lowest(self.operand_dtype()))
        places = self.emit_windows(rewriter, emit_places(rewriter, sizes_of(x.type), self.count), -1)
        return [emit_largest_place(rewriter, windows, places, self.count)]


def _unpooled(grad: Array, axis: int, extent: int) -> Array:
    """Each window's share of one axis, summed over the windows that have an element, by numpy."""
    windows = int(grad.shape[axis])
    where, place = np.arange(windows), np.arange(extent)[:, None]
    start, end = where * extent // max(1, windows), -(-(where + 1) * extent // max(1, windows))
    with np.errstate(all="ignore"):
        shares = np.moveaxis(grad, axis, -1) / np.maximum(end - start, 1)
        said = np.where((place >= start) & (place < end), shares[..., None, :], 0.0)
        return np.moveaxis(np.sum(said, axis=-1), -1, axis)


class AdaptiveAvgPoolGradient(AdaptivePool, op="adaptive_avg_pool_gradient"):
    """result[i…, p…] = Σ x[i…, o…] / count(o) over the windows o, of axes of `sizes` elements, that have p.

    The gradient of `adaptive_avg_pool` by its operand, from x, that by its result. The windows that have p are themselves a window:
    [⌊p·m/n⌋, ⌈(p + 1)·m/n⌉) of the m windows of n elements.
    """

    SAMPLES = tuple(
        Sample(each.operands, {"sizes": sizes}, each.dtypes, minimum=each.minimum)
        for each, sizes in zip(_samples(None, FLOATS), ((N + 2, 2 * M), (3, 4), (7, K)), strict=True)
    )  # fmt: skip

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        grad = widened(operands[0])
        for axis, size in enumerate(self.size_list("sizes"), grad.ndim - self.count):
            grad = _unpooled(grad, axis, size.evaluate(env))
        return [rounded(grad, self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        grad = emit_in_f32(rewriter, self.operands[0])
        sizes = sizes_of(grad.type)
        counts = emit_window_counts(
            rewriter, self.size_list("sizes"), sizes[len(sizes) - self.count :], sizes, dtype_of(grad.type)
        )
        windows = self.emit_windows(rewriter, Divide.emit(rewriter, grad, counts), 0)
        total = Reduce.emit(rewriter, windows, axes=window_axes(rank_of(grad.type), self.count), kind="sum")
        return [converted(rewriter, total, self.result_dtype)]


__all__ = [
    "AdaptiveAvgPool", "AdaptiveAvgPoolGradient", "AdaptiveMaxPool", "AdaptiveMaxPoolIndex", "AdaptivePool", "emit_window_counts",
]  # fmt: skip
