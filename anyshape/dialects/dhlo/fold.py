"""The inverse of windows: every element of the result is the sum of what all windows that have it say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Points, Sample, Sym, same_dtype
from anyshape.dialects.dhlo.elementwise import operand_within, rounded, widened
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.pooling import UNROLLED, window_axes
from anyshape.dialects.dhlo.reduction import Reduce, accumulation_dtype, emit_in_f32
from anyshape.dialects.dhlo.selection import converted
from anyshape.dialects.dhlo.windows import Sampling, in_bounds
from anyshape.dialects.dtypes import F32, FLOATS, I64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")


class Folding(Sampling):
    """What `fold` and the windows that it sums share: x[i…, o…, k…], whose windows lie in axes of `sizes` elements."""

    DEFAULTS: ClassVar = {
        "window": REQUIRED,
        "strides": REQUIRED,
        "dilation": REQUIRED,
        "low": REQUIRED,
        "sizes": REQUIRED,
    }
    SIZE_ATTRIBUTES = ("sizes",)

    @classmethod
    def check(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> tuple[Size, ...]:
        """The sizes i… of the axes that are not folded."""
        sizes, window = sizes_of(one_operand(cls.name, operands)), attributes["window"]
        count = len(window)
        if (
            any(len(attributes[key]) != count for key in ("strides", "dilation", "low", "sizes"))
            or len(sizes) < 2 * count
        ):
            raise VerifyException(f"{cls.name}: {dict(attributes)} for a tensor of rank {len(sizes)}")
        if sizes[len(sizes) - count :] != tuple(Size.const(extent) for extent in window):
            raise VerifyException(
                f"{cls.name}: the last axes of {list(map(str, sizes))} are not the window {list(window)}"
            )
        same_dtype(cls.name, operands, lambda dtype: not dtype.is_bool)
        return sizes[: len(sizes) - 2 * count]

    @property
    def window(self) -> tuple[int, ...]:
        return self.integers("window")

    @property
    def first(self) -> int:
        """The first folded axis."""
        return len(self.operand_sizes()) - 2 * len(self.window)

    def points_read(self) -> int:
        """So many windows have an element."""
        pairs = zip(self.window, self.integers("strides"), strict=True)
        return prod(-(-extent // stride) for extent, stride in pairs)

    def window_at(self, points: Points, axis: int, position: SSAValue, within: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The window in which an element of the result is number `within`, and whether there is one."""
        scalars = points.scalars
        stride, dilation, low = (self.integers(key)[axis] for key in ("strides", "dilation", "low"))
        offset = scalars.sub(scalars.add(position, points.size(low)), scalars.mul(within, points.size(dilation)))
        windows = self.operand_sizes()[self.first + axis]
        if stride == 1:
            return offset, in_bounds(points, offset, windows)
        index = scalars.trunc_div(offset, points.size(stride))
        whole = scalars.compare("eq", scalars.mul(index, points.size(stride)), offset)
        return index, scalars.logical_and(whole, in_bounds(points, index, windows))

    def said_of(self, x: Array, env: Environment) -> Array:
        """[i…, p…, k…] by numpy: what the window in which p is number k says of it, 0 where there is none."""
        count = len(self.window)
        first = x.ndim - 2 * count
        targets = [size.evaluate(env) for size in self.size_list("sizes")]
        result = np.zeros((*x.shape[:first], *targets, *self.window), x.dtype)
        strides, dilation, low = (self.integers(key) for key in ("strides", "dilation", "low"))
        for window in np.ndindex(*x.shape[first : first + count]):
            for within in np.ndindex(*self.window):
                place = [window[a] * strides[a] + within[a] * dilation[a] - low[a] for a in range(count)]
                if all(0 <= at < extent for at, extent in zip(place, targets, strict=True)):
                    result[(..., *place, *within)] = x[(..., *window, *within)]
        return result


class FoldedWindows(Folding, op="folded_windows"):
    """result[i…, p…, k…] = x[i…, o…, k…] for the window o with p = o·stride + k·dilation − low, 0 where there is none."""

    SAMPLES = (
        Sample(
            ((2, M, N, 2, 3),), {"window": (2, 3), "strides": (2, 1), "dilation": (1, 2), "low": (1, 2), "sizes": (2 * M, N + 2)},
            dtypes=(F32, I64),
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        lead, window = cls.check(operands, attributes), attributes["window"]
        return [tensor(dtype_of(operands[0]), (*lead, *attributes["sizes"], *window))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [self.said_of(operands[0], env)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        count = len(self.window)
        windows, conditions = list[SSAValue](), list[SSAValue]()
        for axis in range(count):
            window, inside = self.window_at(points, axis, at[self.first + axis], at[self.first + count + axis])
            windows.append(window)
            conditions.append(inside)
        place = [*at[: self.first], *windows, *at[self.first + count :]]
        return operand_within(
            points, 0, place, conditions, lambda: points.scalars.constant(0, self.result_dtype.scalar)
        )


class Fold(Folding, op="fold"):
    """result[i…, p…] = Σ x[i…, o…, k…] over all windows o and places k with p = o·stride + k·dilation − low.

    (PyTorch's fold, col2im: the gradient of reading windows.) f16 and bf16 are summed in f32.
    """

    SAMPLES = (
        Sample(
            ((2, M, 3),), {"window": (3,), "strides": (1,), "dilation": (1,), "low": (0,), "sizes": (M + 2,)},
            dtypes=(*FLOATS, I64), values={0: "finite"}, minimum={"m": 1},
            oracle=Oracle("aten.unfold_backward.default", (Arg(0), (2, Sym("m+2")), 1, 3, 1)),
        ),
        Sample(
            ((2, M, N, 2, 3),), {"window": (2, 3), "strides": (2, 1), "dilation": (1, 2), "low": (1, 2), "sizes": (2 * M, N)},
            dtypes=(F32,), values={0: "finite"},
        ),
        Sample(
            ((M, K, 6, 7),), {"window": (6, 7), "strides": (3, 2), "dilation": (1, 1), "low": (1, 0), "sizes": (3 * M, 2 * K + 5)},
            dtypes=(F32,), values={0: "finite"},
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        return [tensor(dtype_of(operands[0]), (*cls.check(operands, attributes), *attributes["sizes"]))]

    @property
    def has_plan(self) -> bool:
        return prod(self.window) <= UNROLLED

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        said = self.said_of(widened(operands[0]), env)
        axes = window_axes(said.ndim - len(self.window), len(self.window))
        with np.errstate(all="ignore"):
            return [rounded(said.sum(axis=axes, dtype=said.dtype), self.result_dtype)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, dtype, count = points.scalars, self.result_dtype, len(self.window)
        axes = [
            [
                (*self.window_at(points, axis, at[self.first + axis], points.size(k)), points.size(k))
                for k in range(extent)
            ]
            for axis, extent in enumerate(self.window)
        ]
        accumulator = accumulation_dtype(dtype)
        total: SSAValue | None = None
        for places in product(*axes):
            conditions = [condition for _, condition, _ in places]
            place = [*at[: self.first], *(window for window, _, _ in places), *(within for _, _, within in places)]
            value = operand_within(points, 0, place, conditions, lambda: scalars.constant(0, dtype.scalar))
            value = scalars.convert(value, dtype, accumulator)
            total = value if total is None else scalars.add(total, value)
        assert total is not None and count
        return scalars.convert(total, accumulator, dtype)

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        windows = FoldedWindows.emit(rewriter, emit_in_f32(rewriter, self.operands[0]), **self.attribute_values)
        axes = window_axes(len(self.result_sizes), len(self.window))
        return [converted(rewriter, Reduce.emit(rewriter, windows, axes=axes, kind="sum"), self.result_dtype)]


__all__ = ["Fold", "FoldedWindows", "Folding"]
