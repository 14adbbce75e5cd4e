"""What a name of an ONNX graph stands for while it is imported: a tensor that the program computes, or elements known already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from anyshape.dialects.dhlo import Array
from anyshape.dialects.dtypes import DType
from anyshape.frontends.onnx.dtypes import dtype_of_array
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.nn import Tensor
from anyshape.symbolic import Relation, Size

INT64 = np.dtype(np.int64)
BOOLEAN = np.dtype(np.bool_)


@dataclass(frozen=True, eq=False)
class Known:
    """A tensor whose elements are known while importing: a constant of the file, or what is computed from sizes.

    Attributes:
        elements: the numbers; or, as an object array, a `Size` for each element of an integer tensor, a `Relation` or a bool for each
            of a bool tensor, a `Ratio` or a number for each of a float one.
        numpy: the type of its elements, of whatever types numpy and ml_dtypes have: programs need not have it as long as nobody
            asks for it as a tensor.
    """

    elements: Array
    numpy: np.dtype[np.generic] = field(default=None)  # pyright: ignore[reportAssignmentType] - set below

    def __post_init__(self) -> None:
        if self.numpy is None:  # pyright: ignore[reportUnnecessaryComparison]
            object.__setattr__(self, "numpy", self.elements.dtype)

    @property
    def is_literal(self) -> bool:
        """Whether its elements are numbers, and not expressions over the sizes of the inputs."""
        return self.elements.dtype == self.numpy

    @property
    def dtype(self) -> DType:
        """Raises Unsupported where programs have no such elements."""
        return dtype_of_array(self.numpy)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(map(Size.const, self.elements.shape))

    @property
    def rank(self) -> int:
        return self.elements.ndim

    def __repr__(self) -> str:
        return f"Known{list(self.shape)} {self.numpy}"


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor of an element type that programs lack, in one of theirs that holds its elements; see `storage.py`.

    Attributes:
        tensor: the elements in a type of programs.
        numpy: the type of the elements.
    """

    tensor: Tensor
    numpy: np.dtype[np.generic]

    @property
    def dtype(self) -> DType:
        """Raises Unsupported: an op that asks has no way to take such elements."""
        return dtype_of_array(self.numpy)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return self.tensor.sizes

    @property
    def rank(self) -> int:
        return self.tensor.rank

    def __repr__(self) -> str:
        return f"{self.tensor} holding {self.numpy}"


Value: TypeAlias = Tensor | Known
Anything: TypeAlias = "Value | Stored | tuple[Value, ...] | None"
"""A value; a sequence; or an input or output that the node leaves out."""

Element: TypeAlias = Size | Relation | Ratio | int | float | bool


def known_array(elements: Array, numpy: np.dtype[np.generic]) -> Known:
    """An object array of sizes, relations and numbers as a known tensor: a literal one where no element has a symbol."""
    plain = [_plain(each) for each in elements.flat]
    if all(isinstance(each, int | float | bool) for each in plain):
        numbers = [_wrapped(each, numpy) for each in plain] if numpy.kind in "iu" else plain
        return Known(np.array(numbers, object).astype(numpy).reshape(elements.shape))
    kept = np.empty(elements.shape, object)
    for place, each in zip(np.ndindex(elements.shape), plain, strict=True):
        kept[place] = each if isinstance(each, Relation | Ratio | bool | float) else Size.of(each)
    return Known(kept, numpy)


def known_sizes(sizes: Iterable[Size | int], numpy: np.dtype[np.generic] = INT64) -> Known:
    """A vector of sizes."""
    listed = list(sizes)
    elements = np.empty(len(listed), object)
    elements[:] = listed
    return known_array(elements, numpy)


def known_scalar(element: Element, numpy: np.dtype[np.generic] = INT64) -> Known:
    """A known tensor of rank 0."""
    elements = np.empty((), object)
    elements[()] = element
    return known_array(elements, numpy)


def as_objects(known: Known) -> Array:
    """The elements as objects: sizes of integers, relations or bools of bools, numbers of floats."""
    if not known.is_literal:
        return known.elements
    objects = np.empty(known.shape, object)
    for place in np.ndindex(known.shape):
        element = known.elements[place].item()
        objects[place] = Size.const(element) if known.numpy.kind in "iu" else element
    return objects


def _wrapped(number: Element, numpy: np.dtype[np.generic]) -> int:
    """An integer modulo the range of a type of integers."""
    assert isinstance(number, int | float)
    range_ = np.iinfo(numpy.name)
    span = int(range_.max) - int(range_.min) + 1
    return (int(number) - int(range_.min)) % span + int(range_.min)


def _plain(element: Element) -> Element:
    if isinstance(element, Ratio) and element.size.is_constant:
        return element.size.value / element.divisor
    return element.value if isinstance(element, Size) and element.is_constant else element


def sizes_text(sizes: Sequence[Size]) -> str:
    """Sizes as errors show them: `[b, 3, 2*s]`."""
    return f"[{', '.join(map(str, sizes))}]"


__all__ = [
    "BOOLEAN", "INT64", "Anything", "Known", "Stored", "Value", "as_objects", "known_array", "known_scalar", "known_sizes", "sizes_text",
]  # fmt: skip
