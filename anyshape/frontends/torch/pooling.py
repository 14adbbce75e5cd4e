"""ATen pooling: maxima and means of windows, of fixed and of adaptive size, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.adaptive import (
    AdaptiveAvgPool,
    AdaptiveAvgPoolGradient,
    AdaptiveMaxPool,
    AdaptiveMaxPoolIndex,
)
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.pooling import AvgPool, MaxPool, MaxPoolIndex
from anyshape.dialects.sizes import sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


def per_axis(value: Value, count: int, what: str) -> tuple[int, ...]:
    """One number for each of `count` axes, from one for all of them or a list."""
    listed: list[Value] = [*value] if isinstance(value, Sequence) else [value]
    if len(listed) == 1:
        listed = listed * count
    if not all(isinstance(each, int) for each in listed):
        raise Unsupported(f"the {what} must be constant")
    return tuple(listed)


def _require_elements(builder: GraphBuilder, x: SSAValue, count: int) -> None:
    """PyTorch has no pool of an axis without elements."""
    _require_some(builder, sizes_of(x.type)[-count:])


def _require_image(builder: GraphBuilder, x: SSAValue, count: int) -> None:
    """PyTorch has no pool of windows of an image without channels either; a batch may be empty."""
    _require_some(builder, sizes_of(x.type)[-count - 1 :])


def _require_some(builder: GraphBuilder, sizes: Sequence[Size]) -> None:
    for size in sizes:
        builder.require(Size.const(1).le(size), "pooling")


def _last_sizes(builder: GraphBuilder, result: Value, count: int) -> tuple[Size, ...]:
    """The sizes of the last axes of a result, as the export knows them."""
    sizes = builder.names.sizes(result.shape)
    return sizes[len(sizes) - count :]


@lowers("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def lower_avg_pool(
    builder: GraphBuilder,
    x: SSAValue,
    kernel_size: Value,
    stride: Value = (),
    padding: Value = 0,
    _ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> SSAValue:
    count = int(str(builder.node.target).removeprefix("aten.avg_pool")[0])
    window = per_axis(kernel_size, count, "window")
    _require_image(builder, x, count)
    sizes = _last_sizes(builder, builder.node.meta["val"], count)
    _require_some(builder, sizes)
    return builder.emit(
        AvgPool, x, window=window, strides=per_axis(stride or window, count, "strides"), dilation=(1,) * count,
        low=per_axis(padding, count, "padding"), sizes=sizes, count_include_pad=count_include_pad, divisor=divisor_override or 0,
    )  # fmt: skip


def _max_pools(
    builder: GraphBuilder, kinds: Sequence[type[DhloOp]], x: SSAValue, sizes: Sequence[Size], *shape: Value
) -> list[SSAValue]:
    """Maxima, or their places, from window, strides, padding and dilation."""
    kernel_size, stride, padding, dilation = shape
    window = per_axis(kernel_size, len(sizes), "window")
    _require_image(builder, x, len(sizes))
    _require_some(builder, sizes)
    attributes: dict[str, AttributeValue] = {
        "window": window, "strides": per_axis(stride or window, len(sizes), "strides"), "low": per_axis(padding, len(sizes), "padding"),
        "dilation": per_axis(dilation, len(sizes), "dilation"), "sizes": tuple(sizes),
    }  # fmt: skip
    return [builder.emit(kind, x, **attributes) for kind in kinds]


@lowers("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def lower_max_pool_with_indices(
    builder: GraphBuilder, x: SSAValue, kernel_size: Value, stride: Value = (), padding: Value = 0, dilation: Value = 1, _ceil: bool = False
) -> list[SSAValue]:  # fmt: skip
    count = int(str(builder.node.target).removeprefix("aten.max_pool")[0])
    sizes = _last_sizes(builder, builder.node.meta["val"][0], count)
    return _max_pools(builder, (MaxPool, MaxPoolIndex), x, sizes, kernel_size, stride, padding, dilation)


@lowers("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def lower_max_pool(
    builder: GraphBuilder, x: SSAValue, kernel_size: Value, stride: Value = (), padding: Value = 0, dilation: Value = 1, _ceil: bool = False
) -> SSAValue:  # fmt: skip
    count = int(str(builder.node.target).removeprefix("aten.max_pool")[0])
    sizes = _last_sizes(builder, builder.node.meta["val"], count)
    (result,) = _max_pools(builder, (MaxPool,), x, sizes, kernel_size, stride, padding, dilation)
    return result


@lowers("aten.adaptive_avg_pool1d.default", "aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def lower_adaptive_avg_pool(builder: GraphBuilder, x: SSAValue, output_size: Sequence[Value]) -> SSAValue:
    _require_elements(builder, x, len(output_size))
    return builder.emit(AdaptiveAvgPool, x, sizes=_last_sizes(builder, builder.node.meta["val"], len(output_size)))


@lowers("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def lower_adaptive_max_pool(
    builder: GraphBuilder, x: SSAValue, output_size: Sequence[Value]
) -> tuple[SSAValue, SSAValue]:
    _require_elements(builder, x, len(output_size))
    sizes = _last_sizes(builder, builder.node.meta["val"][0], len(output_size))
    return builder.emit(AdaptiveMaxPool, x, sizes=sizes), builder.emit(AdaptiveMaxPoolIndex, x, sizes=sizes)


@lowers("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def lower_adaptive_avg_pool_backward(builder: GraphBuilder, grad: SSAValue, _x: SSAValue) -> SSAValue:
    count = int(str(builder.node.target).removeprefix("aten._adaptive_avg_pool")[0])
    return builder.emit(AdaptiveAvgPoolGradient, grad, sizes=_last_sizes(builder, builder.node.meta["val"], count))
