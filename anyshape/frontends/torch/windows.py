"""ATen ops that read or sum windows: unfold, im2col, col2im, and the gradients of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.fold import Fold
from anyshape.dialects.dhlo.pool_gradients import AvgPoolGradient, MaxPoolGradient
from anyshape.dialects.dhlo.windows import Windows
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, axis_of, lowers
from anyshape.frontends.torch.movement import transposed
from anyshape.frontends.torch.pooling import per_axis
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


@lowers("aten.unfold.default", "aten.unfold_copy.default")
def lower_unfold(builder: GraphBuilder, x: SSAValue, dim: int, size: Value, step: Value) -> SSAValue:
    """[…, n, …] -> […, (n − size) // step + 1, …, size]: windows along one axis, their places last"""
    rank = rank_of(x.type)
    if not rank:
        return builder.reshape(x, builder.result_sizes)
    if not isinstance(step, int):
        raise Unsupported("the step of an unfold must be constant")
    axis = axis_of(dim, rank)
    builder.require(Size.of(size).le(sizes_of(x.type)[axis]), "unfold")
    last = [*(each for each in range(rank) if each != axis), axis]
    zero = builder.constant(0, dtype_of(x.type))
    windows = builder.emit(
        Windows, transposed(builder, x, last), zero, window=(Size.of(size),), strides=(step,), dilation=(1,), low=(0,),
        sizes=(builder.result_sizes[axis],),
    )  # fmt: skip
    return transposed(builder, windows, [*(last.index(each) for each in range(rank)), rank])


def _windows_along(
    sizes: Sequence[Size], window: Sequence[int], dilation: Sequence[int], low: Sequence[int], strides: Sequence[int]
) -> list[Size]:
    """How many windows fit into axes of these sizes with as much padding on both sides."""
    axes = zip(sizes, window, dilation, low, strides, strict=True)
    return [(size + 2 * pad - apart * (extent - 1) - 1) // stride + 1 for size, extent, apart, pad, stride in axes]


@lowers("aten.im2col.default")
def lower_im2col(
    builder: GraphBuilder, x: SSAValue, kernel_size: Value, dilation: Value, padding: Value, stride: Value
) -> SSAValue:
    """[…, c, h, w] -> […, c·kh·kw, windows]"""
    window, apart, low, strides = (
        per_axis(each, 2, "windows of im2col") for each in (kernel_size, dilation, padding, stride)
    )
    rank, counts = rank_of(x.type), _windows_along(sizes_of(x.type)[-2:], window, apart, low, strides)
    for count in counts:
        builder.require(Size.const(1).le(count), "im2col")
    zero = builder.constant(0, dtype_of(x.type))
    windows = builder.emit(
        Windows, x, zero, window=window, strides=strides, dilation=apart, low=low, sizes=tuple(counts)
    )
    order = [*range(rank - 2), rank, rank + 1, rank - 2, rank - 1]
    return builder.reshape(transposed(builder, windows, order), builder.result_sizes)


@lowers("aten.col2im.default")
def lower_col2im(
    builder: GraphBuilder, x: SSAValue, output_size: Sequence[Value], kernel_size: Value, dilation: Value, padding: Value, stride: Value
) -> SSAValue:  # fmt: skip
    """[…, c·kh·kw, windows] -> […, c, h, w]"""
    window, apart, low, strides = (
        per_axis(each, 2, "windows of col2im") for each in (kernel_size, dilation, padding, stride)
    )
    sizes = builder.result_sizes
    counts = _windows_along(sizes[-2:], window, apart, low, strides)
    builder.require_sizes(x, (*sizes[:-3], sizes[-3] * prod(window), numel(counts)), "col2im")
    columns = builder.reshape(x, (*sizes[:-2], *window, *counts))
    rank = len(sizes)
    order = [*range(rank - 2), rank, rank + 1, rank - 2, rank - 1]
    windows = transposed(builder, columns, order)
    return builder.emit(Fold, windows, window=window, strides=strides, dilation=apart, low=low, sizes=sizes[-2:])


@lowers("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def lower_avg_pool_backward(
    builder: GraphBuilder, grad: SSAValue, x: SSAValue, kernel_size: Value, stride: Value, padding: Value, _ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> SSAValue:  # fmt: skip
    count = int(str(builder.node.target).removeprefix("aten.avg_pool")[0])
    window = per_axis(kernel_size, count, "window")
    return builder.emit(
        AvgPoolGradient, grad, window=window, strides=per_axis(stride or window, count, "strides"), dilation=(1,) * count,
        low=per_axis(padding, count, "padding"), sizes=sizes_of(x.type)[-count:], count_include_pad=count_include_pad,
        divisor=divisor_override or 0,
    )  # fmt: skip


@lowers("aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default")
def lower_max_pool_backward(
    builder: GraphBuilder, grad: SSAValue, x: SSAValue, kernel_size: Value, stride: Value, padding: Value, dilation: Value,
    _ceil_mode: bool, places: SSAValue,
) -> SSAValue:  # fmt: skip
    count = int(str(builder.node.target).removeprefix("aten.max_pool")[0])
    window = per_axis(kernel_size, count, "window")
    return builder.emit(
        MaxPoolGradient, grad, places, window=window, strides=per_axis(stride or window, count, "strides"),
        dilation=per_axis(dilation, count, "dilation"), low=per_axis(padding, count, "padding"), sizes=sizes_of(x.type)[-count:],
    )  # fmt: skip
