"""Weights in mapped files: large tables stay where they are, pages that were packed are given back."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from anyshape.codegen.llvm import LoadedCode, host_target
from anyshape.codegen.microkernels import Part, part_object
from anyshape.dialects.arrays import ConstantEntry
from anyshape.dialects.block_formats import FORMATS
from anyshape.dialects.dhlo import ConstantStore
from anyshape.dialects.packed_blocks import PackedBlocks, unpack_panels
from anyshape.driver.constants import LARGE_TABLE, ConstantTable
from anyshape.driver.mapped import drop_pages, mapping_of
from anyshape.support.machine import host_machine


@pytest.fixture
def mapped(tmp_path: Path) -> np.ndarray:
    """A table that is just large, in a file mapped read-only."""
    path = tmp_path / "weights"
    np.random.default_rng(0).integers(0, 100, LARGE_TABLE + 20 * 512, np.uint8).tofile(path)
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, np.uint8)


def test_the_mapping_is_found_behind_views(mapped: np.ndarray) -> None:
    view = mapped[64:].reshape(-1, 64).view()
    assert mapping_of(view) is not None
    assert mapping_of(view.copy()) is None
    writable = np.frombuffer(mmap.mmap(-1, 4096), np.uint8)
    assert mapping_of(writable) is None


def test_pages_are_read_again_after_they_were_dropped(mapped: np.ndarray) -> None:
    before = mapped[100:100_000].copy()
    drop_pages(mapped[100:100_000])
    drop_pages(mapped[:10])
    drop_pages(before)
    np.testing.assert_array_equal(mapped[100:100_000], before)


def test_a_large_table_stays_and_a_packed_one_is_made(mapped: np.ndarray) -> None:
    store, count = ConstantStore(), len(mapped) // 320 * 320
    table = store.add(mapped)
    rows = store.add(mapped[:count].reshape(-1, 20 * 16))
    packed = PackedBlocks(count // 320, 16 * 32, "q4_1")
    entries = (ConstantEntry(table), ConstantEntry(rows, packed))
    code = LoadedCode([part_object(host_target(), host_machine(), Part("quantised", "q4_1_int8"))], {})
    plain, panels = ConstantTable(entries, store).arrays(code)
    assert plain.ctypes.data == mapped.ctypes.data
    assert panels.shape == packed.shape
    np.testing.assert_array_equal(unpack_panels(packed, panels), FORMATS["q4_1"].decode(store[rows]))
