"""The constant table of a program: weights as they are or packed, laid out in one blob."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.symbols import pack_blocks_name, pack_rhs_name
from anyshape.dialects.arrays import Array, ArrayType, ConstantEntry, ConstantStore
from anyshape.dialects.packed_blocks import PANEL_ROWS, PackedBlocks
from anyshape.dialects.packed_panels import PANEL, PackedOperand, packed_depth
from anyshape.driver.mapped import drop_pages, mapping_of
from anyshape.support.errors import ArgumentError

ALIGNMENT = 64
LARGE_TABLE = 8 << 20
"""Bytes from which an array that is not packed is taken for a table to look rows up in: large pages, which are slow to get, would
be of no use there."""
JOB_BYTES = 1 << 20
"""Bytes that are worth handing to another thread."""

Job = Callable[[], None]


@dataclass(frozen=True)
class ConstantTable:
    """The entries of a table over a store of weights; packed forms are made by the program's own packing code."""

    entries: tuple[ConstantEntry, ...]
    store: ConstantStore

    def type_of(self, entry: ConstantEntry) -> ArrayType:
        """The type of an entry's array: that of the weight, or (panels, k, columns of a panel)."""
        weight = self.store.type_of(entry.weight)
        if entry.packed is None:
            return weight
        if isinstance(entry.packed, PackedBlocks):
            return ArrayType(weight.dtype, entry.packed.shape)
        panels = -(-entry.packed.n // PANEL)
        return ArrayType(weight.dtype, (panels, _panel_rows(entry.packed), PANEL))

    def bytes_of(self, entry: ConstantEntry) -> int:
        return self.type_of(entry).nbytes

    @property
    def layout(self) -> list[tuple[int, int]]:
        """(bytes, offset in the blob) of each entry."""
        return self._layout_of(self.entries)

    def _layout_of(self, entries: Iterable[ConstantEntry]) -> list[tuple[int, int]]:
        layout: list[tuple[int, int]] = []
        offset = 0
        for entry in entries:
            size = self.bytes_of(entry)
            layout.append((size, offset))
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        return layout

    @property
    def packed_bytes(self) -> int:
        """Bytes of the entries that are packed."""
        return sum(self.bytes_of(entry) for entry in self.entries if entry.packed is not None)

    @property
    def copied_bytes(self) -> int:
        """Bytes of the entries that are kept as they are, without those that may lie in the memory of a live array."""
        plain = (entry for entry in self.entries if entry.packed is None and entry.weight not in self.store.live)
        return sum(map(self.bytes_of, plain))

    def allocate(self, entries: Sequence[ConstantEntry]) -> list[Array]:
        """Memory for entries, in one block that lives as long as one of the arrays."""
        layout = self._layout_of(entries)
        block = _zeroed(sum(layout[-1]) if layout else 0)
        for begin, end in _read_whole(entries, layout):
            _ask_for_large_pages(block, begin, end)
        types = map(self.type_of, entries)
        return [
            np.ndarray(type.shape, type.dtype, block, offset)
            for type, (_, offset) in zip(types, layout, strict=True)
        ]  # fmt: skip

    def arrays(self, code: LoadedCode) -> list[Array]:
        """Every array of the table in one block: weights copied, so that they are constants even if the model's own are
        changed later, or packed by `code`. Large ones in files that are mapped read-only stay where they are.

        Raises:
            ArgumentError: the table has live weights, which have no values of their own.
        """
        live = [entry.weight for entry in self.entries if self.store.is_live(entry.weight)]
        if live:
            raise ArgumentError(
                "a program with live weights has no constants of its own", got=", ".join(live),
                remedy="load it with `load_live`; to deploy a model, compile it with `anyshape.compile`",
            )  # fmt: skip
        made = [entry for entry in self.entries if not self._stays(entry)]
        arrays = dict(zip(made, self.allocate(made), strict=True))
        run_jobs([
            job for entry in made for job in fill_jobs(code, entry, self.store[entry.weight], arrays[entry])
        ])  # fmt: skip
        return [arrays[entry] if entry in arrays else self.store[entry.weight] for entry in self.entries]

    def _stays(self, entry: ConstantEntry) -> bool:
        """Whether a weight is read where it lies."""
        if entry.packed is not None or self.bytes_of(entry) < LARGE_TABLE:
            return False
        weight = self.store[entry.weight]
        return weight.flags.c_contiguous and weight.flags.aligned and mapping_of(weight) is not None

    def write(self, path: Path, code: LoadedCode) -> None:
        """Write the blob: every array at its offset."""
        with path.open("wb") as file:
            for array, (_, offset) in zip(self.arrays(code), self.layout, strict=True):
                file.seek(offset)
                file.write(np.ascontiguousarray(array).data)
            total = sum(self.layout[-1]) if self.layout else 0
            file.truncate(-(-total // ALIGNMENT) * ALIGNMENT)


def _read_whole(entries: Sequence[ConstantEntry], layout: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of the block that each call reads from end to end: all but large tables, of which it takes a few rows."""
    runs: list[tuple[int, int]] = []
    begin = end = 0
    for entry, (size, offset) in zip(entries, layout, strict=True):
        if entry.packed is None and size >= LARGE_TABLE:
            runs.append((begin, end))
            begin = offset + size
        end = offset + size
    return [*runs, (begin, end)]


def _zeroed(size: int) -> mmap.mmap:
    """Anonymous memory of zeros."""
    # Private, since shared anonymous memory gets no large pages; an empty array may lie at the end.
    return mmap.mmap(-1, size + ALIGNMENT, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _ask_for_large_pages(block: mmap.mmap, begin: int, end: int) -> None:
    """Ask the system to back these bytes with 2 MB pages, as far as they are whole pages."""
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    if begin < end and hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE, begin, end - begin)


def _panel_rows(packed: PackedOperand) -> int:
    """Rows of PANEL elements of a panel: k, rounded up where the product takes several k at once."""
    return packed_depth(packed.factors, packed.k)


def run_jobs(jobs: Sequence[Job], threads: int | None = None) -> None:
    """Run all jobs, on threads where there are several: copies and the packing code run without the interpreter's lock.

    Args:
        threads: None is as many as suit the machine.
    """
    if len(jobs) < 2 or threads == 1:
        for job in jobs:
            job()
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def fill_jobs(code: LoadedCode, entry: ConstantEntry, weight: Array, target: Array) -> Iterator[Job]:
    """What writes an entry's array, given the weight's values, in pieces of about `JOB_BYTES`."""
    if entry.packed is None:
        yield lambda: np.copyto(target, weight)
        return
    if isinstance(entry.packed, PackedBlocks):
        yield from _block_jobs(code, entry.packed, weight, target)
        return
    source = np.ascontiguousarray(weight)
    panel_bytes = math.prod(target.shape[1:]) * target.itemsize
    step = max(1, JOB_BYTES // max(1, panel_bytes))
    for first in range(0, len(target), step):
        yield _pack_job(code, entry.packed, source, target, range(first, min(first + step, len(target))))


def _block_jobs(code: LoadedCode, packed: PackedBlocks, weight: Array, target: Array) -> Iterator[Job]:
    """What packs block-quantised weights, some panels at a time."""
    source = np.ascontiguousarray(weight)
    step = max(1, JOB_BYTES // max(1, target.shape[1]))
    for first in range(0, len(target), step):
        rows = source[first * PANEL_ROWS : (first + step) * PANEL_ROWS]
        yield _pack_blocks_job(code, packed.format, rows, target[first : first + step])


def _pack_blocks_job(code: LoadedCode, format: str, rows: Array, panels: Array) -> Job:
    """Fill panels from the rows of blocks that belong to them."""
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    pack = signature(code.address(pack_blocks_name(format)))

    def job() -> None:
        pack(rows.ctypes.data, rows.shape[1], len(rows), panels.ctypes.data)
        drop_pages(rows)

    return job


def _pack_job(code: LoadedCode, p: PackedOperand, source: Array, target: Array, panels: range) -> Job:
    """Fill panels of `target`, panel i from the columns `i·PANEL…` of the weight, in the order that register tiles take."""
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p)
    pack = signature(code.address(pack_rhs_name(p.factors)))
    panel_bytes = math.prod(target.shape[1:]) * target.itemsize

    def job() -> None:
        begin, into = source.ctypes.data, target.ctypes.data
        for panel in panels:
            column = panel * PANEL
            first = begin + column * p.n_stride * source.itemsize
            pack(first, p.k_stride, p.n_stride, p.k, min(PANEL, p.n - column), into + panel * panel_bytes)

    return job
