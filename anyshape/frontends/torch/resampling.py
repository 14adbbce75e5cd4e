"""ATen resizing and padding by a tensor's own elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Divide, Iota, Maximum, Multiply, Subtract
from anyshape.dialects.dhlo.border import BorderPad
from anyshape.dialects.dhlo.grid_sample import GridSample
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.resize import TAPS, Resize, floats
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.channel_norms import number_at
from anyshape.frontends.torch.movement import sliced
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max

_NEAREST = {
    f"aten.{name}{count}d": mode
    for name, mode in (("upsample_nearest", "nearest"), ("_upsample_nearest_exact", "nearest-exact"))
    for count in (1, 2, 3)
}
_WEIGHED = {
    "aten.upsample_linear1d": "linear",
    "aten.upsample_bilinear2d": "linear",
    "aten.upsample_trilinear3d": "linear",
    "aten.upsample_bicubic2d": "cubic",
}
_PADS = {
    **{f"aten.reflection_pad{count}d.default": "reflect" for count in (1, 2, 3)},
    **{f"aten.replication_pad{count}d.default": "replicate" for count in (1, 2, 3)},
    "aten._pad_circular.default": "circular",
}
RESAMPLED = (
    *(f"{name}.{overload}" for name in (*_NEAREST, *_WEIGHED) for overload in ("default", "vec")),
    *_PADS,
)
"""The overloads that are lowered here; PyTorch's decompositions of them gather by tensors of indices."""


def _resized(builder: GraphBuilder, x: SSAValue, align_corners: bool, scales: Sequence[float | None]) -> SSAValue:
    packet, _ = str(builder.node.target).rsplit(".", 1)
    mode, dtype = {**_NEAREST, **_WEIGHED}[packet], dtype_of(x.type)
    if TAPS[mode] > 1 and not dtype.is_float:
        raise Unsupported(f"{mode} resizing of {dtype}, which PyTorch rounds at every axis")
    count = rank_of(x.type) - 2
    sizes = builder.result_sizes[-count:]
    for size in (*sizes, *sizes_of(x.type)[-count:]):
        builder.require(Size.const(1).le(size), "resizing")
    given = tuple(float(scale) if scale else 0.0 for scale in scales)
    if align_corners or not any(given) or len(given) != count:
        given = ()
    scales_given = {"scales": floats(*given)} if given else {}
    return builder.emit(Resize, x, mode=mode, sizes=sizes, align_corners=align_corners, **scales_given)


@lowers(*(f"{name}.vec" for name in _NEAREST))
def lower_nearest_by_factors(
    builder: GraphBuilder, x: SSAValue, _sizes: Value, scale_factors: Sequence[float] | None = None
) -> SSAValue:
    return _resized(builder, x, False, scale_factors or ())


@lowers(*(f"{name}.default" for name in _NEAREST))
def lower_nearest(builder: GraphBuilder, x: SSAValue, _sizes: Value, *scales: float | None, **named: Value) -> SSAValue:
    return _resized(builder, x, False, scales or tuple(named.values()))


@lowers(*(f"{name}.vec" for name in _WEIGHED))
def lower_weighed_by_factors(
    builder: GraphBuilder, x: SSAValue, _sizes: Value, align_corners: bool, scale_factors: Sequence[float] | None = None
) -> SSAValue:
    return _resized(builder, x, align_corners, scale_factors or ())


@lowers(*(f"{name}.default" for name in _WEIGHED))
def lower_weighed(
    builder: GraphBuilder, x: SSAValue, _sizes: Value, align_corners: bool, *scales: float | None, **named: Value
) -> SSAValue:
    return _resized(builder, x, align_corners, scales or tuple(named.values()))


@lowers(*_PADS)
def lower_border_pad(builder: GraphBuilder, x: SSAValue, padding: Sequence[Value]) -> SSAValue:
    """`padding` lists (low, high) from the last axis on."""
    mode, rank, sizes = _PADS[str(builder.node.target)], rank_of(x.type), sizes_of(x.type)
    low, high = [Size.const(0)] * rank, [Size.const(0)] * rank
    for index in range(len(padding) // 2):
        axis = rank - 1 - index
        low[axis], high[axis] = (Size.of(amount) for amount in padding[2 * index : 2 * index + 2])
        for amount in (low[axis], high[axis]):
            if mode == "replicate":
                builder.require(Size.const(1).le(sizes[axis]), "replication pad")
            elif mode == "reflect":
                builder.require(amount.lt(sizes[axis]), "reflection pad")
            else:
                builder.require(amount.le(sizes[axis]), "circular pad")
    if mode == "circular":
        x, low, high = _cropped(builder, x, low, high)
    return builder.emit(BorderPad, x, mode=mode, low=tuple(low), high=tuple(high))


def _cropped(
    builder: GraphBuilder, x: SSAValue, low: Sequence[Size], high: Sequence[Size]
) -> tuple[SSAValue, list[Size], list[Size]]:
    """x without what negative amounts crop, and the amounts that are left: PyTorch goes round what it keeps."""
    cuts = [
        [size_max(-amount, 0) if amount.is_constant else Size.const(0) for amount in amounts] for amounts in (low, high)
    ]
    for axis, (before, after) in enumerate(zip(*cuts, strict=True)):
        x = sliced(builder, x, axis, before, sizes_of(x.type)[axis] - before - after)
    left = ([amount + cut for amount, cut in zip(*each, strict=True)] for each in zip((low, high), cuts, strict=True))
    kept_low, kept_high = left
    return x, kept_low, kept_high


@lowers("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def lower_grid_sampler(
    builder: GraphBuilder, x: SSAValue, grid: SSAValue, interpolation: int, padding: int, align_corners: bool
) -> SSAValue:
    sizes = sizes_of(x.type)
    for size in sizes[2:]:
        builder.require(Size.const(1).le(size), "grid_sampler")
    builder.require(sizes_of(grid.type)[0].eq(sizes[0]), "grid_sampler")
    grid = builder.reshape(
        builder.convert(grid, dtype_of(x.type)), (sizes[0], *sizes_of(grid.type)[1:-1], len(sizes) - 2)
    )
    mode, place = ("linear", "nearest", "cubic")[interpolation], ("zeros", "border", "reflection")[padding]
    return builder.emit(GridSample, x, grid, mode=mode, padding=place, align_corners=align_corners)


@lowers("aten.affine_grid_generator.default")
def lower_affine_grid(builder: GraphBuilder, theta: SSAValue, size: Sequence[Value], align_corners: bool) -> SSAValue:
    """result[n, o…, i] = Σ theta[n, i, j] · p(j) + theta[n, i, last], p(j) the position of o on axis j from the last, in [−1, 1]"""
    sizes, dtype = builder.result_sizes, dtype_of(theta.type)
    count, real = len(sizes) - 2, accumulation_dtype(dtype)
    builder.require(Size.of(size[0]).eq(sizes_of(theta.type)[0]), "affine_grid")
    for each in size:
        builder.require(Size.const(1).le(Size.of(each)), "affine_grid")
    theta = builder.convert(theta, real)
    total: SSAValue | None = None
    for column in range(count + 1):
        factors = builder.reshape(sliced(builder, theta, 2, column, 1), (sizes[0], *(1,) * count, count))
        term = builder.broadcast(factors, sizes)
        if column < count:
            position = _grid_positions(builder, sizes[count - column], real, align_corners)
            aligned = builder.reshape(position, (sizes[count - column], *(1,) * (column + 1)))
            term = builder.emit(Multiply, term, builder.broadcast(aligned, sizes))
        total = term if total is None else builder.emit(Add, total, term)
    assert total is not None
    return builder.convert(total, dtype)


def _grid_positions(builder: GraphBuilder, size: Size, real: DType, align_corners: bool) -> SSAValue:
    """[size]: from −1 to 1 at the centres of the first and the last element, or at their outer edges; 0 of one element."""
    place = builder.convert(builder.emit(Iota, axis=0, sizes=(size,)), real)
    one = number_at(builder, 1.0, place)
    twice = builder.emit(Add, place, place)
    less = 1 if align_corners else 0
    steps = builder.emit(Maximum, number_at(builder, size - less, place), one)
    start = number_at(builder, size - 1, place)
    return builder.emit(Divide, builder.emit(Subtract, twice, start), steps)
