"""ONNX's convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod

from anyshape.dialects.dhlo import (
    Add,
    And,
    Concatenate,
    Convolution,
    Divide,
    DotGeneral,
    Multiply,
    Pad,
    Slice,
    Subtract,
)
from anyshape.dialects.dhlo.grid_sample import GridSample
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dtypes import F32, F64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_sizes
from anyshape.frontends.onnx.places import iota, size_as
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.frontends.onnx.windows import Pads, Placement, numbers_of, pads_of, place_windows, spatial_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max

MAX_PHASES = 64
"""Convolutions into which a transposed one is cut, at most."""

Numbers = Sequence[int] | None


@lowers("Conv")
def lower_conv(
    b: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """result[n, o, y…] = Σ over the window and the channels of the group of x · weight[o, …], plus bias[o]"""
    filters = _filters(b, x, weight, kernel_shape)
    placement = place_windows(
        b, spatial_sizes(x), filters.sizes[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    return with_bias(b, convolved(b, x, filters, placement, group), bias)


def _filters(b: GraphBuilder, x: Value, weight: Value, kernel_shape: Numbers) -> Tensor:
    """The weight, whose window must be `kernel_shape` where that is given."""
    if weight.rank != x.rank:
        raise Malformed(f"filters have {weight.rank} axes, and the tensor has {x.rank}")
    if not kernel_shape:
        return b.tensor(weight)
    return b.with_sizes(weight, (*weight.sizes[:2], *kernel_shape), "the window of a convolution")


def convolved(b: GraphBuilder, x: Value, filters: Tensor, placement: Placement, group: int) -> Tensor:
    """The convolution of x [n, g·c, s…] with filters [g·o, c, k…]. Padding that sizes decide is made beforehand."""
    batch, channels, *rest = x.sizes
    count = filters.sizes[0].constant_or(group)
    if group < 1 or count % group:
        raise Malformed(f"{count} filters are not {group} equal groups")
    taken = b.same(channels, filters.sizes[1] * group, "the channels of a convolution")
    tensor, low = b.with_sizes(x, (batch, taken, *rest), "the channels of a convolution"), placement.low
    if not all(amount.is_constant for amount in low):
        none = (ZERO, ZERO)
        zero = b.constant(0, tensor.dtype)
        tensor = b.emit(Pad, tensor, zero, low=(*none, *low), high=(*none, *[ZERO] * len(low)))
        low = (ZERO,) * len(low)
    return b.emit(
        Convolution,
        tensor,
        filters,
        window_strides=placement.strides,
        padding=low,
        lhs_dilation=(1,) * len(low),
        rhs_dilation=placement.dilations,
        sizes=placement.sizes,
        feature_group_count=group,
    )


def with_bias(b: GraphBuilder, x: Tensor, bias: Value | None) -> Tensor:
    """x with a number added to each channel."""
    if bias is None:
        return x
    column = b.with_sizes(bias, x.sizes[1:2], "the bias of a convolution")
    return b.emit(Add, x, b.repeated(b.reshape(column, (*column.sizes, *[1] * (x.rank - 2))), x.sizes))


# -- transposed ------------------------------------------------------------------------------------------------------


@lowers("ConvTranspose")
def lower_conv_transpose(
    b: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    output_padding: Numbers = None,
    output_shape: Numbers = None,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """The gradient of a convolution by its argument: x[n, g·c, s…] and weight[g·c, o, k…] give [n, g·o, s'…]

    s' = stride·(s − 1) + output_padding + dilation·(k − 1) + 1 − pads, or `output_shape`, or s·stride with `auto_pad` SAME_UPPER and
    SAME_LOWER; then pads follow from it, an odd one behind with SAME_UPPER, else in front.
    """
    sizes = spatial_sizes(x)
    count = len(sizes)
    filters = _filters(b, x, weight, kernel_shape)
    steps, apart = numbers_of(strides, count, "strides"), numbers_of(dilations, count, "dilations")
    extra = tuple(output_padding) if output_padding else (0,) * count
    if len(extra) != count or (output_shape and len(output_shape) not in (count, count + 2)):
        raise Malformed("output_padding and output_shape must have a number for each spatial axis")
    full = [
        steps[axis] * (size - 1) + extra[axis] + apart[axis] * (filters.sizes[2 + axis] - 1) + 1
        for axis, size in enumerate(sizes)
    ]
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    if output_shape or same:
        wanted = list(map(Size.of, output_shape[-count:])) if output_shape else [
            size * step for size, step in zip(sizes, steps, strict=True)
        ]  # fmt: skip
        totals = [b.graph.facts.simplify(size_max(all_ - size, 0)) for all_, size in zip(full, wanted, strict=True)]
        low = tuple(total // 2 if auto_pad == "SAME_UPPER" else (total + 1) // 2 for total in totals)
    else:
        low, high = pads_of(pads if auto_pad in ("NOTSET", "") else None, count)
        wanted = [size - before - after for size, before, after in zip(full, low, high, strict=True)]
    for size, target in zip(sizes, wanted, strict=True):
        b.require(size.ge(1), "an axis of a transposed convolution")
        b.require(target.ge(0), "an axis of a transposed convolution")
    return with_bias(
        b, _transposed(b, x, filters, Placement(filters.sizes[2:], steps, apart, low, low, tuple(wanted)), group), bias
    )


def _transposed(b: GraphBuilder, x: Value, weight: Tensor, placement: Placement, group: int) -> Tensor:
    """A convolution of x with stride − 1 zeros between its elements and filters turned round, which begins dilation·(k − 1) − low in front.

    Of the window points only every stride-th meets elements other than zero. Which, depends on the remainder of the result's position by
    the stride, its phase: so each phase is a convolution of its own, with a part of the filters.
    """
    if _is_apart(placement, x.sizes[2:]):
        return _tiles(b, x, weight, placement, group)
    filters = _turned(b, weight, group)
    steps, window = placement.strides, filters.sizes[2:]
    batch, channels, *rest = x.sizes
    taken = b.same(channels, filters.sizes[1] * group, "the channels of a convolution")
    tensor = b.with_sizes(x, (batch, taken, *rest), "the channels of a convolution")
    before = tuple(
        dilation * (extent - 1) - low
        for dilation, extent, low in zip(placement.dilations, window, placement.low, strict=True)
    )
    known = all(size.is_constant for size in (*window, *before))
    if prod(steps) == 1:
        return convolved(b, tensor, filters, _plain(window, placement.dilations, before, placement.sizes), group)
    if known and prod(steps) <= MAX_PHASES:
        return _interleaved(b, _phases(b, tensor, filters, placement, before, group), placement)
    return b.emit(
        Convolution,
        tensor,
        filters,
        window_strides=(1,) * len(steps),
        padding=before,
        lhs_dilation=steps,
        rhs_dilation=placement.dilations,
        sizes=placement.sizes,
        feature_group_count=group,
    )


def _is_apart(placement: Placement, sizes: Sequence[Size]) -> bool:
    """Whether each element gives a tile that no other one meets: windows are as long as strides, and nothing is cut or added."""
    return all(
        window == Size.const(step) and apart == 1 and low == ZERO and target == size * step
        for window, step, apart, low, target, size in zip(
            placement.window, placement.strides, placement.dilations, placement.low, placement.sizes, sizes, strict=True
        )
    )


def _tiles(b: GraphBuilder, x: Value, weight: Tensor, placement: Placement, group: int) -> Tensor:
    """A convolution by single points, with a filter for each point of a tile, [g·c, o, k…] -> [g·k…·o, c, 1…], and channels as places."""
    channels, count, *window = weight.sizes
    spatial, each = len(window), _channels_of_group(b, channels, group)
    order = (0, *range(3, 3 + spatial), 2, 1)
    filters = b.transpose(b.reshape(weight, (group, each, count, *window)), order)
    filters = b.reshape(filters, (numel(window) * count * group, each, *[1] * spatial))
    ones, sizes = (1,) * spatial, x.sizes[2:]
    result = convolved(b, x, filters, _plain(filters.sizes[2:], ones, [ZERO] * spatial, sizes), group)
    apart = b.reshape(result, (x.sizes[0], group, *window, count, *sizes))
    paired = [place for axis in range(spatial) for place in (3 + spatial + axis, 2 + axis)]
    moved = b.transpose(apart, (0, 1, 2 + spatial, *paired))
    return b.reshape(moved, (x.sizes[0], count * group, *placement.sizes))


def _channels_of_group(b: GraphBuilder, channels: Size, group: int) -> Size:
    if group < 1:
        raise Malformed(f"there are {group} groups of channels")
    b.require((channels % group).eq(0), f"{channels} channels as {group} equal groups")
    return channels // group


def _plain(window: Sequence[Size], dilations: Sequence[int], low: Sequence[Size], sizes: Sequence[Size]) -> Placement:
    """Windows at every place."""
    return Placement(
        tuple(window), (1,) * len(window), tuple(dilations), tuple(low), (ZERO,) * len(window), tuple(sizes)
    )


def _turned(b: GraphBuilder, weight: Tensor, group: int) -> Tensor:
    """[g·c, o, k…] -> [g·o, c, k…] with every window axis backwards."""
    channels, count, *window = weight.sizes
    each, rank = _channels_of_group(b, channels, group), weight.rank
    grouped = b.reshape(weight, (group, each, count, *window))
    swapped = b.transpose(grouped, (0, 2, 1, *range(3, rank + 1)))
    filters = b.reshape(swapped, (count * group, each, *window))
    if all(size == ONE for size in window):
        return filters
    starts = (ZERO, ZERO, *(size - 1 for size in window))
    return b.emit(Slice, filters, starts=starts, sizes=filters.sizes, strides=(1, 1, *[-1] * len(window)))


def _phases(
    b: GraphBuilder, x: Tensor, filters: Tensor, placement: Placement, before: Sequence[Size], group: int
) -> list[Tensor]:
    """The results at positions stride·q + phase, for all phases, the last axis fastest."""
    counts = _counts(placement)
    return [
        _phase(b, x, filters, placement, [each.value for each in before], phase, counts, group)
        for phase in product(*map(range, placement.strides))
    ]


def _counts(placement: Placement) -> tuple[Size, ...]:
    """Positions of each phase, of the first one where they differ."""
    return tuple((size + (step - 1)) // step for size, step in zip(placement.sizes, placement.strides, strict=True))


def _phase(
    b: GraphBuilder,
    x: Tensor,
    filters: Tensor,
    placement: Placement,
    before: Sequence[int],
    phase: Sequence[int],
    counts: Sequence[Size],
    group: int,
) -> Tensor:
    """One phase: window points k with phase + k·dilation ≡ before (mod stride) meet element q + (phase + k·dilation − before) / stride."""
    low: list[Size] = []
    spacing: list[int] = []
    axes = zip(placement.strides, placement.dilations, before, phase, strict=True)
    for axis, (step, dilation, shift, at) in enumerate(axes, 2):
        met = [k for k in range(filters.sizes[axis].value) if (at + k * dilation - shift) % step == 0]
        if not met:
            return b.constant(0, x.dtype, (x.sizes[0], filters.sizes[0], *counts))
        apart = step // gcd(step, dilation)
        filters = b.slice(filters, axis, met[0], len(met), apart)
        low.append(Size.const(-((at + met[0] * dilation - shift) // step)))
        spacing.append(apart * dilation // step)
    return convolved(b, x, filters, _plain(filters.sizes[2:], spacing, low, counts), group)


def _interleaved(b: GraphBuilder, parts: list[Tensor], placement: Placement) -> Tensor:
    """result[n, o, stride·q + phase, …] = parts[phase][n, o, q, …], as far as the sizes go; axis after axis, the last one first."""
    steps, counts = placement.strides, _counts(placement)
    for axis in reversed(range(len(steps))):
        step, at = steps[axis], 3 + axis
        own = [b.reshape(part, (*part.sizes[:at], 1, *part.sizes[at:])) for part in parts]
        parts = [
            own[first] if step == 1 else b.emit(Concatenate, *own[first : first + step], axis=at)
            for first in range(0, len(own), step)
        ]
    whole = [count * step for count, step in zip(counts, steps, strict=True)]
    result = b.reshape(parts[0], (*parts[0].sizes[:2], *whole))
    for axis, size in enumerate(placement.sizes, 2):
        result = b.slice(result, axis, 0, size)
    return result


# -- deformed --------------------------------------------------------------------------------------------------------


@lowers("DeformConv")
def lower_deform_conv(
    b: GraphBuilder,
    x: Value,
    weight: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    offset_group: int = 1,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """A convolution whose window points are moved by offset[n, (h, k…, axis), y…], a channel's by its group h's, and weighed by a mask

    Elements between those of x are linear in their neighbours; outside x they are 0.
    """
    sizes = spatial_sizes(x)
    count = len(sizes)
    filters = _filters(b, x, weight, kernel_shape)
    placement = place_windows(b, sizes, filters.sizes[2:], strides=strides, dilations=dilations, pads=pads)
    batch, channels = x.sizes[0], b.same(x.sizes[1], filters.sizes[1] * group, "the channels of a convolution")
    points, places = numel(filters.sizes[2:]), numel(placement.sizes)
    for size in sizes:
        b.require(size.ge(1), "an axis of a deformed convolution")
    offset = b.with_sizes(offset, (batch, points * (offset_group * count), *placement.sizes), "the offsets")
    moved = b.reshape(offset, (batch * offset_group, points, count, places))
    grid = _moved_grid(b, moved, placement, sizes)
    each = channels // offset_group
    planes = b.convert(b.reshape(x, (batch * offset_group, each, *sizes)), grid.dtype)
    sampled = b.emit(GridSample, planes, grid, mode="linear", padding="zeros", align_corners=False)
    sampled = b.convert(b.reshape(sampled, (batch * offset_group, each, points, places)), x.dtype)
    if mask is not None:
        mask = b.with_sizes(mask, (batch, points * offset_group, *placement.sizes), "the mask")
        factors = b.reshape(mask, (batch * offset_group, 1, points, places))
        sampled = b.emit(Multiply, sampled, b.repeated(factors, sampled.sizes))
    depth = filters.sizes[1] * points
    sampled = b.reshape(sampled, (batch, group, depth, places))
    rows = b.reshape(filters, (group, filters.sizes[0] // group, depth))
    sums = b.emit(
        DotGeneral, rows, sampled, lhs_batch=(0,), rhs_batch=(1,), lhs_contract=(2,), rhs_contract=(2,)
    )  # [g, o, n, places]
    result = b.reshape(b.transpose(sums, (2, 0, 1, 3)), (batch, filters.sizes[0], *placement.sizes))
    return with_bias(b, result, bias)


def _moved_grid(b: GraphBuilder, offset: Tensor, placement: Placement, sizes: Sequence[Size]) -> Tensor:
    """[n·h, points·places, 1…, axis]: where window points lie, in units in which an axis of x goes from −1 to 1, the last axis first.

    In a wider type than the offsets', so that points that are not moved stay where elements are.
    """
    count, wide = len(sizes), F64 if offset.dtype in (F32, F64) else F32
    offset = b.convert(offset, wide)
    rows, points, _, places = offset.sizes
    components: list[Tensor] = []
    for axis in reversed(range(count)):
        within = b.binary(Multiply, iota(b, placement.window, axis), placement.dilations[axis])
        starts = b.binary(Multiply, iota(b, placement.sizes, axis), placement.strides[axis])
        position = b.binary(Add, b.reshape(within, (1, points, 1)), b.reshape(starts, (1, 1, places)))
        position = b.binary(Subtract, position, size_as(b, placement.low[axis]))
        moved = b.reshape(b.slice(offset, 2, axis, 1), (rows, points, places))
        moved = b.binary(Add, moved, b.convert(position, offset.dtype))
        # (2·p + 1) / size − 1 is where the grid has position p.
        doubled = b.binary(Add, b.binary(Multiply, moved, 2), 1)
        unit = b.binary(Subtract, b.binary(Divide, doubled, size_as(b, sizes[axis], offset.dtype)), 1)
        components.append(b.reshape(unit, (rows, points * places, *[1] * count)))
    return b.concatenate(components, count + 1)


# -- columns to images -----------------------------------------------------------------------------------------------


@lowers("Col2Im")
def lower_col2im(
    b: GraphBuilder,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Numbers = None,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """result[n, c, p…] = Σ of x[n, (c, k…), y…] over all windows y and their points k that lie at place p of the image"""
    if image_shape.rank != 1 or not image_shape.sizes[0].is_constant:
        raise Unsupported("the shape of the image must be a vector of a known length")
    image = read_sizes(b, image_shape, image_shape.sizes[0].value, "the shape of the image")
    blocks = read_sizes(b, block_shape, len(image), "the shape of the blocks")
    placement = place_windows(b, image, blocks, strides=strides, dilations=dilations, pads=pads)
    points, places, area = numel(placement.window), numel(placement.sizes), numel(image)
    if x.rank != 3:
        raise Malformed(f"the columns must have 3 axes; they have {x.rank}")
    batch, channels = x.sizes[0], x.sizes[1] // points
    columns = b.with_sizes(x, (batch, channels * points, places), "the columns of an image")
    columns = b.reshape(columns, (batch * channels, points * places))
    flat: Tensor | None = None
    inside: Tensor | None = None
    for axis, size in enumerate(image):
        within = b.binary(Multiply, iota(b, placement.window, axis), placement.dilations[axis])
        starts = b.binary(Multiply, iota(b, placement.sizes, axis), placement.strides[axis])
        place = b.binary(Add, b.reshape(within, (points, 1)), b.reshape(starts, (1, places)))
        place = b.binary(Subtract, place, size_as(b, placement.low[axis]))
        extent = size_as(b, size)
        is_in = b.binary(And, b.compare("ge", place, 0), b.compare("lt", place, extent))
        inside = is_in if inside is None else b.binary(And, inside, is_in)
        flat = place if flat is None else b.binary(Add, b.binary(Multiply, flat, extent), place)
    assert flat is not None and inside is not None
    # What lies outside is added to a place of its own behind the image.
    target = b.reshape(b.select(inside, flat, size_as(b, area)), (points * places,))
    wide = accumulation_dtype(x.dtype)
    rows = b.convert(b.transpose(columns, (1, 0)), wide)
    start = b.constant(0, wide, (area + 1, batch * channels))
    sums = b.slice(b.emit(Scatter, start, target, rows, kind="sum"), 0, 0, area)
    return b.convert(b.reshape(b.transpose(sums, (1, 0)), (batch, channels, *image)), x.dtype)


__all__ = ["convolved", "with_bias"]
