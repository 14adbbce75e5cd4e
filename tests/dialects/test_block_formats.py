"""Every format decodes as the `gguf` package does, on blocks of random bits."""

import numpy as np
import pytest

from anyshape.dialects.block_formats import FORMATS, BlockFormat, block_format
from anyshape.support.errors import ArgumentError

quants = pytest.importorskip("gguf.quants")


def random_rows(format: BlockFormat, shape: tuple[int, ...], blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of random bits whose f16 are finite and of moderate size."""
    rows = rng.integers(0, 256, (*shape, blocks, format.bytes)).astype(np.uint8)
    for offset in (format.scale, format.minimum):
        if offset is not None:
            halves = (rng.uniform(0.5, 2, (*shape, blocks)) * rng.choice([-1, 1], (*shape, blocks))).astype("<f2")
            rows[..., offset : offset + 2] = halves[..., None].view(np.uint8)
    return rows.reshape(*shape, blocks * format.bytes)


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_decodes_as_gguf_does(format: BlockFormat) -> None:
    rows = random_rows(format, (3, 5), 4, np.random.default_rng(1))
    expected = getattr(quants, format.name.upper().replace("_K", "_K")).dequantize_blocks(
        format.blocks_of(rows).reshape(-1, format.bytes)
    )
    np.testing.assert_array_equal(format.decode(rows), expected.reshape(3, 5, 4 * format.elements))


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_rows_are_whole_blocks(format: BlockFormat) -> None:
    assert format.columns(format.row_bytes(3 * format.elements)) == 3 * format.elements
    with pytest.raises(ArgumentError, match="whole number of blocks"):
        format.columns(format.bytes + 1)
    with pytest.raises(ArgumentError, match="whole number of blocks"):
        format.row_bytes(format.elements - 1)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="q4_0, q4_1, q5_0"):
        block_format("q2_k")
