"""The inputs of a model: names of sizes, and sizes that the caller makes dynamic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, TensorShapeProto, ValueInfoProto

from anyshape.dialects.dtypes import DType
from anyshape.frontends.onnx.dtypes import dtype_of_code, numpy_of_code
from anyshape.frontends.onnx.refusals import Unsupported
from anyshape.frontends.onnx.storage import held_in
from anyshape.support.errors import ArgumentError, FileFormatError
from anyshape.symbolic import Size, SizeError, parse_size

Axis: TypeAlias = str | int | None
DynamicSizes: TypeAlias = Mapping[str, Sequence[Axis] | Mapping[int, Axis]]
"""What the caller says of axes: input -> (axis -> the name of a size, a fixed size, or None for what the file says)."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


@dataclass(frozen=True)
class InputSpec:
    """An argument of the program.

    Attributes:
        name: the input's name in the file.
        dtype: of the program's argument.
        sizes: a bare symbol is free, anything else is a condition on the caller.
        numpy: the element type where programs lack it and hold it in `dtype`.
    """

    name: str
    dtype: DType
    sizes: tuple[Size, ...]
    numpy: np.dtype[np.generic] | None = None


def input_specs(inputs: Sequence[ValueInfoProto], given: DynamicSizes, model: str) -> list[InputSpec]:
    """The arguments of a model, `given` going before what the file says.

    A size that the file names is a symbol of that name, as far as symbols may be called so; `past + 1` is an expression where each of its
    names is a whole axis of some input. A size of which the file says nothing is a symbol named after the input and the axis.

    Raises:
        FileFormatError: a size is negative, or an input is no tensor of known rank.
        ArgumentError: `given` names an input or an axis that is not there.
        Unsupported: the element type is none of programs'.
    """
    _check_given(given, [each.name for each in inputs])
    rows = [_axes(each, given.get(each.name), model) for each in inputs]
    names = _Names([axis for row in rows for axis in row])
    return [_spec(each, names.sizes(each.name, row)) for each, row in zip(inputs, rows, strict=True)]


def _spec(info: ValueInfoProto, sizes: tuple[Size, ...]) -> InputSpec:
    try:
        return InputSpec(info.name, *_elements(info.type.tensor_type.elem_type, sizes))
    except Unsupported as error:
        raise Unsupported(f"'{info.name}': {error}") from error


def _elements(code: int, sizes: tuple[Size, ...]) -> tuple[DType, tuple[Size, ...], np.dtype[np.generic] | None]:
    """The type of the program's argument, its sizes, and the type of its elements where that is another."""
    numpy = None if code in (TensorProto.STRING, TensorProto.UNDEFINED) else numpy_of_code(code)
    held = None if numpy is None else held_in(numpy)
    return (dtype_of_code(code), sizes, None) if held is None else (held, sizes, numpy)


def _check_given(given: DynamicSizes, names: Sequence[str]) -> None:
    """ArgumentError where an input is not there, or what is said of its axes is none of `Axis`."""
    for name, sizes in given.items():
        if name not in names:
            raise ArgumentError(
                "there is no such input", where="dynamic_shapes", got=repr(name), expected=", ".join(map(repr, names))
            )
        if not _says_axes(sizes):
            raise ArgumentError(
                "sizes are not understood", where=f"dynamic_shapes[{name!r}]", got=repr(sizes),
                expected="a name, a size or None for each axis: ('batch', 3, None) or {0: 'batch'}",
            )  # fmt: skip


def _says_axes(sizes: Sequence[Any] | Mapping[Any, Any]) -> bool:
    """Whether it is axes in order, or by number."""
    if isinstance(sizes, Mapping):
        return all(type(axis) is int and _is_axis(value) for axis, value in sizes.items())
    return not isinstance(sizes, str) and isinstance(sizes, Sequence) and all(map(_is_axis, sizes))  # pyright: ignore[reportUnnecessaryIsInstance] - foreign values


def _is_axis(value: object) -> bool:
    """Whether a value is a name, a size, or None."""
    return value is None or (isinstance(value, str) and bool(value)) or (type(value) is int and value >= 0)


def _axes(info: ValueInfoProto, given: Sequence[Axis] | Mapping[int, Axis] | None, model: str) -> list[Axis]:
    """Each axis as the caller gives it, or else as the file does: a name, a size, or None where nothing is said."""
    where = f"{model}: input '{info.name}'"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "value without a type").removesuffix("_type")
        raise Unsupported(f"'{info.name}' is no tensor but a {what}")
    shape = info.type.tensor_type
    stated = [_stated(dim, where) for dim in shape.shape.dim] if shape.HasField("shape") else None
    if given is None:
        if stated is None:
            raise FileFormatError(
                "the file does not say how many axes an input has", where=where,
                remedy=f"say it: dynamic_shapes={{{info.name!r}: ('batch', 3, …)}}",
            )  # fmt: skip
        return stated
    if isinstance(given, Mapping):
        if stated is None or any(not -len(stated) <= axis < len(stated) for axis in given):
            raise ArgumentError(
                "there is no such axis", where=f"dynamic_shapes[{info.name!r}]", got=list(given), expected=stated
            )
        by_axis = {axis % len(stated): value for axis, value in given.items()}
        return [_or(by_axis.get(axis), each) for axis, each in enumerate(stated)]
    if stated is not None and len(given) != len(stated):
        raise ArgumentError(
            "an input has another number of axes", where=f"dynamic_shapes[{info.name!r}]", got=given, expected=stated
        )
    return [_or(value, each) for value, each in zip(given, stated or [None] * len(given), strict=True)]


def _or(given: Axis, stated: Axis) -> Axis:
    return stated if given is None else given


def _stated(dim: TensorShapeProto.Dimension, where: str) -> Axis:
    if dim.HasField("dim_value"):
        if dim.dim_value == -1:  # as older exporters write an unknown size
            return None
        if dim.dim_value < 0:
            raise FileFormatError(
                "a size is negative",
                where=where,
                got=dim.dim_value,
                remedy="name the axis in dynamic_shapes to make it dynamic",
            )
        return dim.dim_value
    return None if dim.dim_param == "?" else dim.dim_param or None


class _Names:
    """Gives sizes to what axes are called.

    Args:
        axes: all axes of all inputs.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._symbols: dict[str, Size] = {}
        self._made: set[str] = set()
        for axis in axes:
            if isinstance(axis, str) and _NAME.match(axis) and _is_symbol(axis):
                self._symbols[axis] = Size.symbol(axis)

    def sizes(self, name: str, axes: Sequence[Axis]) -> tuple[Size, ...]:
        return tuple(self._size(name, number, axis) for number, axis in enumerate(axes))

    def _size(self, name: str, number: int, axis: Axis) -> Size:
        if isinstance(axis, int):
            return Size.const(axis)
        if axis is None:
            return self._fresh(f"{name}.{number}")
        if axis not in self._symbols:
            self._symbols[axis] = self._expression(axis) or self._fresh(axis)
        return self._symbols[axis]

    def _expression(self, text: str) -> Size | None:
        """A size computed from axes, where each of its symbols is one. What is a number alone is a name."""
        try:
            size = parse_size(text)
        except SizeError:
            return None
        bound = frozenset[str]().union(
            *(each.symbols for each in self._symbols.values() if each.as_symbol() is not None)
        )
        return size if size.symbols and size.symbols <= bound else None

    def _fresh(self, text: str) -> Size:
        """A symbol that no other axis is, called as nearly so as symbols may be."""
        plain = re.sub(r"[^A-Za-z0-9_.]", "_", text)
        base = plain if plain[:1].isalpha() or plain[:1] == "_" else f"d_{plain}"
        taken = {str(each) for each in self._symbols.values()} | self._made
        name, number = base, 1
        while name in taken or not _is_symbol(name):
            number += 1
            name = f"{base}_{number}"
        self._made.add(name)
        return Size.symbol(name)


def _is_symbol(name: str) -> bool:
    try:
        return Size.symbol(name).as_symbol() == name
    except SizeError:
        return False


__all__ = ["Axis", "DynamicSizes", "InputSpec", "input_specs"]
