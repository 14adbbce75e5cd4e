"""Where the windows of ONNX's convolutions and pools lie, from their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.frontends.onnx.builder import ZERO, GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.values import Value
from anyshape.symbolic import Size, SizeLike, size_max, size_min

Pads = Sequence[int] | None


@dataclass(frozen=True)
class Placement:
    """Windows along the spatial axes of a tensor, an entry for each: window y has the places y·stride + k·dilation − low, k < window.

    Attributes:
        low: zeros, or whatever a pool has there, in front of an axis.
        high: and behind it.
        sizes: how many windows there are.
    """

    window: tuple[Size, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Size, ...]
    high: tuple[Size, ...]
    sizes: tuple[Size, ...]


def numbers_of(values: Sequence[int] | None, count: int, what: str, default: int = 1) -> tuple[int, ...]:
    """One positive number for each of `count` axes; `default` where none are given."""
    listed = (default,) * count if not values else tuple(values)
    if len(listed) != count or any(each < 1 for each in listed):
        raise Malformed(f"the {what} must be {count} positive numbers; they are {list(listed)}")
    return listed


def pads_of(pads: Pads, count: int) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """What is added in front of each axis, and behind."""
    listed = tuple(pads) if pads else (0,) * (2 * count)
    if len(listed) != 2 * count:
        raise Malformed(f"there must be two pads for each of {count} axes; there are {len(listed)}")
    return tuple(map(Size.const, listed[:count])), tuple(map(Size.const, listed[count:]))


def spatial_sizes(x: Value) -> tuple[Size, ...]:
    """The sizes behind those of batch and channels."""
    if x.rank < 3:
        raise Malformed(f"the tensor must have a batch, channels and an axis more; it has {x.rank} axes")
    return x.sizes[2:]


def place_windows(
    b: GraphBuilder,
    sizes: Sequence[Size],
    window: Sequence[SizeLike],
    *,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Pads,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
) -> Placement:
    """The windows of axes of these sizes.

    SAME_UPPER and SAME_LOWER have ⌈size / stride⌉ windows and add what these need, an odd one behind or in front; VALID adds nothing.
    With `ceil_mode` a last window may go beyond what is added, if it begins before that.
    """
    count = len(sizes)
    if len(window) != count:
        raise Malformed(f"windows have {len(window)} axes, and the tensor has {count} spatial ones")
    steps, apart = numbers_of(strides, count, "strides"), numbers_of(dilations, count, "dilations")
    low, high = pads_of(pads if auto_pad in ("NOTSET", "") else None, count)
    extents = tuple(map(Size.of, window))
    axes = [
        _place_axis(
            b, size, apart[axis] * (extents[axis] - 1) + 1, steps[axis], (low[axis], high[axis]), auto_pad, ceil_mode
        )
        for axis, size in enumerate(sizes)
    ]
    lows, highs, counts = zip(*axes, strict=True)
    return Placement(extents, steps, apart, lows, highs, counts)


def _place_axis(
    b: GraphBuilder, size: Size, reach: Size, step: int, pads: tuple[Size, Size], auto_pad: str, ceil_mode: bool
) -> tuple[Size, Size, Size]:
    """What is added in front and behind, and how many windows there are, of `reach` from their first place to their last."""
    simplify = b.graph.facts.simplify
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        count = (size + (step - 1)) // step
        total = simplify(size_max((count - 1) * step + reach - size, 0))
        less, more = total // 2, (total + 1) // 2
        return (*((less, more) if auto_pad == "SAME_UPPER" else (more, less)), simplify(count))
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise Malformed(f"auto_pad is {auto_pad!r}")
    low, high = pads
    room = size + low + high - reach
    b.require(room.ge(-step), "an axis with windows")
    if not ceil_mode:
        if not _is_below(low + high - reach, 0):
            b.require(size.ge(1), "an axis with windows")
        return low, high, simplify(room // step + 1)
    if low != ZERO and not _is_below(low + high - reach + step, 1):
        b.require(size.ge(1), "an axis with windows")
    return low, high, simplify(size_min((room + (step - 1)) // step + 1, (size + low + (step - 1)) // step))


def _is_below(size: Size, bound: int) -> bool:
    return size.is_constant and size.value < bound


__all__ = ["Pads", "Placement", "numbers_of", "pads_of", "place_windows", "spatial_sizes"]
