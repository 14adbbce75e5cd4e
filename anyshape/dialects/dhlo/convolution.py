"""Convolutions, and the patches of a tensor that they multiply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import (
    REQUIRED,
    Arg,
    Array,
    DhloOp,
    Environment,
    Oracle,
    Points,
    Sample,
    Sym,
    same_dtype,
)
from anyshape.dialects.dhlo.contraction import DotGeneral
from anyshape.dialects.dhlo.elementwise import NUMERIC, conjunction, rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import Reshape, Slice, Transpose, one_operand
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.windows import Sampling
from anyshape.dialects.dtypes import DTYPES, F32, F64, FLOATS, DType
from anyshape.dialects.sizes import Tensor, dtype_of, numel, sizes_of, tensor
from anyshape.symbolic import Facts, Size, SizeLike

ZERO = Size.const(0)
MAX_DIRECT_PRODUCTS = 64
"""Products of an element that `direct_convolution` writes out one by one."""
MAX_REACH = 64
"""Places from a window's first point to its last along an axis, up to which a plane is read strip by strip."""
MAX_DIRECT_FILTERS = 2
"""Filters of a group up to which each element alone reads its window: with more, patches are worth gathering once for all."""


class Windowed(DhloOp, ABC):
    """Ops that read a tensor in windows. Along each spatial axis, result point y and window point k meet at

        position = y · window_strides + k · rhs_dilation − padding

    of the tensor with `lhs_dilation` − 1 zeros between its elements, and with zeros all around. `padding` is what is in front; what is
    behind follows from `sizes`, the result's spatial sizes.
    """

    DEFAULTS: ClassVar = {
        "window_strides": REQUIRED, "padding": REQUIRED, "lhs_dilation": REQUIRED, "rhs_dilation": REQUIRED, "sizes": REQUIRED,
    }  # fmt: skip
    SIZE_ATTRIBUTES = ("padding", "sizes")

    @classmethod
    def check_windows(cls, spatial: int, attributes: Mapping[str, Any]) -> None:
        """VerifyException unless every attribute has an entry for each spatial axis, and steps are positive."""
        for key in Windowed.DEFAULTS:
            if len(attributes[key]) != spatial:
                raise VerifyException(
                    f"{cls.name}: {key} has {len(attributes[key])} entries, expected one for each of {spatial} axes"
                )
        for key in ("window_strides", "lhs_dilation", "rhs_dilation"):
            if any(step < 1 for step in attributes[key]):
                raise VerifyException(f"{cls.name}: {key} {list(attributes[key])} must be positive")

    @property
    @abstractmethod
    def window_sizes(self) -> tuple[Size, ...]:
        """Sizes of a window."""

    @property
    def spatial(self) -> int:
        return len(self.size_list("sizes"))

    @property
    def window_attributes(self) -> dict[str, Any]:
        """The attributes that say where windows lie."""
        return {key: self.attribute(key) for key in Windowed.DEFAULTS}

    def numpy_patches(self, x: Array, env: Environment) -> Array:
        """x[b, c, s…] in windows: [b, c, k…, y…]."""
        sizes = [size.evaluate(env) for size in self.size_list("sizes")]
        windows = [size.evaluate(env) for size in self.window_sizes]
        padding = [size.evaluate(env) for size in self.size_list("padding")]
        spatial, inside = self.spatial, np.ones((1,) * (2 * self.spatial), np.bool_)
        indices: list[Array] = []
        for axis in range(spatial):
            k = np.arange(windows[axis])[:, None] * self.integers("rhs_dilation")[axis]
            position = np.arange(sizes[axis])[None] * self.integers("window_strides")[axis] + k - padding[axis]
            index, rest = np.divmod(position, self.integers("lhs_dilation")[axis])
            shape = [1] * (2 * spatial)
            shape[axis], shape[spatial + axis] = windows[axis], sizes[axis]
            valid = (rest == 0) & (index >= 0) & (index < x.shape[2 + axis])
            inside = inside & valid.reshape(shape)
            indices.append(np.where(valid, index, 0).reshape(shape))
        if 0 in x.shape[2:]:
            return np.zeros((*x.shape[:2], *windows, *sizes), x.dtype)
        return np.where(inside, x[(slice(None), slice(None), *indices)], np.zeros((), x.dtype))

    def element_of_window(
        self, points: Points, x: int, lead: Sequence[SSAValue], window: Sequence[SSAValue], at: Sequence[SSAValue]
    ) -> SSAValue:
        """The element of operand `x` that window point `window` and result point `at` meet at, or 0 outside it."""
        scalars, conditions = points.scalars, list[SSAValue]()
        index: list[SSAValue] = list(lead)
        for axis, (k, y) in enumerate(zip(window, at, strict=True)):
            stride, dilation = self.integers("window_strides")[axis], self.integers("rhs_dilation")[axis]
            base = self.integers("lhs_dilation")[axis]
            y = y if stride == 1 else scalars.mul(y, points.size(stride))
            k = k if dilation == 1 else scalars.mul(k, points.size(dilation))
            position = scalars.add(y, scalars.sub(k, points.size(self.size_list("padding")[axis])))
            if base > 1:
                step = points.size(base)
                rest = scalars.trunc_rem(position, step)
                conditions.append(scalars.compare("eq", rest, points.size(0)))
                conditions.append(scalars.compare("ge", position, points.size(0)))
                position = scalars.trunc_div(position, step)
            index.append(position)
            size = points.size(self.operand_sizes(x)[len(lead) + axis])
            conditions.append(scalars.compare("lt", position, size, unsigned=True))
        inside = conjunction(scalars, conditions)
        with points.guarded(inside):
            return points.operand(x, index)


def _attributes(
    sizes: Sequence[SizeLike | Size],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    base: int | Sequence[int] = 1,
) -> dict[str, Any]:
    """Attributes of windows with one number for all axes, or one each."""

    def each(value: int | Sequence[int]) -> tuple[int, ...]:
        return (value,) * len(sizes) if isinstance(value, int) else tuple(value)

    return {
        "window_strides": each(stride), "padding": each(padding), "lhs_dilation": each(base), "rhs_dilation": each(dilation),
        "sizes": tuple(sizes),
    }  # fmt: skip


B, H, W = (Size.symbol(name) for name in "bhw")


class Patches(Sampling, Windowed, op="patches"):
    """result[b, c, k…, y…] = x[b, c, position…] where that is inside x, else 0; see `Windowed`."""

    DEFAULTS: ClassVar = {**Windowed.DEFAULTS, "window": REQUIRED}
    SIZE_ATTRIBUTES = ("padding", "sizes", "window")
    SAMPLES = (
        Sample(
            ((B, 2, H, W),),
            {**_attributes((H, W), padding=1), "window": (3, 3)},
            dtypes=DTYPES,
            minimum={"h": 1, "w": 1},
        ),
        Sample(((B, 2, W),), {**_attributes((3 * W,), dilation=2, base=3, padding=2), "window": (H,)}, dtypes=(F32,)),
        Sample(
            ((1, 2, H + 1, 4),),
            {**_attributes((H, 2), stride=(1, 2)), "window": (2, 2)},
            dtypes=(F32,),
            oracle=Oracle(
                "aten.as_strided.default",
                (Arg(0), (1, 2, 2, 2, Sym("h"), 2), (0, Sym("4*h + 4"), 4, 1, 4, 2)),
            ),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        sizes = sizes_of(operand)
        cls.check_windows(len(sizes) - 2, attributes)
        if len(attributes["window"]) != len(sizes) - 2:
            raise VerifyException(f"{cls.name}: window must have one size for each of {len(sizes) - 2} axes")
        return [tensor(dtype_of(operand), (*sizes[:2], *attributes["window"], *attributes["sizes"]))]

    @property
    def window_sizes(self) -> tuple[Size, ...]:
        return self.size_list("window")

    def points_read(self) -> int:
        return 1

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [self.numpy_patches(operands[0], env)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        spatial = self.spatial
        return self.element_of_window(points, 0, at[:2], at[2 : 2 + spatial], at[2 + spatial :])


class Filters(Windowed, ABC):
    """Ops that multiply windows of x[b, g·c, s…] with filters w[g·o, c, k…] of `feature_group_count` g groups."""

    DEFAULTS: ClassVar = {**Windowed.DEFAULTS, "feature_group_count": 1}

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes 2 operands, got {len(operands)}")
        dtype = same_dtype(cls.name, operands, lambda dtype: not dtype.is_bool)
        x, filters = (sizes_of(operand) for operand in operands)
        if len(x) != len(filters) or len(x) < 3:
            raise VerifyException(f"{cls.name}: operands have ranks {len(x)} and {len(filters)}, expected one above 2")
        cls.check_windows(len(x) - 2, attributes)
        groups = attributes["feature_group_count"]
        difference = x[1] - filters[1] * groups
        if difference.is_constant and difference.value != 0:
            raise VerifyException(f"{cls.name}: {x[1]} channels are not {groups} groups of {filters[1]}")
        if filters[0].is_constant and filters[0].value % groups:
            raise VerifyException(f"{cls.name}: {filters[0]} filters are not {groups} equal groups")
        return [tensor(dtype, (x[0], filters[0], *attributes["sizes"]))]

    @property
    def groups(self) -> int:
        return self.integer("feature_group_count")

    @property
    def window_sizes(self) -> tuple[Size, ...]:
        return self.operand_sizes(1)[2:]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, filters = (widened(operand) for operand in operands)
        sizes, groups = [size.evaluate(env) for size in self.result_sizes], self.groups
        depth = prod(filters.shape[1:])
        patches = self.numpy_patches(x, env).reshape(x.shape[0], groups, depth, prod(sizes[2:]))
        rows = filters.reshape(groups, filters.shape[0] // groups, depth)
        with np.errstate(all="ignore"):
            return [rounded(np.einsum("gok,bgkn->bgon", rows, patches).reshape(sizes), self.result_dtype)]


def _oracle(
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Oracle:
    rest = (list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)
    return Oracle("aten.convolution.default", (Arg(0), Arg(1), None, *rest))


_UNIT = {0: "unit", 1: "unit"}
_SAME = _attributes((H, W), padding=1)


class Convolution(Filters, op="convolution"):
    """result[b, o, y…] = Σ_{c, k…} x[b, c, position…] · w[o, c, k…], over the channels of the filter's group (StableHLO convolution).

    Positions are those of `Windowed`. Integers wrap; f16 and bf16 are summed in f32. A transposed convolution is one with
    `lhs_dilation` and filters turned round.
    """

    PLANNED = True
    SAMPLES = (
        Sample(
            ((B, 3, H, W), (5, 3, 3, 3)), _SAME, NUMERIC, {}, _UNIT, {"h": 1, "w": 1}, _oracle(padding=(1, 1))
        ),
        Sample(
            ((B, 4, H + 4, W + 2), (6, 2, 3, 2)),
            {**_attributes(((H + 1) // 2, W + 1), stride=(2, 1), dilation=(2, 1)), "feature_group_count": 2},
            (F32, F64), {}, _UNIT, {"h": 1}, _oracle((2, 1), (0, 0), (2, 1), 2),
        ),
        Sample(((B, 70, H), (3, 70, 1)), _attributes((H,)), FLOATS, {}, _UNIT, {"h": 1}, _oracle((1,), (0,), (1,))),
        Sample(
            ((B, 2, H, W, 3), (3, 2, 2, 2, 3)),
            _attributes(((H + 1) // 3 + 1, W + 1, 3), stride=(3, 1, 1), padding=1),
            (F32,), {}, _UNIT, {"h": 1, "w": 1}, _oracle((3, 1, 1), (1, 1, 1), (1, 1, 1)),
        ),
        Sample(
            ((B, 2, H, 3), (4, 2, 3, 2)),
            _attributes((2 * H + 1, 4), padding=(2, 1), base=(2, 1)),
            (F32,), {}, _UNIT,
        ),
        Sample(
            ((B, 3, H, 4), (3, 1, 3, 3)),
            {**_attributes((H, 4), padding=1), "feature_group_count": 3},
            FLOATS, {}, _UNIT, {"h": 1}, _oracle(padding=(1, 1), groups=3),
        ),
        Sample(
            ((B, 2, H, 3), (2, 1, 5, 5)),
            {**_attributes(((H + 1) // 2, 3), stride=(2, 1), padding=2), "feature_group_count": 2},
            (F32,), {}, _UNIT, {"h": 1}, _oracle((2, 1), (2, 2), (1, 1), 2),
        ),
    )  # fmt: skip

    @property
    def has_plan(self) -> bool:
        """Floats, filters of a known size, no zeros between elements, and none that `direct_convolution` would take for its own."""
        known = all(size.is_constant for size in (*self.operand_sizes(1), *self.size_list("padding")))
        spread = any(base > 1 for base in self.integers("lhs_dilation"))
        return self.result_dtype in FLOATS and known and not spread and (not self.is_direct or self.has_planes)

    @property
    def has_planes(self) -> bool:
        """Whether windows of a known size go over planes of one axis or two, and are more than one point."""
        window, dilation = [size.value for size in self.window_sizes], self.integers("rhs_dilation")
        reaches = [(extent - 1) * apart for extent, apart in zip(window, dilation, strict=True)]
        is_real = self.operand_sizes(1)[1].value > 0 and prod(window) > 1
        return self.spatial <= 2 and is_real and max(reaches) <= MAX_REACH

    @property
    def is_direct(self) -> bool:
        """Whether each element is computed on its own: few products, and few filters that share a window."""
        filters = self.operand_sizes(1)
        if not all(size.is_constant for size in filters) or any(base > 1 for base in self.integers("lhs_dilation")):
            return False
        products = numel(filters[1:]).value
        return filters[0].value <= MAX_DIRECT_FILTERS * self.groups and products <= MAX_DIRECT_PRODUCTS

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        x, filters = self.operands
        if self.is_direct:
            return [DirectConvolution.emit(rewriter, x, filters, **self.attribute_values)]
        spatial, groups, sizes = self.spatial, self.groups, sizes_of(filters.type)
        patches = Patches.emit(rewriter, x, **self.window_attributes, window=self.window_sizes)
        batch, _, *rest = sizes_of(patches.type)
        patches = Reshape.emit(rewriter, patches, sizes=(batch, groups, sizes[1], *rest))
        rows = Reshape.emit(rewriter, filters, sizes=(groups, sizes[0] // groups, *sizes[1:]))
        contract = tuple(range(2, 3 + spatial))
        sums = DotGeneral.emit(
            rewriter, rows, patches, lhs_batch=(0,), rhs_batch=(1,), lhs_contract=contract, rhs_contract=contract
        )
        moved = Transpose.emit(rewriter, sums, permutation=(2, 0, 1, *range(3, 3 + spatial)))
        return [Reshape.emit(rewriter, moved, sizes=self.result_sizes)]

    @law(
        "convolution whose window points meet padding only -> one of a smaller window",
        example=lambda g: g(
            Convolution, g.input("b", 2, 3), g.full(3.0, "m", 2, 6), **_attributes((1,), stride=2, padding=1)
        ),
    )
    def of_points_inside(self, builder: Builder, facts: Facts) -> Simplified:
        """What is left out are products with the padding's zeros, which kernels of frameworks leave out as well: a filter's infinity that
        meets nothing else no longer makes a NaN."""
        x, filters = self.operands
        kept = [self._points_inside(axis, facts) for axis in range(self.spatial)]
        points = [range(size.value) if size.is_constant else None for size in self.window_sizes]
        if None in kept or kept == points:
            return None
        inside = [each for each in kept if each is not None]
        starts, whole = (0, 0, *(each.start for each in inside)), sizes_of(filters.type)[:2]
        smaller = Slice.emit(
            builder, filters, starts=starts, sizes=(*whole, *map(len, inside)), strides=(1,) * len(starts)
        )
        padding = tuple(
            before - each.start * apart
            for before, each, apart in zip(
                self.size_list("padding"), inside, self.integers("rhs_dilation"), strict=True
            )
        )
        return Convolution.emit(builder, x, smaller, **{**self.attribute_values, "padding": padding})

    def _points_inside(self, axis: int, facts: Facts) -> range | None:
        """The window points along an axis without those in front and behind that meet the image nowhere, but one at least; None where
        that is not known."""
        extent, before = self.window_sizes[axis], self.size_list("padding")[axis]
        image, count = (facts.simplify(sizes[2 + axis]) for sizes in (self.operand_sizes(), self.result_sizes))
        if self.integers("lhs_dilation")[axis] > 1 or not (extent.is_constant and before.is_constant):
            return None
        stride, apart = self.integers("window_strides")[axis], self.integers("rhs_dilation")[axis]
        first, end = 0, extent.value
        if count.is_constant:  # the last window's point k lies at k · apart + (count - 1) · stride - before
            missed = -(-(before.value - (count.value - 1) * stride) // apart)
            first = max(0, min(missed, before.value // apart, end - 1))
        if image.is_constant:  # the first window's at k · apart - before
            end = max(first + 1, min(end, -(-(image.value + before.value) // apart)))
        return range(first, end)

    @law(
        "convolution of a window that is the whole image -> dot",
        example=lambda g: g(Convolution, g.input("b", 2, "m"), g.input("n", 2, "m"), **_attributes((1,))),
    )
    def of_whole_image(self, builder: Builder, facts: Facts) -> Simplified:
        """Channels and window points lie one after another in both factors."""
        x, filters = self.operands
        image, window = self.operand_sizes()[2:], self.window_sizes
        is_whole = all(facts.simplify(size - extent) == ZERO for size, extent in zip(image, window, strict=True))
        is_one = all(facts.simplify(size) == Size.const(1) for size in self.result_sizes[2:])
        is_plain = self.groups == 1 and {*self.integers("lhs_dilation"), *self.integers("rhs_dilation")} == {1}
        if not (is_whole and is_one and is_plain) or any(before != ZERO for before in self.size_list("padding")):
            return None
        depth = numel(self.operand_sizes(1)[1:])
        rows = Reshape.emit(builder, x, sizes=(self.result_sizes[0], depth))
        columns = Reshape.emit(builder, filters, sizes=(self.result_sizes[1], depth))
        dot = DotGeneral.emit(builder, rows, columns, lhs_contract=(1,), rhs_contract=(1,))
        return Reshape.emit(builder, dot, sizes=self.result_sizes)


class DirectConvolution(Sampling, Filters, op="direct_convolution"):
    """As `convolution`, with filters of constant sizes and few products, which each element of the result writes out (depthwise)."""

    SAMPLES = (
        Sample(
            ((B, 3, H, W), (6, 1, 3, 3)),
            {**_attributes((H, W), padding=1), "feature_group_count": 3},
            NUMERIC, {}, _UNIT, {"h": 1, "w": 1}, _oracle(padding=(1, 1), groups=3),
        ),
        Sample(
            ((B, 4, H + 1), (2, 2, 2)),
            {**_attributes(((H + 1) // 2 + 1,), stride=2, padding=1), "feature_group_count": 2},
            (F32,), {}, _UNIT, {}, _oracle((2,), (1,), (1,), 2),
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        result = super().infer(operands, attributes)
        if not all(size.is_constant for size in sizes_of(operands[1])):
            raise VerifyException(f"{cls.name}: filters must have constant sizes")
        return result

    def points_read(self) -> int:
        return numel(self.operand_sizes(1)[1:]).value

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, dtype = points.scalars, self.result_dtype
        wide: DType = accumulation_dtype(dtype)
        batch, filter_, *place = at
        count, depth, *window = (size.value for size in self.operand_sizes(1))
        each = count // self.groups
        group = filter_ if each == 1 else scalars.trunc_div(filter_, points.size(each), unsigned=True)
        first = group if depth == 1 else scalars.mul(group, points.size(depth))
        total = scalars.constant(0, wide.scalar)
        for channel, *k in product(range(depth), *map(range, window)):
            own = first if channel == 0 else scalars.add(first, points.size(channel))
            indices = [points.size(number) for number in k]
            factors = (
                self.element_of_window(points, 0, (batch, own), indices, place),
                points.operand(1, (filter_, points.size(channel), *indices)),
            )
            x, weight = (scalars.convert(factor, dtype, wide) for factor in factors)
            total = scalars.fma(x, weight, total) if wide.is_float else scalars.add(total, scalars.mul(x, weight))
        return scalars.convert(total, wide, dtype)


__all__ = ["Convolution", "DirectConvolution", "Filters", "Patches", "Windowed"]
