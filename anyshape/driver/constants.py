"""The constant table of a program: weights as they are or packed, laid out in one blob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshape.codegen.contract import pack_panels
from anyshape.dialects.dhlo import Array
from anyshape.host import ConstantEntry

ALIGNMENT = 64


@dataclass(frozen=True)
class ConstantTable:
    """Arrays in table order; `layout` gives (bytes, offset) of each in the blob."""

    arrays: tuple[Array, ...]

    @property
    def layout(self) -> list[tuple[int, int]]:
        layout: list[tuple[int, int]] = []
        offset = 0
        for array in self.arrays:
            layout.append((array.nbytes, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return layout

    def write(self, path: Path) -> None:
        """Write the blob: every array at its offset."""
        with path.open("wb") as file:
            for array, (_, offset) in zip(self.arrays, self.layout, strict=True):
                file.seek(offset)
                file.write(np.ascontiguousarray(array).data)
            total = sum(self.layout[-1]) if self.layout else 0
            file.truncate(-(-total // ALIGNMENT) * ALIGNMENT)


def build_table(entries: Sequence[ConstantEntry], store: Mapping[str, Array]) -> ConstantTable:
    """The arrays of these entries; packed ones are made here, the others are the store's own memory."""
    return ConstantTable(tuple(_array_of(entry, store[entry.weight]) for entry in entries))


def _array_of(entry: ConstantEntry, weight: Array) -> Array:
    if entry.packed is None:
        return weight
    p = entry.packed
    item = weight.itemsize
    matrix = np.lib.stride_tricks.as_strided(
        np.ascontiguousarray(weight), (p.k, p.n), (p.k_stride * item, p.n_stride * item), writeable=False
    )
    return pack_panels(matrix)
