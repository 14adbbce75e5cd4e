"""What is kept of the tokens read: keys and values of every layer, in one of several types.

| type | bytes a number | kept |
|---|---|---|
| `f32` | 4 | as computed |
| `f16` | 2 | rounded: 2⁻¹¹ of a number at most, which must be below 65,520 |
| `int8` | 1 + 4/head | of each position and head q = round(x / s) with s = max \\|x\\| / 127, and s in f32 |

Attention reads each where it lies: halves are widened in registers, and scales multiply scores and probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import numpy as np

from anyshape.support.errors import ArgumentError

if TYPE_CHECKING:
    from anyshape.symbolic import Size

CacheType = Literal["f32", "f16", "int8"]
DEFAULT: CacheType = "f16"
_DTYPES: Mapping[CacheType, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "int8": np.dtype(np.int8),
}
SizeT = TypeVar("SizeT", int, "Size")


@dataclass(frozen=True)
class KeyCache:
    """The cache of a layer.

    Args:
        type: how numbers are kept.
        kv_heads, head: heads of keys and values, and elements of one.
    """

    type: CacheType
    kv_heads: int
    head: int

    @property
    def is_scaled(self) -> bool:
        return self.type == "int8"

    def arrays(self, batch: SizeT, capacity: SizeT) -> list[tuple[tuple[SizeT | int, ...], np.dtype[Any]]]:
        """(sizes, dtype) of a layer's arrays: keys, each head as its two halves, then their scales where there are any; so values."""
        sizes = (batch, self.kv_heads, capacity)
        codes = ((*sizes, 2, self.head // 2), _DTYPES[self.type])
        return [codes, (sizes, np.dtype(np.float32))] * 2 if self.is_scaled else [codes] * 2

    @property
    def token_bytes(self) -> int:
        """Bytes that a token takes in a layer."""
        return sum(prod(sizes) * dtype.itemsize for sizes, dtype in self.arrays(1, 1))


def cache_type(name: str) -> CacheType:
    """The type of that name. Raises ArgumentError with the list of known ones."""
    if name not in get_args(CacheType):
        raise ArgumentError(
            "there is no such type of cache", where="cache", got=repr(name), expected=", ".join(get_args(CacheType))
        )
    return cast("CacheType", name)


__all__ = ["DEFAULT", "CacheType", "KeyCache", "cache_type"]
