"""ONNX's sequences of tensors and optional values: while importing, a sequence is the tuple of what it holds."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_sizes
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Anything, Known, Value, known_scalar
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_Sequence: TypeAlias = tuple[Value, ...]


def _held(sequence: Anything) -> _Sequence:
    if not isinstance(sequence, tuple):
        raise Malformed(f"a sequence is needed; here it is {sequence}")
    return sequence


def _tensors(*values: Anything) -> _Sequence:
    """What can be an element of a sequence."""
    for value in values:
        if not isinstance(value, Tensor | Known):
            raise Unsupported(f"a sequence of {value}")
    return values  # pyright: ignore[reportReturnType] - checked above


def _place(b: GraphBuilder, position: Value, count: int) -> int:
    """A position counted from 0. Malformed where the sequence has none such."""
    place = int(b.number(position, "the position in a sequence"))
    if not -count <= place < count:
        raise Malformed(f"there is no position {place} in a sequence of {count}")
    return place % count


@lowers("SequenceEmpty")
def lower_sequence_empty(_: GraphBuilder, *, dtype: int = 1) -> list[Anything]:
    return [()]


@lowers("SequenceConstruct")
def lower_sequence_construct(_: GraphBuilder, *values: Anything) -> list[Anything]:
    return [_tensors(*values)]


@lowers("SequenceInsert")
def lower_sequence_insert(
    b: GraphBuilder, sequence: Anything, value: Anything, position: Value | None = None
) -> list[Anything]:
    """The sequence with a tensor before the one at `position`, or behind all"""
    held = _held(sequence)
    place = len(held)
    if position is not None:
        place = int(b.number(position, "the position in a sequence"))
        if not -len(held) <= place <= len(held):
            raise Malformed(f"there is no position {place} in a sequence of {len(held)}")
        place += len(held) if place < 0 else 0
    return [(*held[:place], *_tensors(value), *held[place:])]


@lowers("SequenceErase")
def lower_sequence_erase(b: GraphBuilder, sequence: Anything, position: Value | None = None) -> list[Anything]:
    """The sequence without the tensor at `position`, or without the last"""
    held = _held(sequence)
    place = _place(b, known_scalar(-1) if position is None else position, len(held))
    return [(*held[:place], *held[place + 1 :])]


@lowers("SequenceAt")
def lower_sequence_at(b: GraphBuilder, sequence: Anything, position: Value) -> Value:
    held = _held(sequence)
    return held[_place(b, position, len(held))]


@lowers("SequenceLength")
def lower_sequence_length(_: GraphBuilder, sequence: Anything) -> Value:
    return known_scalar(len(_held(sequence)))


@lowers("SplitToSequence")
def lower_split_to_sequence(
    b: GraphBuilder, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Anything]:
    """Parts of x one after another: of the sizes in a vector; of one size, the last perhaps smaller; or of 1, whose axis may go"""
    axis = b.axis(axis, x.rank)
    sizes = _parts(b, x.sizes[axis], split)
    b.require(sum(sizes, Size.const(0)).eq(x.sizes[axis]), "the parts of a sequence")
    parts: list[Value] = []
    start = Size.const(0)
    for size in sizes:
        b.require(size.ge(0), "a part of a sequence")
        part = b.slice(x, axis, start, size)
        if split is None and not keepdims:
            part = b.reshape(part, (*x.sizes[:axis], *x.sizes[axis + 1 :]))
        parts.append(part)
        start = start + size
    return [tuple(parts)]


def _parts(b: GraphBuilder, size: Size, split: Value | None) -> list[Size]:
    """The sizes of the parts of an axis. Unsupported where their number is not known."""
    if split is not None and split.rank == 1:
        count = split.sizes[0]
        if not count.is_constant:
            raise Unsupported(f"a sequence of {count} parts, a number that each call says")
        return read_sizes(b, split, count.value, "the parts")
    step = 1 if split is None else int(b.number(split, "the size of the parts"))
    if step < 1:
        raise Malformed(f"parts of {step} elements")
    if not size.is_constant:
        raise Unsupported(f"a sequence of {size} elements in parts of {step}, whose number each call says")
    return [Size.const(min(step, size.value - start)) for start in range(0, size.value, step)]


@lowers("ConcatFromSequence")
def lower_concat_from_sequence(b: GraphBuilder, sequence: Anything, *, axis: int, new_axis: int = 0) -> Value:
    """The tensors joined along an axis, or along a new one"""
    held = _held(sequence)
    if not held:
        raise Malformed("an empty sequence has nothing to join")
    place = b.axis(axis, held[0].rank + (1 if new_axis else 0))
    if new_axis:
        held = tuple(b.reshape(each, (*each.sizes[:place], 1, *each.sizes[place:])) for each in held)
    return b.concatenate(held, place)


# -- optional values -------------------------------------------------------------------------------------------------


@lowers("OptionalHasElement")
def lower_optional_has_element(_: GraphBuilder, value: Anything = None) -> Value:
    return Known(np.array(value is not None))


@lowers("OptionalGetElement")
def lower_optional_get_element(_: GraphBuilder, value: Anything) -> list[Anything]:
    if value is None:
        raise Malformed("an optional value without an element is asked for it")
    return [value]


__all__: list[str] = []
