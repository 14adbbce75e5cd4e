"""ONNX ops that take parts of axes: Slice, Split, and padding, which adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anyshape.dialects.dhlo import Modulo, Pad, Subtract
from anyshape.dialects.dhlo.border import BorderPad
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.places import gathered, iota, size_as
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import folds, lowers
from anyshape.frontends.onnx.values import Known, Value, known_array
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max, size_min

_FAR = 2**31 - 1
"""Bounds from here on, and from its negative on, mean the end of the axis: exporters write the largest number that they have."""

# -- slices ----------------------------------------------------------------------------------------------------------


def _counted(b: GraphBuilder, position: Size, size: Size) -> Size:
    """A position counted from the start of an axis. One that sizes say is required not to be negative, unless it is known to be."""
    if b.prove(position.lt(0)) is True:
        return position + size
    if not position.is_constant:
        b.require(position.ge(0), "a bound of a slice, which counts from the start,")
    return position


def _clamped(b: GraphBuilder, position: Size, low: Size, high: Size) -> Size:
    """A position moved into [low, high], where low ≤ high."""
    simplify = b.graph.facts.simplify
    return simplify(size_min(simplify(size_max(position, low)), high))


def slice_bounds(b: GraphBuilder, start: Size, end: Size, step: int, size: Size) -> tuple[Size, Size]:
    """Where a slice of an axis begins, counted from the start, and how many elements it has; bounds are clamped as Python's are."""
    if step > 0:
        first = _bound(b, start, size, ZERO, size)
        count = _bound(b, end, size, ZERO, size) - first
    else:
        last = size - 1
        first = _bound(b, start, size, Size.const(-1), last)
        count = first - _bound(b, end, size, Size.const(-1), last)
    length = b.graph.facts.simplify(size_max((count + (abs(step) - 1)) // abs(step), 0))
    return (ZERO if length == ZERO else first), length


def _bound(b: GraphBuilder, position: Size, size: Size, low: Size, high: Size) -> Size:
    if position.is_constant and abs(position.value) >= _FAR:
        return high if position.value > 0 else low
    return _clamped(b, _counted(b, position, size), low, high)


@lowers("Slice")
def lower_slice(
    b: GraphBuilder,
    x: Value,
    starts: Value | Sequence[int],
    ends: Value | Sequence[int],
    axes: Value | Sequence[int] | None = None,
    steps: Value | None = None,
) -> Value:
    """x[…, start:end:step, …] on each of the axes, all from the first where none is named"""
    firsts, lasts = b.size_list(starts, "the starts of a slice"), b.size_list(ends, "the ends of a slice")
    listed = list(range(len(firsts))) if axes is None else b.axes(axes, x.rank)
    strides = [1] * len(firsts) if steps is None else b.integers(steps, "the steps of a slice")
    if not len(firsts) == len(lasts) == len(listed) == len(strides) <= x.rank or 0 in strides:
        raise Malformed("starts, ends, axes and steps must be as many, and no step 0")
    result = b.tensor(x)
    for axis, start, end, step in zip(listed, firsts, lasts, strides, strict=True):
        first, length = slice_bounds(b, start, end, step, result.sizes[axis])
        result = b.slice(result, axis, first, length, step)
    return result


@folds("Slice")
def fold_slice(
    b: GraphBuilder,
    x: Known,
    starts: Known | Sequence[int],
    ends: Known | Sequence[int],
    axes: Known | Sequence[int] | None = None,
    steps: Known | None = None,
) -> Known | None:
    bounds = [each for each in (starts, ends, axes, steps) if isinstance(each, Known)]
    if not all(each.is_literal for each in bounds):
        return None
    firsts, lasts = b.integers(starts, "the starts of a slice"), b.integers(ends, "the ends of a slice")
    listed = list(range(len(firsts))) if axes is None else b.axes(axes, x.rank)
    strides = [1] * len(firsts) if steps is None else b.integers(steps, "the steps of a slice")
    if not len(firsts) == len(lasts) == len(listed) == len(strides) <= x.rank or 0 in strides:
        raise Malformed("starts, ends, axes and steps must be as many, and no step 0")
    parts = [slice(None)] * x.rank
    for axis, start, end, step in zip(listed, firsts, lasts, strides, strict=True):
        first, length = slice_bounds(b, Size.const(start), Size.const(end), step, Size.const(x.shape[axis]))
        positions = range(first.value, first.value + step * length.value, step)
        stop = positions.stop if positions.stop >= 0 else None
        parts[axis] = slice(first.value, stop, step) if positions else slice(0, 0)
    elements = x.elements[tuple(parts)]
    return Known(elements) if x.is_literal else known_array(elements, x.numpy)


# -- splits ----------------------------------------------------------------------------------------------------------


def _parts(b: GraphBuilder, size: Size, split: Value | Sequence[int] | None, num_outputs: int | None) -> list[Size]:
    """The lengths of the parts of an axis: those given; or equal ones, the last of which may be shorter where `num_outputs` is given."""
    if split is not None:
        parts = b.size_list(split, "the parts of a split")
        total = ZERO
        for part in parts:
            total = total + part
        b.same(size, total, "the parts of a split together")
        return parts
    count = len(b.outputs)
    if num_outputs not in (None, count):
        raise Malformed(f"num_outputs is {num_outputs}, and there are {count} outputs")
    if num_outputs is None:
        b.require((size % count).eq(0), f"an axis that is split into {count} equal parts")
        return [b.graph.facts.simplify(size // count)] * count
    part = (size + (count - 1)) // count
    last = size - part * (count - 1)
    b.require(last.ge(0), f"an axis that is split into {count} parts")
    return [*[part] * (count - 1), b.graph.facts.simplify(last)]


@lowers("Split")
def lower_split(
    b: GraphBuilder,
    x: Value,
    split: Value | Sequence[int] | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> list[Value]:
    axis = b.axis(axis, x.rank)
    tensor, start = b.tensor(x), ZERO
    results: list[Value] = []
    for part in _parts(b, x.sizes[axis], split, num_outputs):
        results.append(b.slice(tensor, axis, start, part))
        start = start + part
    return results


@folds("Split")
def fold_split(
    b: GraphBuilder,
    x: Known,
    split: Known | Sequence[int] | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> list[Known] | None:
    if isinstance(split, Known) and not split.is_literal:
        return None
    axis = b.axis(axis, x.rank)
    lengths = [part.value for part in _parts(b, x.sizes[axis], split, num_outputs)]
    pieces = np.split(x.elements, np.cumsum(lengths)[:-1], axis=axis)
    return [Known(each) if x.is_literal else known_array(each, x.numpy) for each in pieces]


# -- padding ---------------------------------------------------------------------------------------------------------

_MODES: Mapping[str, str] = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}


@lowers("Pad")
def lower_pad(
    b: GraphBuilder,
    x: Value,
    pads: Value | Sequence[int],
    value: Value | float | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Value:
    """Sizes low + size + high, where `pads` lists all low amounts before all high ones; a negative one cuts, before anything is added"""
    listed = list(range(x.rank)) if axes is None else b.axes(axes, x.rank)
    amounts = b.size_list(pads, "the pads")
    if len(amounts) != 2 * len(listed):
        raise Malformed(f"there must be two pads for each of {len(listed)} axes; there are {len(amounts)}")
    low, high = [ZERO] * x.rank, [ZERO] * x.rank
    for axis, before, after in zip(listed, amounts[: len(listed)], amounts[len(listed) :], strict=True):
        low[axis], high[axis] = before, after
    tensor = b.tensor(x)
    if mode == "constant":
        return _padded(b, tensor, low, high, 0 if value is None else value)
    if mode not in _MODES:
        raise Unsupported(f"mode {mode!r} of Pad")
    return _repeated_around(b, tensor, low, high, mode)


def _padded(b: GraphBuilder, x: Tensor, low: list[Size], high: list[Size], value: Value | float) -> Tensor:
    """Padded with a number. What is cut is cut first, where it is more than there is on that side otherwise."""
    for axis, size in enumerate(x.sizes):
        if low[axis] != ZERO or high[axis] != ZERO:
            b.require((low[axis] + size + high[axis]).ge(0), "an axis that is padded")
    if all(amount == ZERO for amount in (*low, *high)):
        return x
    filler = b.reshape(b.operand(value, x.dtype), ())
    return b.emit(Pad, x, filler, low=tuple(low), high=tuple(high))


def _repeated_around(b: GraphBuilder, x: Tensor, low: list[Size], high: list[Size], mode: str) -> Tensor:
    """Padded with its own elements: what is left of them once negative amounts have cut."""
    for axis in range(x.rank):
        x = _cut(b, x, axis, _part(b, -low[axis]), _part(b, -high[axis]))
    low, high = ([_part(b, amount) for amount in amounts] for amounts in (low, high))
    for axis, size in enumerate(x.sizes):
        amounts = [amount for amount in (low[axis], high[axis]) if amount != ZERO]
        for amount in amounts:
            least = amount + 1 if mode == "reflect" else ONE
            b.require(size.ge(least), f"an axis that is padded by {amount} in mode {mode!r}")
        if mode == "wrap" and any(b.prove(amount.le(size)) is not True for amount in amounts):
            x = _gone_round(b, x, axis, low[axis], high[axis])
            low[axis] = high[axis] = ZERO
    if all(amount == ZERO for amount in (*low, *high)):
        return x
    return b.emit(BorderPad, x, mode=_MODES[mode], low=tuple(low), high=tuple(high))


def _part(b: GraphBuilder, amount: Size) -> Size:
    """An amount where it is positive, else 0."""
    return b.graph.facts.simplify(size_max(amount, 0))


def _cut(b: GraphBuilder, x: Tensor, axis: int, first: Size, last: Size) -> Tensor:
    """An axis without its first and its last elements."""
    if first == ZERO and last == ZERO:
        return x
    left = b.graph.facts.simplify(x.sizes[axis] - first - last)
    b.require(left.ge(0), "an axis that is cut")
    return b.slice(x, axis, first, left)


def _gone_round(b: GraphBuilder, x: Tensor, axis: int, low: Size, high: Size) -> Tensor:
    """result[…, i, …] = x[…, (i − low) mod size, …]"""
    size = x.sizes[axis]
    places = b.binary(Subtract, iota(b, (low + size + high,)), size_as(b, low))
    return gathered(b, x, (axis,), [b.binary(Modulo, places, size_as(b, size))], axis)


@lowers("Tile")
def lower_tile(b: GraphBuilder, x: Value, repeats: Value) -> Value:
    """[a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r·a, s·b]"""
    counts = b.shape(repeats, "the repeats")
    if len(counts) != x.rank:
        raise Malformed(f"there must be a repeat for each of {x.rank} axes; there are {len(counts)}")
    apart = [each for size in x.sizes for each in (ONE, size)]
    tiled = [each for count, size in zip(counts, x.sizes, strict=True) for each in (count, size)]
    sizes = [numel(pair) for pair in zip(counts, x.sizes, strict=True)]
    return b.reshape(b.repeated(b.reshape(x, apart), tuple(tiled)), sizes)


__all__ = ["slice_bounds"]
