"""ONNX's pools: the largest element, the mean or a norm of windows and of whole planes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    And,
    Compare,
    Divide,
    FloorDivide,
    Mean,
    Multiply,
    Pad,
    Power,
    Reduce,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.pooling import AvgPool, MaxPool, MaxPoolIndex
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dhlo.windows import Windows
from anyshape.dialects.dtypes import I64
from anyshape.dialects.scalars import highest, lowest
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_sizes
from anyshape.frontends.onnx.places import along, iota, size_as
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.frontends.onnx.windows import Pads, Placement, numbers_of, pads_of, place_windows, spatial_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size

Numbers = Sequence[int] | None


@dataclass(frozen=True)
class _Pool:
    """Windows of the spatial axes of x, the last ones."""

    b: GraphBuilder
    x: Tensor
    placement: Placement

    @property
    def count(self) -> int:
        return len(self.placement.sizes)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(size.value for size in self.placement.window)

    @property
    def is_fixed(self) -> bool:
        """Whether padding is known numbers, and less than a window, so that every window meets an element."""
        reach = [1 + apart * (extent - 1) for extent, apart in zip(self.extents, self.placement.dilations, strict=True)]
        return all(
            before.is_constant and before.value < most and behind.is_constant and behind.value < most
            for before, behind, most in zip(self.placement.low, self.placement.high, reach, strict=True)
        )

    @property
    def low(self) -> tuple[int, ...]:
        return tuple(size.value for size in self.placement.low)

    def windows(self, x: Tensor, fill: float) -> Tensor:
        """[n, c, y…, k…], `fill` where a window leaves x."""
        placement = self.placement
        return self.b.emit(
            Windows, x, self.b.constant(fill, x.dtype), window=placement.window, strides=placement.strides,
            dilation=placement.dilations, low=placement.low, sizes=placement.sizes,
        )  # fmt: skip

    def reduced(self, windows: Tensor, kind: str) -> Tensor:
        """Combined over the places of each window."""
        return self.b.emit(Reduce, windows, axes=tuple(range(windows.rank - self.count, windows.rank)), kind=kind)

    def counts(self, include_pad: bool, dtype: Tensor) -> Tensor:
        """How many places of each window lie in x, or in x and its padding, as a tensor like `dtype`."""
        b, placement = self.b, self.placement
        total: Tensor | None = None
        for axis, (size, extent) in enumerate(zip(placement.sizes, self.extents, strict=True)):
            own = (size, Size.const(extent))
            starts = b.binary(Multiply, iota(b, own, 0), placement.strides[axis])
            place = b.binary(Add, starts, b.binary(Multiply, iota(b, own, 1), placement.dilations[axis]))
            end = self.x.sizes[2 + axis] + placement.low[axis]
            first, end = (ZERO, end + placement.high[axis]) if include_pad else (placement.low[axis], end)
            inside = b.binary(And, b.compare("ge", place, size_as(b, first)), b.compare("lt", place, size_as(b, end)))
            number = b.emit(Reduce, b.convert(inside, dtype.dtype), axes=(1,), kind="sum")
            spread = along(b, number, 2 + axis, dtype.sizes)
            total = spread if total is None else b.emit(Multiply, total, spread)
        assert total is not None
        return total


def _pool(
    b: GraphBuilder,
    x: Value,
    kernel_shape: Numbers,
    strides: Numbers,
    dilations: Numbers,
    pads: Pads,
    auto_pad: str,
    ceil_mode: int,
) -> _Pool:
    sizes = spatial_sizes(x)
    if not kernel_shape:
        raise Malformed("a pool needs the shape of its windows")
    window = numbers_of(kernel_shape, len(sizes), "kernel_shape")
    placement = place_windows(
        b, sizes, window, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad, ceil_mode=bool(ceil_mode)
    )
    return _Pool(b, b.tensor(x), placement)


# -- maxima ----------------------------------------------------------------------------------------------------------


@lowers("MaxPool")
def lower_max_pool(
    b: GraphBuilder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Numbers = None,
    kernel_shape: Numbers = None,
    pads: Pads = None,
    storage_order: int = 0,
    strides: Numbers = None,
) -> list[Value | None]:
    """The largest element of each window, and where in the whole of x it is: the first of equal ones

    With `storage_order` 1 places in a plane are counted with its first axis as the fastest.
    """
    pool = _pool(b, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    placement, least = pool.placement, lowest(x.dtype)
    attributes = {
        "window": pool.extents,
        "strides": placement.strides,
        "dilation": placement.dilations,
        "sizes": placement.sizes,
    }
    if pool.is_fixed:
        largest = b.emit(MaxPool, pool.x, low=pool.low, **attributes)
    else:
        largest = pool.reduced(pool.windows(pool.x, least), "max")
    if not b.is_asked_for(1):
        return [largest, None]
    if pool.is_fixed:
        place = b.emit(MaxPoolIndex, pool.x, low=pool.low, **attributes)
    else:
        place = _largest_place(pool, largest)
    return [largest, _place_in_whole(b, place, pool.x.sizes, storage_order)]


def _largest_place(pool: _Pool, largest: Tensor) -> Tensor:
    """Where in its plane the first of the largest elements of each window is."""
    b = pool.b
    spatial = pool.x.sizes[2:]
    flat = b.reshape(iota(b, (numel(spatial),)), (1, 1, *spatial))
    places = pool.windows(b.repeated(flat, pool.x.sizes), -1)
    windows = pool.windows(pool.x, lowest(pool.x.dtype))
    top = b.repeated(b.reshape(largest, (*largest.sizes, *[1] * pool.count)), windows.sizes)
    found = b.binary(And, b.emit(Compare, windows, top, direction="eq"), b.compare("ge", places, 0))
    return pool.reduced(b.select(found, places, highest(I64)), "min")


def _place_in_whole(b: GraphBuilder, place: Tensor, sizes: Sequence[Size], storage_order: int) -> Tensor:
    """(n·channels + c)·plane + the place in the plane."""
    batch, channels, *spatial = sizes
    if storage_order:
        place = _first_axis_fastest(b, place, spatial)
    lines = b.reshape(iota(b, (batch * channels,)), (batch, channels, *[1] * len(spatial)))
    return b.binary(Add, place, b.binary(Multiply, lines, size_as(b, numel(spatial))))


def _first_axis_fastest(b: GraphBuilder, place: Tensor, spatial: Sequence[Size]) -> Tensor:
    """Row-major places of a plane as places that count its first axis fastest."""
    rest = place
    total: Tensor | None = None
    for axis in reversed(range(len(spatial))):
        extent = size_as(b, spatial[axis])
        outer = b.binary(FloorDivide, rest, extent) if axis else b.constant(0, I64, rest.sizes)
        index = b.binary(Subtract, rest, b.binary(Multiply, outer, extent))
        term = b.binary(Multiply, index, size_as(b, numel(spatial[:axis])))
        total = term if total is None else b.emit(Add, total, term)
        rest = outer
    assert total is not None
    return total


@lowers("MaxUnpool")
def lower_max_unpool(
    b: GraphBuilder,
    x: Value,
    indices: Value,
    output_shape: Value | None = None,
    *,
    kernel_shape: Numbers = None,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """Zeros with each element at the place in the whole that `indices` says, of sizes (s − 1)·stride − pads + k; then as large as asked"""
    spatial = spatial_sizes(x)
    count = len(spatial)
    window, steps = numbers_of(kernel_shape, count, "kernel_shape"), numbers_of(strides, count, "strides")
    low, high = pads_of(pads, count)
    sizes = [(size - 1) * steps[axis] - low[axis] - high[axis] + window[axis] for axis, size in enumerate(spatial)]
    for size, target in zip(spatial, sizes, strict=True):
        b.require(size.ge(1), "an axis of an unpooled tensor")
        b.require(target.ge(0), "an axis of an unpooled tensor")
    full = (*x.sizes[:2], *sizes)
    each = numel(x.sizes)
    at = b.reshape(b.convert(b.with_sizes(indices, x.sizes, "the indices"), I64), (each,))
    zeros = b.constant(0, x.dtype, (numel(full),))
    result = b.reshape(b.emit(Scatter, zeros, at, b.reshape(x, (each,)), kind="set"), full)
    if output_shape is None:
        return result
    wanted = read_sizes(b, output_shape, len(full), "the shape of an unpooled tensor")
    behind = tuple(target - size for target, size in zip(wanted, full, strict=True))
    for amount in behind:
        b.require(amount.ge(0), "the shape of an unpooled tensor")
    return b.emit(Pad, result, b.constant(0, x.dtype), low=(ZERO,) * len(full), high=behind)


# -- means and norms -------------------------------------------------------------------------------------------------


@lowers("AveragePool")
def lower_average_pool(
    b: GraphBuilder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Numbers = None,
    kernel_shape: Numbers = None,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """The mean of each window's elements in x; with `count_include_pad`, padding counts as zeros"""
    pool = _pool(b, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    placement = pool.placement
    is_plain = all(each == 1 for each in placement.dilations) and pool.is_fixed
    if is_plain and (not count_include_pad or placement.low == placement.high):
        return b.emit(
            AvgPool, pool.x, window=pool.extents, strides=placement.strides, dilation=placement.dilations, low=pool.low,
            sizes=placement.sizes, count_include_pad=bool(count_include_pad), divisor=0,
        )  # fmt: skip
    wide = b.convert(pool.x, accumulation_dtype(x.dtype))
    total = pool.reduced(pool.windows(wide, 0), "sum")
    return b.convert(b.emit(Divide, total, pool.counts(bool(count_include_pad), total)), x.dtype)


@lowers("LpPool")
def lower_lp_pool(
    b: GraphBuilder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Numbers = None,
    kernel_shape: Numbers = None,
    p: int = 2,
    pads: Pads = None,
    strides: Numbers = None,
) -> Value:
    """(Σ |x|^p)^(1/p) over each window"""
    pool = _pool(b, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = _powers(b, pool.x, p)
    return _root(b, pool.reduced(pool.windows(powers, 0), "sum"), p, x)


def _powers(b: GraphBuilder, x: Tensor, p: int) -> Tensor:
    """|x|^p, of f16 and bf16 in f32"""
    wide = b.convert(x, accumulation_dtype(x.dtype))
    if p == 2:
        return b.emit(Multiply, wide, wide)
    size = b.emit(Abs, wide)
    return size if p == 1 else b.binary(Power, size, float(p))


def _root(b: GraphBuilder, total: Tensor, p: int, like: Value) -> Tensor:
    root = b.emit(Sqrt, total) if p == 2 else total if p == 1 else b.binary(Power, total, 1.0 / p)
    return b.convert(root, like.dtype)


# -- whole planes ----------------------------------------------------------------------------------------------------


def _plane(x: Value) -> tuple[tuple[int, ...], tuple[Size, ...]]:
    """The spatial axes, and the sizes of a tensor in which they have become 1."""
    if x.rank < 3:
        spatial_sizes(x)
    return tuple(range(2, x.rank)), (*x.sizes[:2], *[ONE] * (x.rank - 2))


@lowers("GlobalAveragePool")
def lower_global_average_pool(b: GraphBuilder, x: Value) -> Value:
    axes, sizes = _plane(x)
    return b.reshape(b.emit(Mean, x, axes=axes), sizes)


@lowers("GlobalMaxPool")
def lower_global_max_pool(b: GraphBuilder, x: Value) -> Value:
    axes, sizes = _plane(x)
    return b.reshape(b.emit(Reduce, x, axes=axes, kind="max"), sizes)


@lowers("GlobalLpPool")
def lower_global_lp_pool(b: GraphBuilder, x: Value, *, p: int = 2) -> Value:
    axes, sizes = _plane(x)
    total = b.emit(Reduce, _powers(b, b.tensor(x), p), axes=axes, kind="sum")
    return b.reshape(_root(b, total, p, x), sizes)


__all__: list[str] = []
