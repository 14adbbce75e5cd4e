"""Packing loses nothing: packed weights decode to the very bits of those in the file."""

import numpy as np
import pytest

from anyshape.dialects.block_formats import FORMATS, BlockFormat
from anyshape.dialects.packed_blocks import PANEL_ROWS, PackedBlocks, unpack_panels
from tests.dialects.packing import pack_panels
from tests.dialects.test_block_formats import random_rows

GROWN = {"q4_k": 2368 / 2304, "q5_k": 2880 / 2816}
"""Formats whose 6-bit numbers become bytes."""


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_packed_weights_decode_to_the_same_bits(format: BlockFormat, rows: int) -> None:
    values = random_rows(format, (rows,), 3, np.random.default_rng(rows))
    packed = PackedBlocks(rows, 3 * format.elements, format.name)
    panels = np.full(packed.shape, 0xAA, np.uint8)
    pack_panels(format, values, panels)
    np.testing.assert_array_equal(unpack_panels(packed, panels), format.decode(values))


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_packed_weights_are_as_large_as_the_file(format: BlockFormat) -> None:
    panels, bytes_ = PackedBlocks(64, 2 * format.elements, format.name).shape
    assert panels * bytes_ == pytest.approx(64 * 2 * format.bytes * GROWN.get(format.name, 1))


def test_rows_beyond_the_last_are_zero() -> None:
    format = FORMATS["q4_1"]
    panels = np.full(PackedBlocks(1, 32, "q4_1").shape, 0xAA, np.uint8)
    pack_panels(format, random_rows(format, (1,), 1, np.random.default_rng(0)), panels)
    decoded = unpack_panels(PackedBlocks(PANEL_ROWS, 32, "q4_1"), panels)
    assert decoded[0].any() and not decoded[1:].any()
