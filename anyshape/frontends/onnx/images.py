"""ONNX ops on images: sampling at positions that are data, cuts and borders around the middle."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import Abs, Add, Divide, Maximum, Minimum, Multiply, Pad, Sign, Subtract
from anyshape.dialects.dhlo.grid_sample import GridSample
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import DType
from anyshape.frontends.onnx.builder import ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_sizes
from anyshape.frontends.onnx.places import iota, size_as
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.frontends.onnx.windows import spatial_sizes
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max

_MODES = {
    "bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic",
}  # fmt: skip


@lowers("GridSample")
def lower_grid_sample(
    b: GraphBuilder, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    """x at the positions grid[n, o…, :], whose last component is that on the first spatial axis"""
    sizes = spatial_sizes(x)
    if mode not in _MODES or padding_mode not in ("zeros", "border", "reflection"):
        raise Malformed(f"mode is {mode!r}, padding_mode {padding_mode!r}")
    if grid.rank != x.rank:
        raise Malformed(f"the grid has {grid.rank} axes, and the tensor {x.rank}")
    for size in sizes:
        b.require(size.ge(1), "an axis of a sampled image")
    grid = b.with_sizes(grid, (x.sizes[0], *grid.sizes[1:-1], len(sizes)), "the grid")
    dtype = x.dtype
    wide = dtype if dtype.is_float else grid.dtype
    grid = b.convert(grid, wide)
    if _MODES[mode] == "cubic" and padding_mode == "border":
        grid = _inside(b, grid, sizes, bool(align_corners))
    attributes = {"mode": _MODES[mode], "padding": padding_mode, "align_corners": bool(align_corners)}
    sampled = b.emit(GridSample, b.convert(x, wide), grid, **attributes)
    return b.convert(sampled, dtype)


def _inside(b: GraphBuilder, grid: Tensor, sizes: Sequence[Size], align_corners: bool) -> Tensor:
    """Positions beyond [−1, 1] moved to the centre of the first or the last element: of all modes only `cubic` would reach beyond."""
    if align_corners:
        return b.binary(Minimum, b.binary(Maximum, grid, -1), 1)
    parts = [b.reshape(b.binary(Divide, 1, size_as(b, size, grid.dtype)), (1,)) for size in reversed(sizes)]
    last = b.binary(Subtract, 1, b.concatenate(parts, 0))
    ends = b.binary(Multiply, b.emit(Sign, grid), last)
    return b.select(b.compare("gt", b.emit(Abs, grid), 1), ends, grid)


@lowers("AffineGrid")
def lower_affine_grid(b: GraphBuilder, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """result[n, o…, i] = Σ_j theta[n, i, j] · p_j + theta[n, i, last], p_j the position of o on axis j from the last, in [−1, 1]"""
    if theta.rank != 3 or size.rank != 1:
        raise Malformed(f"theta must be matrices and the size a vector; they are {theta} and {size}")
    number = next((each for each in (size.sizes[0], theta.sizes[1] + 2) if each.is_constant), None)
    if number is None:
        raise Unsupported(f"the size must be a vector of a known length; it is {size}")
    batch, _, *spatial = read_sizes(b, size, number.value, "the size")
    count, dtype = len(spatial), theta.dtype
    real = accumulation_dtype(dtype)
    whole = b.convert(b.with_sizes(theta, (batch, count, count + 1), "theta"), real)
    sizes = (batch, *spatial, Size.const(count))
    total: Tensor | None = None
    for column in range(count + 1):
        factors = b.reshape(b.slice(whole, 2, column, 1), (batch, *[1] * count, count))
        term = b.repeated(factors, sizes)
        if column < count:
            own = spatial[count - 1 - column]
            position = b.reshape(_positions(b, own, real, bool(align_corners)), (own, *[1] * (column + 1)))
            term = b.emit(Multiply, term, b.repeated(position, sizes))
        total = term if total is None else b.emit(Add, total, term)
    assert total is not None
    return b.convert(total, dtype)


def _positions(b: GraphBuilder, size: Size, real: DType, align_corners: bool) -> Tensor:
    """[size]: from −1 to 1 at the centres of the first and the last element, or at their outer edges."""
    place = iota(b, (size,), 0, real)
    steps = size_as(b, size_max(size - 1, 1) if align_corners else size, real)
    doubled = b.emit(Add, place, place)
    if not align_corners:
        return b.binary(Subtract, b.binary(Divide, b.binary(Add, doubled, 1), steps), 1)
    return b.binary(Subtract, b.binary(Divide, doubled, steps), 1)


# -- around the middle -----------------------------------------------------------------------------------------------


@lowers("CenterCropPad")
def lower_center_crop_pad(b: GraphBuilder, x: Value, shape: Value, *, axes: Sequence[int] | None = None) -> Value:
    """The middle of each axis, or the axis in the middle of zeros, where that is asked to be longer"""
    listed = list(range(x.rank)) if axes is None else b.axes(axes, x.rank)
    wanted = read_sizes(b, shape, len(listed), "the shape")
    low, high = [ZERO] * x.rank, [ZERO] * x.rank
    for axis, target in zip(listed, wanted, strict=True):
        size = x.sizes[axis]
        b.require(target.ge(0), "the shape")
        before = size_max(target - size, 0) // 2 - size_max(size - target, 0) // 2
        low[axis] = b.graph.facts.simplify(before)
        high[axis] = target - size - low[axis]
    return b.emit(Pad, x, b.constant(0, x.dtype), low=tuple(low), high=tuple(high))


__all__: list[str] = []
