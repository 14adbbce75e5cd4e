"""Buffers that end at an unreadable page: one element read or written beyond them ends the process."""

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Guarded:
    """An array whose last byte is the last byte before an unreadable page."""

    array: np.ndarray[Any, Any]
    address: int
    mapping: mmap.mmap


def _guarded(values: np.ndarray[Any, Any]) -> Guarded:
    """A C-contiguous copy of `values` in front of a guard page."""
    pages = -(-max(values.nbytes, 1) // _PAGE)
    mapping = mmap.mmap(-1, (pages + 1) * _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    if _libc.mprotect(ctypes.c_void_p(start + pages * _PAGE), _PAGE, 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    offset = pages * _PAGE - values.nbytes
    array = (
        np.frombuffer(mapping, values.dtype, values.size, offset).reshape(values.shape)
        if values.size
        else values.copy()
    )
    if values.size:
        array[...] = values
    return Guarded(array, start + offset, mapping)


@pytest.fixture(scope="session")
def guarded() -> Callable[[np.ndarray[Any, Any]], Guarded]:
    """`guarded(values)`: a copy in front of a guard page."""
    return _guarded
