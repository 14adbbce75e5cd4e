"""The packed form of right-hand sides of products: panels of 64 columns, in the order in which register tiles take them.

Panel p of a matrix of k rows and n columns holds the columns 64·p … 64·p + 63, row after row, zeros beyond the last; a row of a panel
may be several rows of the matrix, whose elements for a column lie together (`DEPTH_GROUPS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from anyshape.symbolic import Size

PANEL = 64
"""Columns of a panel, the same for every machine: `tile.ContractOp.PANEL`."""
DEPTH_GROUPS = {"i8": 4, "bf16": 2}
"""A packed panel has room for a depth rounded up to this, whatever group a machine's instructions take; others have 1."""

_Depth = TypeVar("_Depth", int, "Size")


def packed_depth(element: str, depth: _Depth) -> _Depth:
    """Rows of 64 elements of a packed panel of that depth."""
    group = DEPTH_GROUPS.get(element, 1)
    return depth if group == 1 else (depth + (group - 1)) // group * group


@dataclass(frozen=True)
class PackedOperand:
    """A constant right-hand side as a k × n matrix: strides in elements of the array as it was.

    `factors` (`ContractOp.factors`) are the element types of the product, which say in what form its panels are.
    """

    k: int
    n: int
    k_stride: int
    n_stride: int
    factors: str
