"""What a model file says about itself: names to values, read with the type and the range that the reader relies on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyshape.support.errors import FileFormatError

Value: TypeAlias = int | float | bool | str | Sequence[str] | NDArray[Any]
"""Texts are `str` or a sequence of them, an array of numbers is a read-only numpy array."""


class Metadata(Mapping[str, Value]):
    """Keys to values, in the order of the file.

    Looking a key up gives its value whatever it is; `integer`, `number`, `flag`, `text`, `texts` and `numbers` give one of the
    type asked for, and raise FileFormatError that names file and key for any other.
    """

    def __init__(self, source: str, values: Mapping[str, Value]) -> None:
        self.source = source
        self._values = values

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
        """A whole number from `minimum` to `maximum`; a key that is missing gives the default, where there is one."""
        value = self._found(key, default, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, value, "a whole number")
        if not minimum <= value <= maximum:
            raise self.wrong(key, value, f"from {minimum} to {maximum}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._found(key, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
            raise self.wrong(key, value, "a finite number")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._found(key, default, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self._found(key, default, "a text")
        if not isinstance(value, str):
            raise self.wrong(key, value, "a text")
        return value

    def texts(self, key: str) -> Sequence[str]:
        """An array of texts."""
        value = self._found(key, None, "an array of texts")
        if isinstance(value, str | int | float | np.ndarray):
            raise self.wrong(key, value, "an array of texts")
        return value

    def numbers(self, key: str, kind: str, length: int | None = None) -> NDArray[Any]:
        """An array of numbers whose numpy kind is in `kind` ("iu" whole, "f" real), of `length` elements where that is given."""
        value = self._found(key, None, "an array of numbers")
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kind:
            raise self.wrong(key, value, "an array of whole numbers" if kind == "iu" else "an array of numbers")
        if length is not None and len(value) != length:
            raise self.wrong(key, value, f"{length} elements")
        return value

    def wrong(self, key: str, got: Value, expected: str) -> FileFormatError:
        """The error that `key` has the value `got` where `expected` is asked for."""
        return FileFormatError(
            "the file's metadata do not fit",
            where=f"{self.source}, key {key!r}",
            got=_shown(got),
            expected=expected,
            remedy="get the file again, or convert the model again",
        )

    def _found(self, key: str, default: Value | None, expected: str) -> Value:
        value = self._values.get(key, default)
        if value is None:
            raise self.wrong(key, "no such key", expected)
        return value


def _shown(value: Value) -> str:
    """A value, or the kind and length of an array, in a line of bounded length."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.size} {value.dtype.name}"
    if not isinstance(value, str | int | float):
        return f"an array of {len(value)} texts"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 120 else text[:120] + "…"
