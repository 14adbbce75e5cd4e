"""ONNX's Resize and Upsample: which op or axis-by-axis rule serves each of their modes; `resampling` has the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from anyshape.dialects.dhlo import Divide, Floor, Maximum, Minimum, Multiply, RoundNearestEven
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.resize import CUBIC, Resize, floats
from anyshape.dialects.dtypes import F64, I64, DType
from anyshape.dialects.scalars import highest, lowest
from anyshape.frontends.onnx.builder import ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_size, read_sizes
from anyshape.frontends.onnx.places import size_as
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.resampling import ResizedAxis, Rules, resampled, simple_fraction
from anyshape.frontends.onnx.values import Known, Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max, size_min

_HALF_PIXEL = frozenset({"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"})
_MAX_FACTOR = 64
"""Whole factors by which nearest elements are repeated; larger ones are gathered."""
_MOST_TOGETHER = 3
"""Axes that one op resizes together at most."""


@lowers("Resize", since=11)
def lower_resize(
    b: GraphBuilder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    """x at the places to which each position of the result corresponds, by `scales` or `sizes` of all axes, or of those named"""
    listed = list(range(x.rank)) if axes is None else b.axes(axes, x.rank)
    rules = Rules(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(antialias), bool(exclude_outside),
        extrapolation_value,
    )  # fmt: skip
    rules.check()
    regions = _regions(b, roi, len(listed)) if rules.is_crop else None
    if not _is_empty(scales):
        assert scales is not None
        resized = _by_scales(b, x, listed, scales)
    elif not _is_empty(sizes):
        assert sizes is not None
        resized = _by_sizes(b, x, listed, sizes, keep_aspect_ratio_policy)
    else:
        raise Malformed("either scales or sizes must be given")
    if regions is not None:
        resized = [replace(each, region=region) for each, region in zip(resized, regions, strict=True)]
    return _resized(b, x, resized, rules)


@lowers("Resize", since=10)
@lowers("Upsample", since=9)
def lower_upsample(b: GraphBuilder, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Position o corresponds to o / scale; the nearest element is that before, or that behind where the result is smaller"""
    rules = Rules(mode, "asymmetric", "simple")
    rules.check()
    return _resized(b, x, _by_scales(b, x, list(range(x.rank)), scales), rules)


@lowers("Upsample", since=7)
def lower_upsample_by_attribute(b: GraphBuilder, x: Value, *, scales: Sequence[float], mode: str = "nearest") -> Value:
    return lower_upsample(b, x, Known(np.asarray(scales, np.float32)), mode=mode)


def _is_empty(value: Value | None) -> bool:
    return value is None or value.sizes == (ZERO,)


# -- sizes and scales ------------------------------------------------------------------------------------------------


def _regions(b: GraphBuilder, roi: Value | None, count: int) -> list[tuple[Tensor, Tensor]]:
    """Where the region of each axis begins and ends, in units of its length."""
    if roi is None:
        raise Malformed("tf_crop_and_resize needs a region")
    whole = b.convert(b.with_sizes(roi, (2 * count,), "the region"), F64)
    parts = [b.reshape(b.slice(whole, 0, place, 1), ()) for place in range(2 * count)]
    return list(zip(parts[:count], parts[count:], strict=True))


def _by_scales(b: GraphBuilder, x: Value, axes: Sequence[int], scales: Value) -> list[ResizedAxis]:
    """⌊size · scale⌋ elements on each axis"""
    if isinstance(scales, Known) and scales.is_literal:
        numbers = [float(each) for each in scales.elements.ravel()]
        if len(numbers) != len(axes):
            raise Malformed(f"there must be {len(axes)} scales; there are {len(numbers)}")
        if any(not each > 0 for each in numbers):
            raise Malformed(f"scales must be positive; they are {numbers}")
        return [
            ResizedAxis(axis, x.sizes[axis], scaled_size(x.sizes[axis], scale), scale)
            for axis, scale in zip(axes, numbers, strict=True)
        ]
    if isinstance(scales, Known):
        return [
            _by_ratio(b, axis, x.sizes[axis], each) for axis, each in zip(axes, scales.elements.ravel(), strict=True)
        ]
    whole = b.convert(b.with_sizes(scales, (len(axes),), "the scales"), F64)
    resized: list[ResizedAxis] = []
    for place, axis in enumerate(axes):
        scale = b.reshape(b.slice(whole, 0, place, 1), ())
        length = b.emit(Floor, b.binary(Multiply, size_as(b, x.sizes[axis], F64), scale))
        resized.append(ResizedAxis(axis, x.sizes[axis], read_size(b, b.convert(length, I64), "resized"), scale))
    return resized


def _by_ratio(b: GraphBuilder, axis: int, size: Size, scale: object) -> ResizedAxis:
    """An axis with a scale that is a number, or computed from sizes."""
    if not isinstance(scale, Ratio):
        number = float(scale)  # pyright: ignore[reportArgumentType]
        return ResizedAxis(axis, size, scaled_size(size, number), number)
    length = Ratio(scale.size * size, scale.divisor).floor()
    value = b.binary(Divide, size_as(b, scale.size, F64), float(scale.divisor))
    return ResizedAxis(axis, size, length, value)


def scaled_size(size: Size, scale: float) -> Size:
    """⌊size · scale⌋, with the simple fraction that the scale stands for, if there is one."""
    chosen = simple_fraction(scale) or Fraction(scale)
    return size * chosen.numerator // chosen.denominator


def _by_sizes(b: GraphBuilder, x: Value, axes: Sequence[int], sizes: Value, policy: str) -> list[ResizedAxis]:
    """So many elements on each axis; or, with another policy than `stretch`, by the smallest or the largest of their scales on all."""
    targets = read_sizes(b, sizes, len(axes), "the sizes")
    own = [x.sizes[axis] for axis in axes]
    if policy == "stretch":
        return [ResizedAxis(axis, size, target, None) for axis, size, target in zip(axes, own, targets, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise Malformed(f"keep_aspect_ratio_policy is {policy!r}")
    for size in own:
        b.require(size.ge(1), "an axis that is resized")
    choose = size_min if policy == "not_larger" else size_max
    scale: Tensor | None = None
    for size, target in zip(own, targets, strict=True):
        ratio = b.binary(Divide, size_as(b, target, F64), size_as(b, size, F64))
        scale = ratio if scale is None else b.emit(Minimum if policy == "not_larger" else Maximum, scale, ratio)
    # Rounding is monotone, so that the extreme scale gives the extreme of the rounded sizes.
    return [
        ResizedAxis(
            axis, size,
            choose(*((2 * size * target + other) // (2 * other) for other, target in zip(own, targets, strict=True))), scale,
        )
        for axis, size in zip(axes, own, strict=True)
    ]  # fmt: skip


# -- the ways to resize ----------------------------------------------------------------------------------------------


def _resized(b: GraphBuilder, x: Value, axes: Sequence[ResizedAxis], rules: Rules) -> Tensor:
    left = [each for each in axes if each.region is not None or not each.is_identity]
    result = b.tensor(x)
    for each in [each for each in left if _factor(each, rules)]:
        result = _repeated(b, result, each.axis, _factor(each, rules))
        left.remove(each)
    if not left:
        return result
    for each in left:
        b.require(each.size.ge(1), "an axis that is resized")
    if rules.mode == "nearest":
        wide = result.dtype
    else:
        wide = accumulation_dtype(x.dtype) if x.dtype.is_float else F64
    result = b.convert(result, wide)
    together = _together(left, rules, x.rank)
    if together:
        return _back(b, _by_one_op(b, result, together, rules), x.dtype)
    for each in left:
        result = resampled(b, result, each, rules)
    return _back(b, result, x.dtype)


def _back(b: GraphBuilder, x: Tensor, dtype: DType) -> Tensor:
    """x in its own dtype: of integers the nearest, and none beyond the range."""
    if x.dtype == dtype or dtype.is_float:
        return b.convert(x, dtype)
    low, high = (float(bound(dtype)) for bound in (lowest, highest))
    return b.convert(b.binary(Minimum, b.binary(Maximum, b.emit(RoundNearestEven, x), low), high), dtype)


def _factor(axis: ResizedAxis, rules: Rules) -> int:
    """The whole number of times that each element of an axis is repeated; 0 where it is not that."""
    plain = (rules.coordinates == "asymmetric" and rules.nearest in ("floor", "simple")) or (
        rules.coordinates in _HALF_PIXEL and rules.nearest.startswith("round_prefer")
    )
    if rules.mode != "nearest" or not plain or isinstance(axis.scale, Tensor):
        return 0
    if axis.scale is not None:
        return int(axis.scale) if axis.scale == int(axis.scale) and axis.scale <= _MAX_FACTOR else 0
    return next((k for k in range(2, _MAX_FACTOR + 1) if axis.size * k == axis.target), 0)


def _repeated(b: GraphBuilder, x: Tensor, axis: int, factor: int) -> Tensor:
    """[n] -> [n, 1] -> [n, factor] -> [n·factor]"""
    before, size, behind = x.sizes[:axis], x.sizes[axis], x.sizes[axis + 1 :]
    apart = b.repeated(b.reshape(x, (*before, size, 1, *behind)), (*before, size, Size.const(factor), *behind))
    return b.reshape(apart, (*before, size * factor, *behind))


def _together(axes: Sequence[ResizedAxis], rules: Rules, rank: int) -> list[ResizedAxis]:
    """All axes, in order, where one op resizes them by these rules; else none."""
    ordered = sorted(axes, key=lambda each: each.axis)
    first = ordered[0].axis
    plain = not (rules.antialias or rules.exclude_outside or any(isinstance(each.scale, Tensor) for each in axes))
    if not plain or rules.mode == "nearest" or rank - first > _MOST_TOGETHER:
        return []
    if rules.mode == "cubic" and rules.cubic != CUBIC:
        return []
    if rules.coordinates == "align_corners":
        whole = all(each.scale.is_integer() for each in ordered if isinstance(each.scale, float))
        return ordered if whole else []
    return ordered if rules.coordinates in ("half_pixel", "pytorch_half_pixel") else []


def _by_one_op(b: GraphBuilder, x: Tensor, axes: Sequence[ResizedAxis], rules: Rules) -> Tensor:
    first = axes[0].axis
    sizes, scales = list(x.sizes[first:]), [0.0] * (x.rank - first)
    for each in axes:
        sizes[each.axis - first] = each.target
        if isinstance(each.scale, float):
            scales[each.axis - first] = each.scale
        if rules.coordinates == "pytorch_half_pixel":
            # The only element of a result is the first of x: n elements are taken where there are more, 1 where there is one.
            count = b.graph.facts.simplify(size_min(each.size, (each.target - 1) * each.size + 1))
            x = b.slice(x, each.axis, 0, b.graph.facts.simplify(size_max(count, 0)))
    corners = rules.coordinates == "align_corners"
    given = {"scales": floats(*scales)} if any(scales) and not corners else {}
    return b.emit(Resize, x, mode=rules.mode, sizes=tuple(sizes), align_corners=corners, **given)


__all__ = ["scaled_size"]
