"""Gradients of pooling: what every element of x gets from the windows that have it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Sample, same_sizes
from anyshape.dialects.dhlo.binary import Divide
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.fold import Fold
from anyshape.dialects.dhlo.movement import BroadcastInDim
from anyshape.dialects.dhlo.pooling import Divisor, emit_places
from anyshape.dialects.dhlo.reduction import emit_in_f32
from anyshape.dialects.dhlo.selection import Compare, Select, converted
from anyshape.dialects.dhlo.windows import Windows
from anyshape.dialects.dtypes import F32, FLOATS, I64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")


class PoolGradient(DhloOp, ABC):
    """The gradient of a pool by its operand, whose last axes have `sizes`; operand 0 is that by the pool's result. Floats only."""

    DEFAULTS: ClassVar = {
        "window": REQUIRED,
        "strides": REQUIRED,
        "dilation": REQUIRED,
        "low": REQUIRED,
        "sizes": REQUIRED,
    }
    SIZE_ATTRIBUTES = ("sizes",)
    OPERANDS: ClassVar[int]

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != cls.OPERANDS:
            raise VerifyException(f"{cls.name} takes {cls.OPERANDS} operands, got {len(operands)}")
        sizes, targets = same_sizes(cls.name, operands), attributes["sizes"]
        if not dtype_of(operands[0]).is_float:
            raise VerifyException(f"{cls.name} does not take {dtype_of(operands[0])}")
        if any(len(attributes[key]) != len(targets) for key in ("window", "strides", "dilation", "low")):
            raise VerifyException(f"{cls.name}: {dict(attributes)} for {len(targets)} pooled axes")
        return [tensor(dtype_of(operands[0]), (*sizes[: len(sizes) - len(targets)], *targets))]

    @property
    def window(self) -> tuple[int, ...]:
        return self.integers("window")

    @property
    def first(self) -> int:
        """The first pooled axis."""
        return len(self.result_sizes) - len(self.window)

    def emit_spread(self, builder: Builder, x: SSAValue) -> SSAValue:
        """[i…, o…] -> [i…, o…, k…]"""
        sizes = (*sizes_of(x.type), *map(Size.const, self.window))
        return BroadcastInDim.emit(builder, x, dimensions=tuple(range(len(sizes_of(x.type)))), sizes=sizes)

    def emit_fold(self, builder: Builder, windows: SSAValue) -> SSAValue:
        """The sum of what the windows say of each element, in the result's dtype."""
        keys = ("window", "strides", "dilation", "low", "sizes")
        folded = Fold.emit(builder, windows, **{key: self.attribute(key) for key in keys})
        return converted(builder, folded, self.result_dtype)


_SMALL = {"window": (2, 3), "strides": (2, 1), "dilation": (1, 1), "low": (1, 1)}
_LARGE = {"window": (5, 7), "strides": (5, 4), "dilation": (1, 1), "low": (0, 0)}


class AvgPoolGradient(PoolGradient, op="avg_pool_gradient"):
    """result[i…, p…] = Σ x[i…, o…] / divisor(o) over the windows o that have p; the divisors are those of `avg_pool`."""

    OPERANDS = 1
    DEFAULTS: ClassVar = {**PoolGradient.DEFAULTS, "count_include_pad": True, "divisor": 0}
    SAMPLES = (
        Sample(((K, M // 2 + 1, N),), {**_SMALL, "sizes": (M, N)}, FLOATS, minimum={"m": 1, "n": 1}),
        Sample(((K, M // 2 + 1, N),), {**_SMALL, "sizes": (M, N), "count_include_pad": False}, (F32,), minimum={"m": 1, "n": 1}),
        Sample(((2, M // 5 + 1, N // 4 + 1),), {**_LARGE, "sizes": (M + 5, N + 7)}, (F32,)),
    )  # fmt: skip

    @property
    def divisor(self) -> Divisor:
        windows = self.operand_sizes()[self.first :]
        axes = zip(
            self.window, self.integers("strides"), self.integers("low"), self.size_list("sizes"), windows, strict=True
        )
        return Divisor(tuple(axes), self.attribute("count_include_pad"), self.integer("divisor"))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        grad = widened(operands[0])
        windows = grad.shape[self.first :]
        with np.errstate(all="ignore"):
            shares = grad / self.divisor.by_numpy(grad.ndim, windows, env)
            result = np.zeros([size.evaluate(env) for size in self.result_sizes])
            for window in np.ndindex(*windows):
                places: list[slice] = []
                for at, extent, size, stride, low in zip(
                    window,
                    self.window,
                    result.shape[self.first :],
                    self.integers("strides"),
                    self.integers("low"),
                    strict=True,
                ):
                    start = at * stride - low
                    places.append(slice(max(0, start), max(0, min(size, start + extent))))
                result[(..., *places)] += shares[(..., *window)][(..., *[None] * len(window))]
        return [rounded(result, self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        grad = emit_in_f32(rewriter, self.operands[0])
        divisors = self.divisor.emit(rewriter, sizes_of(grad.type), dtype_of(grad.type))
        shares = Divide.emit(rewriter, grad, divisors)
        return [self.emit_fold(rewriter, self.emit_spread(rewriter, shares))]


class MaxPoolGradient(PoolGradient, op="max_pool_gradient"):
    """result[i…, p…] = Σ x[i…, o…] over the windows o whose largest element is at p; operand 1 has these places.

    A place is counted in the pooled axes taken as one in row-major order, and lies in its window.
    """

    OPERANDS = 2
    SAMPLES = (
        Sample(
            ((K, M // 2 + 1, N), (K, M // 2 + 1, N)), {**_SMALL, "sizes": (M, N)}, FLOATS, {1: I64}, {1: "index:1"},
            minimum={"m": 1, "n": 1},
        ),
        Sample(
            ((2, M // 5 + 1, N // 4 + 1), (2, M // 5 + 1, N // 4 + 1)), {**_LARGE, "sizes": (M + 5, N + 7)}, (F32,), {1: I64},
            {1: "index:5"},
        ),
    )  # fmt: skip

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        grad, places = widened(operands[0]), operands[1]
        targets = [size.evaluate(env) for size in self.size_list("sizes")]
        result = np.zeros([size.evaluate(env) for size in self.result_sizes])
        for at in np.ndindex(*grad.shape):
            place = np.unravel_index(int(places[at]), targets)
            ranges = zip(
                place,
                at[self.first :],
                self.window,
                *(self.integers(key) for key in ("strides", "dilation", "low")),
                strict=True,
            )
            offsets = [(p - o * stride + low, extent, dilation) for p, o, extent, stride, dilation, low in ranges]
            if all(0 <= offset < extent * dilation and offset % dilation == 0 for offset, extent, dilation in offsets):
                with np.errstate(all="ignore"):
                    result[(*at[: self.first], *place)] += grad[at]
        return [rounded(result, self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        grad, windows = self.operands[0], self.operand_sizes()[self.first :]
        lead = self.result_sizes[: self.first]
        ones = (Size.const(1),) * self.first
        flat = emit_places(rewriter, (*ones, *self.size_list("sizes")), len(self.window))
        none = Constant.emit(rewriter, value=-1, dtype=I64, sizes=())
        places = Windows.emit(
            rewriter,
            flat,
            none,
            **{key: self.attribute(key) for key in Windows.DEFAULTS if key != "sizes"},
            sizes=windows,
        )
        full = (*lead, *sizes_of(places.type)[self.first :])
        places = BroadcastInDim.emit(rewriter, places, dimensions=tuple(range(len(full))), sizes=full)
        is_largest = Compare.emit(rewriter, places, self.emit_spread(rewriter, self.operands[1]), direction="eq")
        zero = Constant.emit(rewriter, value=0, dtype=dtype_of(grad.type), sizes=full)
        said = Select.emit(rewriter, is_largest, self.emit_spread(rewriter, grad), zero)
        return [self.emit_fold(rewriter, said)]


__all__ = ["AvgPoolGradient", "MaxPoolGradient", "PoolGradient"]
