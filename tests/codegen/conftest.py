"""Buffers at an unreadable page: one element read or written beyond them ends the process."""

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
    """An array whose last byte is the last byte before an unreadable page, or whose first is the first behind one."""

    array: np.ndarray[Any, Any]
    address: int
    mapping: mmap.mmap


def _guarded(values: np.ndarray[Any, Any], *, behind: bool = False) -> Guarded:
    """A C-contiguous copy of `values` in front of a guard page, or behind one."""
    pages = -(-max(values.nbytes, 1) // _PAGE)
    mapping = mmap.mmap(-1, (pages + 1) * _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    guard = 0 if behind else pages * _PAGE
    if _libc.mprotect(ctypes.c_void_p(start + guard), _PAGE, 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    offset = _PAGE if behind else pages * _PAGE - values.nbytes
    array = (
        np.frombuffer(mapping, values.dtype, values.size, offset).reshape(values.shape)
        if values.size
        else values.copy()
    )
    if values.size:
        array[...] = values
    return Guarded(array, start + offset, mapping)


@pytest.fixture(scope="session")
def guarded() -> Callable[..., Guarded]:
    """`guarded(values)`: a copy in front of a guard page; `guarded(values, behind=True)`: behind one."""
    return _guarded
