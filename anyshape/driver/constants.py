"""The constant table of a program: weights as they are or packed, laid out in one blob."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.tiles.pack import pack_rhs_name
from anyshape.codegen.tiles.shape import PANEL, packed_depth
from anyshape.dialects.dhlo import Array
from anyshape.dialects.dtypes import dtype_of_numpy
from anyshape.host import ConstantEntry
from anyshape.kernels import PackedOperand

ALIGNMENT = 64


@dataclass(frozen=True)
class ConstantTable:
    """The entries of a table over a store of weights; packed forms are made by the program's own packing code."""

    entries: tuple[ConstantEntry, ...]
    store: Mapping[str, Array]

    def shape_of(self, entry: ConstantEntry) -> tuple[int, ...]:
        """Sizes of an entry's array: those of the weight, or (panels, k, columns of a panel)."""
        if entry.packed is None:
            return self.store[entry.weight].shape
        return (-(-entry.packed.n // PANEL), _panel_rows(entry.packed, self.store[entry.weight]), PANEL)

    def bytes_of(self, entry: ConstantEntry) -> int:
        return int(np.prod(self.shape_of(entry), dtype=np.int64)) * self.store[entry.weight].itemsize

    @property
    def layout(self) -> list[tuple[int, int]]:
        """(bytes, offset in the blob) of each entry."""
        layout: list[tuple[int, int]] = []
        offset = 0
        for entry in self.entries:
            size = self.bytes_of(entry)
            layout.append((size, offset))
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        return layout

    def arrays(self, code: LoadedCode) -> list[Array]:
        """Every array of the table in one block of large pages: weights copied, so that they are constants even if the
        model's own are changed later, or packed by `code`."""
        layout = self.layout
        block = _large_pages(sum(layout[-1]) if layout else 0)
        arrays = [
            np.ndarray(self.shape_of(entry), self.store[entry.weight].dtype, block, offset)
            for entry, (_, offset) in zip(self.entries, layout, strict=True)
        ]
        with ThreadPoolExecutor() as pool:  # copies and the packing code run without the interpreter's lock
            jobs = zip(self.entries, arrays, strict=True)
            for done in [pool.submit(_fill, code, entry, self.store[entry.weight], array) for entry, array in jobs]:
                done.result()
        return arrays

    def write(self, path: Path, code: LoadedCode) -> None:
        """Write the blob: every array at its offset."""
        with path.open("wb") as file:
            for array, (_, offset) in zip(self.arrays(code), self.layout, strict=True):
                file.seek(offset)
                file.write(np.ascontiguousarray(array).data)
            total = sum(self.layout[-1]) if self.layout else 0
            file.truncate(-(-total // ALIGNMENT) * ALIGNMENT)


def _large_pages(size: int) -> mmap.mmap:
    """Anonymous zeroed memory that the system is asked to back with 2 MB pages, since weights are read once a call."""
    # Private, since shared anonymous memory gets no large pages; an empty array may lie at the end.
    block = mmap.mmap(-1, size + ALIGNMENT, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def _panel_rows(packed: PackedOperand, weight: Array) -> int:
    """Rows of PANEL elements of a panel: k, rounded up for bytes."""
    return packed_depth(dtype_of_numpy(weight.dtype).name, packed.k)


def _fill(code: LoadedCode, entry: ConstantEntry, weight: Array, target: Array) -> None:
    if entry.packed is None:
        np.copyto(target, weight)
    else:
        _pack(code, entry.packed, weight, target)


def _pack(code: LoadedCode, p: PackedOperand, weight: Array, target: Array) -> None:
    """Fill panel p of `target` from the columns `p·PANEL…` of the weight, in the order that register tiles take."""
    source = np.ascontiguousarray(weight)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p)
    pack = signature(code.address(pack_rhs_name(dtype_of_numpy(weight.dtype).name)))
    item, panel_bytes = weight.itemsize, _panel_rows(p, weight) * PANEL * weight.itemsize
    for number, column in enumerate(range(0, p.n, PANEL)):
        first = source.ctypes.data + column * p.n_stride * item
        into = target.ctypes.data + number * panel_bytes
        pack(first, p.k_stride, p.n_stride, p.k, min(PANEL, p.n - column), into)
