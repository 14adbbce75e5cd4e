"""Arrays that lie in files mapped read-only: they need no copy, and their pages may leave the process once they were read."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from anyshape.dialects.arrays import Array


def mapping_of(array: Array) -> mmap.mmap | None:
    """The read-only mapping of a file that an array lies in, if it does."""
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner if isinstance(owner, mmap.mmap) and memoryview(owner).readonly else None


def drop_pages(array: Array) -> None:
    """Let the system take back the pages that only this dense array lies in; they are read from the file again when they are needed.

    Nothing happens where the array is in no mapped file.
    """
    mapping = mapping_of(array)
    if mapping is None or not array.flags.c_contiguous or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if size > 0:
        mapping.madvise(mmap.MADV_DONTNEED, first, size)


__all__ = ["drop_pages", "mapping_of"]
