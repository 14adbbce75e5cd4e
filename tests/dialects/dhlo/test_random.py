"""Philox 4x32-10 against the known answers of its authors' library."""

import numpy as np
import pytest

from anyshape.dialects.dhlo.random import philox

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Source: kat_vectors of Random123 (D. E. Shaw Research)."""
    words = philox(tuple(np.array([c], np.uint64) for c in counter), tuple(np.array([k], np.uint64) for k in key))  # pyright: ignore[reportArgumentType]
    assert tuple(int(word[0]) for word in words) == expected
