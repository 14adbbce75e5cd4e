"""The element types in which model files store tensors: GGUF's number and name of each, bytes of a row, and its values.

Numbers and names are those of the ggml library, which defines the format; block layouts are in `dialects/block_formats.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dialects.block_formats import FORMATS


@dataclass(frozen=True)
class TensorType:
    """One element type.

    Args:
        name: ggml's name, such as `Q4_K`.
        code: its number in a GGUF file.
        block: elements that are stored together; 1 for plain floats.
        block_bytes: bytes of such a block.
    """

    name: str
    code: int
    block: int
    block_bytes: int

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of `columns` elements, which must be a multiple of `block`."""
        return columns // self.block * self.block_bytes

    def decode(self, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The values of rows, u8 [..., row bytes] -> f32 [..., columns]."""
        rows = np.ascontiguousarray(rows)
        if self.name == "F32":
            return rows.view("<f4").astype(np.float32)
        if self.name == "F16":
            return rows.view("<f2").astype(np.float32)
        if self.name == "BF16":
            return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)
        decoded: NDArray[Any] = FORMATS[self.name.lower()].decode(rows)
        return decoded


def _blocks(name: str, code: int) -> TensorType:
    """The type whose rows are blocks of the format of that name."""
    form = FORMATS[name.lower()]
    return TensorType(name, code, form.elements, form.bytes)


_TYPES = (
    TensorType("F32", 0, 1, 4),
    TensorType("F16", 1, 1, 2),
    TensorType("BF16", 30, 1, 2),
    _blocks("Q8_0", 8),
    _blocks("Q4_0", 2),
    _blocks("Q4_1", 3),
    _blocks("Q5_0", 6),
    _blocks("Q5_1", 7),
    _blocks("Q4_K", 12),
    _blocks("Q5_K", 13),
    _blocks("Q6_K", 14),
)

TENSOR_TYPES = {kind.name: kind for kind in _TYPES}
"""Every type that can be read, by name."""

TYPE_OF_CODE = {kind.code: kind for kind in _TYPES}

UNSUPPORTED = {
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
"""Types that ggml defines and this package does not read, for messages."""
