"""ATen convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import cast

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Concatenate, Convolution, DotGeneral, Patches, Reduce, Slice
from anyshape.dialects.dtypes import BOOL
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

MAX_PHASES = 64
"""Convolutions into which a transposed one is cut, at most."""
MIN_SHARED_FILTERS = 4
"""Filters of a group from which on phases share their windows."""


@dataclass(frozen=True)
class Windowing:
    """Where windows lie, one number an axis: PyTorch's stride, padding and dilation."""

    strides: tuple[int, ...]
    padding: tuple[Size, ...]
    dilation: tuple[int, ...]

    @staticmethod
    def of(spatial: int, stride: Sequence[Value], padding: Sequence[Value], dilation: Sequence[Value]) -> Windowing:
        """A list of one number holds for every axis. Unsupported where a stride or a dilation depends on sizes."""

        def each(values: Sequence[Value], what: str) -> tuple[int, ...]:
            if not all(isinstance(value, int) for value in values):
                raise Unsupported(f"a convolution whose {what} depends on sizes")
            return _repeated(cast("Sequence[int]", values), spatial)

        sizes = tuple(Size.of(value) for value in _repeated(padding, spatial))
        return Windowing(each(stride, "stride"), sizes, each(dilation, "dilation"))


def _repeated(values: Sequence[Value], count: int) -> tuple[Value, ...]:
    return tuple(values) * count if len(values) == 1 else tuple(values)


@lowers("aten.convolution.default")
def lower_convolution(
    builder: GraphBuilder,
    x: SSAValue,
    weight: SSAValue,
    bias: Value,
    stride: Sequence[Value],
    padding: Sequence[Value],
    dilation: Sequence[Value],
    is_transposed: bool,
    _output_padding: Sequence[Value],
    groups: Value,
) -> SSAValue:
    """Σ over the window and the channels of the group of x · weight, plus bias[o]; without a batch axis, of one tensor.

    Raises:
        Unsupported: dtypes differ or are bool, which PyTorch refuses when it runs; strides, dilations or groups are no numbers.
    """
    dtype, spatial = dtype_of(weight.type), rank_of(weight.type) - 2
    if dtype_of(x.type) != dtype or (bias is not None and dtype_of(bias.type) != dtype):
        raise Unsupported(
            f"a convolution of {dtype_of(x.type)} with {dtype} filters or bias, which PyTorch refuses too"
        )
    if dtype == BOOL or not isinstance(groups, int):
        raise Unsupported("a convolution of bools, or with groups that depend on sizes")
    windows = Windowing.of(spatial, stride, padding, dilation)
    batched = rank_of(x.type) == spatial + 2
    if not batched:
        x = builder.reshape(x, (1, *sizes_of(x.type)))
    sizes = builder.result_sizes[-spatial:]
    if is_transposed:
        result = _transposed(builder, x, weight, windows, sizes, groups)
    else:
        _require_windows(builder, x, weight, windows)
        result = _convolved(builder, x, weight, windows, sizes, groups)
    if bias is not None:
        column = builder.reshape(bias, (*sizes_of(bias.type), *(1,) * spatial))
        result = builder.emit(Add, result, builder.broadcast(column, sizes_of(result.type)))
    return result if batched else builder.reshape(result, builder.result_sizes)


def _require_windows(builder: GraphBuilder, x: SSAValue, weight: SSAValue, windows: Windowing) -> None:
    """A window larger than the padded tensor, and a tensor without places, are errors in PyTorch."""
    for axis, (size, extent) in enumerate(zip(sizes_of(x.type)[2:], sizes_of(weight.type)[2:], strict=True)):
        padded = size + windows.padding[axis] * 2
        builder.require((windows.dilation[axis] * (extent - 1) + 1).le(padded), "convolution")
        builder.require(Size.const(1).le(size), "convolution")


def _convolved(
    builder: GraphBuilder, x: SSAValue, weight: SSAValue, windows: Windowing, sizes: Sequence[Size], groups: int
) -> SSAValue:
    return builder.emit(
        Convolution,
        x,
        weight,
        window_strides=windows.strides,
        padding=windows.padding,
        lhs_dilation=(1,) * len(sizes),
        rhs_dilation=windows.dilation,
        sizes=tuple(sizes),
        feature_group_count=groups,
    )


# -- transposed -------------------------------------------------------------------------------------------------------


def _transposed(
    builder: GraphBuilder, x: SSAValue, weight: SSAValue, windows: Windowing, sizes: Sequence[Size], groups: int
) -> SSAValue:
    """The gradient of a convolution by its argument: x with stride − 1 zeros between its elements, with filters turned round.

    Only every stride-th window point meets elements other than zero. Which, depends on the remainder of the result's position by the
    stride: its phase. So each phase is a convolution of its own, with a part of the filters, and they are put together at the end.
    """
    filters = _turned(builder, weight, groups)
    batch, channels, *rest = sizes_of(x.type)
    grouped = sizes_of(filters.type)[1] * groups
    if channels != grouped:  # c and g·(c // g), where g divides c
        builder.require(channels.eq(grouped), "a transposed convolution has whole groups of channels")
        x = builder.reshape(x, (batch, grouped, *rest))
    steps, window = windows.strides, sizes_of(filters.type)[2:]
    padding = [
        dilation * (extent - 1) - before
        for dilation, extent, before in zip(windows.dilation, window, windows.padding, strict=True)
    ]
    known = all(size.is_constant for size in (*window, *padding))
    if prod(steps) == 1 or not known or prod(steps) > MAX_PHASES:
        return builder.emit(
            Convolution,
            x,
            filters,
            window_strides=(1,) * len(sizes),
            padding=tuple(padding),
            lhs_dilation=steps,
            rhs_dilation=windows.dilation,
            sizes=tuple(sizes),
            feature_group_count=groups,
        )
    counts = tuple((size + (step - 1)) // step for size, step in zip(sizes, steps, strict=True))
    before = [each.value for each in padding]
    share = _share_windows(windows, [size.value for size in window], filters, groups)
    phases = _phases_of_one if share else _phases_one_by_one
    parts = phases(builder, x, filters, windows, before, counts, groups)
    return _interleaved(builder, parts, steps, counts, sizes)


def _share_windows(windows: Windowing, extents: Sequence[int], filters: SSAValue, groups: int) -> bool:
    """Whether the windows of all phases have the same size, and filters are so many that gathering them once is worth some places more."""
    each = sizes_of(filters.type)[0].constant_or(0) // groups
    equal = all(
        extent % step == 0 and (step == 1 or apart == 1)
        for extent, step, apart in zip(extents, windows.strides, windows.dilation, strict=True)
    )
    return equal and each >= MIN_SHARED_FILTERS


def _turned(builder: GraphBuilder, weight: SSAValue, groups: int) -> SSAValue:
    """[g·c, o, k…] -> [g·o, c, k…] with every window axis backwards."""
    sizes = sizes_of(weight.type)
    rank, each = len(sizes), sizes[0] // groups
    grouped = builder.reshape(weight, (groups, each, *sizes[1:]))
    swapped = transposed(builder, grouped, (0, 2, 1, *range(3, rank + 1)))
    filters = builder.reshape(swapped, (sizes[1] * groups, each, *sizes[2:]))
    if all(size == Size.const(1) for size in sizes[2:]):
        return filters
    zero = Size.const(0)
    starts = (zero, zero, *(size - 1 for size in sizes[2:]))
    return builder.emit(
        Slice, filters, starts=starts, sizes=sizes_of(filters.type), strides=(1, 1, *(-1,) * (rank - 2))
    )


def _phases_one_by_one(
    builder: GraphBuilder,
    x: SSAValue,
    filters: SSAValue,
    windows: Windowing,
    padding: Sequence[int],
    counts: Sequence[Size],
    groups: int,
) -> list[SSAValue]:
    """The results of all phases, the last axis fastest, each a convolution of its own."""
    phases = product(*map(range, windows.strides))
    return [_phase(builder, x, filters, windows, padding, counts, phase, groups) for phase in phases]


def _phases_of_one(
    builder: GraphBuilder,
    x: SSAValue,
    filters: SSAValue,
    windows: Windowing,
    padding: Sequence[int],
    counts: Sequence[Size],
    groups: int,
) -> list[SSAValue]:
    """The results of all phases as parts of one convolution with the filters of all.

    Where a stride s divides the window, phase p meets the points k ≡ padding − p (mod s): all phases have windows of one size, which differ
    in where they begin, by one place at most. So there is one place more along such an axis, and every phase takes its own.
    """
    steps, spatial = windows.strides, len(counts)
    count, depth, *window = (size.value for size in sizes_of(filters.type))
    split = [each for extent, step in zip(window, steps, strict=True) for each in (extent // step, step)]
    filters = builder.reshape(filters, (groups, count // groups, depth, *split))
    residues, taps = range(4, 3 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    filters = transposed(builder, filters, (0, *residues, 1, 2, *taps))
    inner = [extent // step for extent, step in zip(window, steps, strict=True)]
    filters = builder.reshape(filters, (count * prod(steps), depth, *inner))
    # Zeros in front of the first window of each phase: k = residue + step · tap meets (phase + k − padding) / step.
    starts = [
        [-((at + (before - at) % step - before) // step) for at in range(step)]
        for before, step in zip(padding, steps, strict=True)
    ]
    most, least = [max(each) for each in starts], [min(each) for each in starts]
    places = [size + (high - low) for size, high, low in zip(counts, most, least, strict=True)]
    spacing = tuple(apart if step == 1 else 1 for apart, step in zip(windows.dilation, steps, strict=True))
    own = Windowing((1,) * spatial, tuple(Size.const(each) for each in most), spacing)
    result = _convolved(builder, x, filters, own, places, groups)
    batch = sizes_of(x.type)[0]
    result = builder.reshape(result, (batch, groups, *steps, count // groups, *places))
    parts: list[SSAValue] = []
    for phase in product(*map(range, steps)):
        part = result
        for axis, (at, before, step) in enumerate(zip(phase, padding, steps, strict=True)):
            part = sliced(builder, part, 2 + axis, (before - at) % step, 1)
            part = sliced(builder, part, 3 + spatial + axis, most[axis] - starts[axis][at], counts[axis])
        parts.append(builder.reshape(part, (batch, groups, count // groups, *counts)))
    return parts


def _phase(
    builder: GraphBuilder,
    x: SSAValue,
    filters: SSAValue,
    windows: Windowing,
    padding: Sequence[int],
    counts: Sequence[Size],
    phase: Sequence[int],
    groups: int,
) -> SSAValue:
    """The result at positions step · q + phase: there, window points k with phase + k · dilation ≡ padding (mod step) meet elements."""
    before: list[Size] = []
    spacing: list[int] = []
    for axis, (step, dilation, at) in enumerate(zip(windows.strides, windows.dilation, phase, strict=True)):
        extent = sizes_of(filters.type)[2 + axis].value
        met = [k for k in range(extent) if (at + k * dilation - padding[axis]) % step == 0]
        if not met:
            sizes = (sizes_of(x.type)[0], sizes_of(filters.type)[0], *counts)
            return builder.constant(0, dtype_of(x.type), sizes)
        apart = step // gcd(step, dilation)
        filters = sliced(builder, filters, 2 + axis, met[0], len(met), apart)
        before.append(Size.const(-((at + met[0] * dilation - padding[axis]) // step)))
        spacing.append(apart * dilation // step)
    return _convolved(builder, x, filters, Windowing((1,) * len(phase), tuple(before), tuple(spacing)), counts, groups)


def _interleaved(
    builder: GraphBuilder,
    parts: Sequence[SSAValue],
    steps: Sequence[int],
    counts: Sequence[Size],
    sizes: Sequence[Size],
) -> SSAValue:
    """result[b, o, step · q + phase, …] = parts[phase][b, g, o, q, …], as far as `sizes` go; axis after axis, the last one first."""
    spatial = len(steps)
    lead = sizes_of(parts[0].type)[:-spatial]
    for axis in reversed(range(spatial)):
        step, at = steps[axis], len(lead) + axis + 1
        own = [builder.reshape(part, (*sizes_of(part.type)[:at], 1, *sizes_of(part.type)[at:])) for part in parts]
        parts = [
            own[first] if step == 1 else builder.emit(Concatenate, *own[first : first + step], axis=at)
            for first in range(0, len(own), step)
        ]
    whole = [count * step for count, step in zip(counts, steps, strict=True)]
    result = builder.reshape(parts[0], (lead[0], prod(lead[1:], start=Size.const(1)), *whole))
    for axis, size in enumerate(sizes, 2):
        result = sliced(builder, result, axis, 0, size)
    return result


# -- gradients --------------------------------------------------------------------------------------------------------


@lowers("aten.convolution_backward.default")
def lower_convolution_backward(
    builder: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    weight: SSAValue,
    _bias_sizes: Value,
    stride: Sequence[Value],
    padding: Sequence[Value],
    dilation: Sequence[Value],
    is_transposed: bool,
    _output_padding: Sequence[Value],
    groups: Value,
    output_mask: Sequence[bool],
) -> tuple[Value, Value, Value]:
    """The gradients by x, weight and bias, each where `output_mask` asks for it."""
    spatial = rank_of(weight.type) - 2
    windows = Windowing.of(spatial, stride, padding, dilation)
    if rank_of(x.type) != spatial + 2 or not isinstance(groups, int):
        raise Unsupported("the gradient of a convolution without a batch axis, or with groups that depend on sizes")
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        backwards = _convolved if is_transposed else _transposed
        by_x = backwards(builder, gradient, weight, windows, sizes_of(x.type)[2:], groups)
    if output_mask[1]:
        read, rows = (gradient, x) if is_transposed else (x, gradient)
        by_weight = _by_weight(builder, read, rows, weight, windows, groups)
    if output_mask[2]:
        by_bias = builder.emit(Reduce, gradient, axes=(0, *range(2, 2 + spatial)), kind="sum")
    return by_x, by_weight, by_bias


def _by_weight(
    builder: GraphBuilder, read: SSAValue, rows: SSAValue, weight: SSAValue, windows: Windowing, groups: int
) -> SSAValue:
    """Σ_{b, y…} rows[b, g·o, y…] · (windows of `read`)[b, g·c, k…, y…]: [g·o, c, k…]"""
    spatial, sizes = len(windows.strides), sizes_of(weight.type)
    places = sizes_of(rows.type)[2:]
    patches = builder.emit(
        Patches,
        read,
        window_strides=windows.strides,
        padding=windows.padding,
        lhs_dilation=(1,) * spatial,
        rhs_dilation=windows.dilation,
        sizes=places,
        window=sizes[2:],
    )
    batch = sizes_of(rows.type)[0]
    patches = builder.reshape(patches, (batch, groups, sizes[1], *sizes[2:], *places))
    rows = builder.reshape(rows, (batch, groups, sizes[0] // groups, *places))
    weights = builder.emit(
        DotGeneral,
        rows,
        patches,
        lhs_batch=(1,),
        rhs_batch=(1,),
        lhs_contract=(0, *range(3, 3 + spatial)),
        rhs_contract=(0, *range(3 + spatial, 3 + 2 * spatial)),
    )
    return builder.reshape(weights, sizes)


__all__ = ["Windowing", "lower_convolution", "lower_convolution_backward"]
