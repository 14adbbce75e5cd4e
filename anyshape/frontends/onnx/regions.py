"""ONNX ops on boxes in images: which of them are kept, and what lies in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.dialects.dhlo import (
    Add,
    And,
    Ceil,
    Compare,
    Concatenate,
    Divide,
    Floor,
    FloorDivide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Reduce,
    Remainder,
    Subtract,
)
from anyshape.dialects.dhlo.sort import ArgSort
from anyshape.dialects.dhlo.suppression import SuppressOverlaps
from anyshape.dialects.dtypes import F32, I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import places, read_size
from anyshape.frontends.onnx.places import along, columns_beside, gathered, iota, size_as
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.sorting import columns_of
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

# -- suppression -----------------------------------------------------------------------------------------------------


@lowers("NonMaxSuppression")
def lower_non_max_suppression(
    b: GraphBuilder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """[how many, 3]: batch, class and box of those that are kept, of each class the better first

    Boxes [n, m, 4] are opposite corners, or centre and lengths; scores [n, c, m]. Of the boxes whose score is above the threshold each is
    kept, from the best on, that no kept one of its class overlaps by more than `iou_threshold`, of their union, up to so many.
    """
    if boxes.rank != 3 or scores.rank != 3:
        raise Malformed(f"boxes and scores must have 3 axes; they have {boxes.rank} and {scores.rank}")
    batch, classes, count = scores.sizes
    boxes = b.with_sizes(boxes, (batch, count, 4), "the boxes")
    if max_output_boxes_per_class is None:
        return b.constant(0, I64, (ZERO, 3))
    flat = b.reshape(scores, (numel(scores.sizes),))
    if score_threshold is None:
        chosen = iota(b, flat.sizes)
    else:
        chosen = places(b, b.compare("gt", flat, _number(b, score_threshold, flat)), "candidates")
    chosen = _best_first(b, chosen, flat, batch * classes, count)
    row = b.binary(FloorDivide, chosen, size_as(b, count))
    own = b.binary(Add, b.binary(Multiply, b.binary(FloorDivide, row, size_as(b, classes)), size_as(b, count)),
                   b.binary(Remainder, chosen, size_as(b, count)))  # fmt: skip
    corners = _corners(b, gathered(b, b.reshape(boxes, (batch * count, 4)), (0,), [own], 0), bool(center_point_box))
    overlap = b.constant(0, boxes.dtype) if iou_threshold is None else _number(b, iou_threshold, boxes)
    most = b.reshape(b.convert(max_output_boxes_per_class, I64), ())
    kept = places(b, b.emit(SuppressOverlaps, corners, row, overlap, most), "kept")
    return columns_beside(b, columns_of(b, gathered(b, chosen, (0,), [kept], 0), scores.sizes))


def _number(b: GraphBuilder, value: Value, like: Tensor) -> Tensor:
    return b.reshape(b.convert(value, like.dtype), ())


def _best_first(b: GraphBuilder, chosen: Tensor, scores: Tensor, rows: Size, count: Size) -> Tensor:
    """Places in the rows of scores, row after row, in each the largest score first, of equal ones the first."""
    order = b.emit(ArgSort, gathered(b, scores, (0,), [chosen], 0), descending=True)
    chosen = gathered(b, chosen, (0,), [order], 0)
    if rows == ONE:
        return chosen
    by_row = b.emit(ArgSort, b.binary(FloorDivide, chosen, size_as(b, count)))
    return gathered(b, chosen, (0,), [by_row], 0)


def _corners(b: GraphBuilder, boxes: Tensor, by_center: bool) -> Tensor:
    """[n, 4]: lower ends on both axes, then upper ends."""
    first, second = (b.slice(boxes, 1, start, 2) for start in (0, 2))
    if by_center:
        half = b.binary(Divide, second, 2)
        ends = (b.emit(Subtract, first, half), b.emit(Add, first, half))
    else:
        ends = (b.emit(Minimum, first, second), b.emit(Maximum, first, second))
    return b.emit(Concatenate, *ends, axis=1)


# -- pools of regions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Samples:
    """Where one axis of the image is read for each region, bin and sample, [r, p, g] each.

    Attributes:
        low, high: the two elements around a sample.
        weights: of both; 0 for what lies outside of the image.
        counts: [r]: how many of the samples of a bin there are, the first ones.
    """

    low: Tensor
    high: Tensor
    weights: tuple[Tensor, Tensor]
    counts: Tensor


@lowers("RoiAlign", since=16)
def lower_roi_align(
    b: GraphBuilder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    """[r, c, height, width]: each region [x, y, x', y'] cut into bins, and of each bin the mean of samples, linear between elements

    There are `sampling_ratio` samples a bin and axis, or one for each element of x that the bin is long. With mode `max` the largest of the
    weighed elements is taken.
    """
    if mode not in ("avg", "max") or x.rank != 4:
        raise Malformed(f"the mode is {mode!r}, and the tensor has {x.rank} axes")
    height, width = x.sizes[2:]
    for size in (height, width):
        b.require(size.ge(1), "an axis of an image with regions")
    count = rois.sizes[0]
    half = coordinate_transformation_mode == "half_pixel"
    ends = b.binary(Multiply, b.convert(b.with_sizes(rois, (count, 4), "the regions"), F32), spatial_scale)
    if half:
        ends = b.binary(Subtract, ends, 0.5)
    of_axis = [b.reshape(b.slice(ends, 1, place, 1), (count,)) for place in range(4)]
    rows = _samples(b, of_axis[1], of_axis[3], height, output_height, sampling_ratio, half)
    columns = _samples(b, of_axis[0], of_axis[2], width, output_width, sampling_ratio, half)
    image = b.convert(b.transpose(x, (0, 2, 3, 1)), F32)
    of_region = b.convert(b.with_sizes(batch_indices, (count,), "the images of regions"), I64)
    pooled = _pooled(b, image, of_region, rows, columns, mode)
    return b.convert(b.transpose(pooled, (0, 3, 1, 2)), x.dtype)


@lowers("RoiAlign", since=10)
def lower_roi_align_10(b: GraphBuilder, x: Value, rois: Value, batch_indices: Value, **attributes: object) -> Value:
    return lower_roi_align(b, x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", **attributes)  # pyright: ignore[reportArgumentType]


def _samples(b: GraphBuilder, start: Tensor, end: Tensor, size: Size, bins: int, ratio: int, half: bool) -> _Samples:
    length = b.emit(Subtract, end, start)
    if not half:
        length = b.binary(Maximum, length, 1)
    each = b.binary(Divide, length, bins)
    if ratio > 0:
        counts, most = b.constant(ratio, F32, start.sizes), Size.const(ratio)
    else:
        counts = b.binary(Maximum, b.emit(Ceil, each), 0)
        most = read_size(b, b.emit(Reduce, b.convert(counts, I64), axes=(0,), kind="max"), "samples")
    sizes = (start.sizes[0], Size.const(bins), most)
    first, step, number = (along(b, value, 0, sizes) for value in (start, each, counts))
    within = b.binary(Divide, b.binary(Multiply, b.binary(Add, iota(b, sizes, 2, F32), 0.5), step), number)
    place = b.binary(Add, b.binary(Add, first, b.binary(Multiply, iota(b, sizes, 1, F32), step)), within)
    outside = b.binary(Or, b.compare("lt", place, -1), b.compare("gt", place, size_as(b, size, F32)))
    place = b.select(outside, 0.0, place)
    place = b.binary(Minimum, b.binary(Maximum, place, 0), size_as(b, size - 1, F32))
    low = b.emit(Floor, place)
    part = b.emit(Subtract, place, low)
    weights = tuple(b.select(outside, 0.0, weight) for weight in (b.binary(Subtract, 1, part), part))
    index = b.convert(low, I64)
    high = b.binary(Minimum, b.binary(Add, index, 1), size_as(b, size - 1))
    return _Samples(index, high, (weights[0], weights[1]), counts)


def _pooled(b: GraphBuilder, image: Tensor, of_region: Tensor, rows: _Samples, columns: _Samples, mode: str) -> Tensor:
    """[r, height, width, c] from an image [n, y, x, c]."""
    regions, height, down = rows.low.sizes
    _, width, across = columns.low.sizes
    sizes = (regions, height, down, width, across)

    def spread(x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return b.repeated(b.reshape(x, tuple(size if axis in axes else ONE for axis, size in enumerate(sizes))), sizes)

    region = along(b, of_region, 0, sizes)
    inside = b.binary(
        And,
        b.compare("lt", iota(b, sizes, 2, F32), along(b, rows.counts, 0, sizes)),
        b.compare("lt", iota(b, sizes, 4, F32), along(b, columns.counts, 0, sizes)),
    )
    none = 0.0 if mode == "avg" else -math.inf
    full = (*sizes, image.sizes[-1])
    total: Tensor | None = None
    for y, vertical in zip((rows.low, rows.high), rows.weights, strict=True):
        for x, horizontal in zip((columns.low, columns.high), columns.weights, strict=True):
            at = [region, spread(y, (0, 1, 2)), spread(x, (0, 3, 4))]
            weight = b.emit(Multiply, spread(vertical, (0, 1, 2)), spread(horizontal, (0, 3, 4)))
            term = b.emit(Multiply, gathered(b, image, (0, 1, 2), at, 0), _with_channels(b, weight, full))
            total = term if total is None else b.emit(Add if mode == "avg" else Maximum, total, term)
    assert total is not None
    total = b.select(_with_channels(b, inside, full), total, none)
    pooled = b.emit(Reduce, total, axes=(2, 4), kind="sum" if mode == "avg" else "max")
    samples = b.emit(Multiply, rows.counts, columns.counts)
    if mode == "avg":
        return b.emit(Divide, pooled, along(b, b.binary(Maximum, samples, 1), 0, pooled.sizes))
    return b.select(along(b, b.compare("gt", samples, 0), 0, pooled.sizes), pooled, 0.0)


def _with_channels(b: GraphBuilder, x: Tensor, sizes: Sequence[Size]) -> Tensor:
    return b.repeated(b.reshape(x, (*x.sizes, 1)), tuple(sizes))


@lowers("MaxRoiPool")
def lower_max_roi_pool(
    b: GraphBuilder, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Value:
    """[r, c, height, width]: the largest element of each bin of each region [image, x, y, x', y'], whose ends are rounded; 0 of none"""
    if x.rank != 4 or len(pooled_shape) != 2:
        raise Malformed(f"the tensor has {x.rank} axes, and the pooled shape {len(pooled_shape)}")
    count = rois.sizes[0]
    columns = b.convert(b.with_sizes(rois, (count, 5), "the regions"), F32)
    image, *ends = (b.reshape(b.slice(columns, 1, place, 1), (count,)) for place in range(5))
    x0, y0, x1, y1 = (_rounded(b, b.binary(Multiply, end, spatial_scale)) for end in ends)
    values = gathered(b, b.tensor(x), (0,), [b.convert(image, I64)], 0)  # [r, c, h, w]
    least = b.constant(-math.inf, x.dtype)
    regions, channels, height, width = values.sizes
    down, across = map(Size.const, pooled_shape)
    rows, filled_rows = _bins(b, y0, y1, height, down)
    full = (regions, channels, down, height, width)
    spread = b.repeated(b.reshape(values, (regions, channels, 1, height, width)), full)
    chosen = b.select(b.repeated(b.reshape(rows, (regions, 1, down, height, 1)), full), spread, least)
    values = b.emit(Reduce, chosen, axes=(3,), kind="max")
    cols, filled_columns = _bins(b, x0, x1, width, across)
    full = (regions, channels, down, across, width)
    spread = b.repeated(b.reshape(values, (regions, channels, down, 1, width)), full)
    chosen = b.select(b.repeated(b.reshape(cols, (regions, 1, 1, across, width)), full), spread, least)
    result = b.emit(Reduce, chosen, axes=(4,), kind="max")
    some = b.binary(
        And, b.reshape(filled_rows, (regions, 1, down, 1)), b.reshape(filled_columns, (regions, 1, 1, across))
    )
    return b.select(b.repeated(some, result.sizes), result, 0.0)


def _rounded(b: GraphBuilder, x: Tensor) -> Tensor:
    """To the nearest whole number, halves away from 0."""
    up = b.emit(Floor, b.binary(Add, x, 0.5))
    return b.select(b.compare("lt", x, 0), b.emit(Ceil, b.binary(Subtract, x, 0.5)), up)


def _bins(b: GraphBuilder, start: Tensor, end: Tensor, size: Size, bins: Size) -> tuple[Tensor, Tensor]:
    """[r, bins, size]: which elements of an axis lie in each bin of each region, and whether any does."""
    sizes = (start.sizes[0], bins, size)
    length = b.binary(Maximum, b.binary(Add, b.emit(Subtract, end, start), 1), 1)
    each = along(b, b.binary(Divide, length, size_as(b, bins, F32)), 0, sizes)
    first = along(b, start, 0, sizes)
    number, place = iota(b, sizes, 1, F32), iota(b, sizes, 2, F32)
    low = b.binary(Add, b.emit(Floor, b.binary(Multiply, number, each)), first)
    high = b.binary(Add, b.emit(Ceil, b.binary(Multiply, b.binary(Add, number, 1), each)), first)
    inside = b.binary(And, b.emit(Compare, place, low, direction="ge"), b.emit(Compare, place, high, direction="lt"))
    return inside, b.emit(Reduce, inside, axes=(2,), kind="or")


__all__: list[str] = []
