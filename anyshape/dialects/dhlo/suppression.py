"""Boxes of which those are left that no better one overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import Array, Environment, Sample, same_dtype
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import BOOL, F32, F64, I64
from anyshape.dialects.sizes import Tensor, sizes_of, tensor
from anyshape.symbolic import Size


class SuppressOverlaps(Whole, op="suppress_overlaps"):
    """result[i] = box i is kept: fewer than `most` boxes of its group before it are, and none of these overlaps it by more than `overlap`.

    Operands boxes [n, 4], of each its lower end on two axes, then its upper ends; group [n] of i64, in which equal numbers are neighbours;
    `overlap`, a number of the boxes' dtype, and `most`, an i64. Result bool [n]. Boxes overlap by area(a ∩ b) / area(a ∪ b), and not at all
    where a ∩ b is empty. (Greedy non-maximum suppression of boxes that are sorted by their scores.)
    """

    SAMPLES = (
        Sample(
            (("n", 4), ("n",), (), ()), {}, (F32, F64), {1: I64, 3: I64}, {0: "unit", 1: "zero", 2: "unit", 3: "finite"}
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 4:
            raise VerifyException(f"{cls.name} takes boxes, their groups, an overlap and a number of boxes")
        boxes, group, overlap, most = operands
        same_dtype(cls.name, (boxes, overlap), lambda dtype: dtype in (F32, F64))
        sizes = sizes_of(boxes)
        if len(sizes) != 2 or sizes[1] != Size.const(4):
            raise VerifyException(f"{cls.name}: boxes have sizes {list(map(str, sizes))}, expected [n, 4]")
        if group != tensor(I64, sizes[:1]) or sizes_of(overlap) or most != tensor(I64, ()):
            raise VerifyException(
                f"{cls.name}: groups are i64 of {sizes[0]}; overlap and the number of boxes have rank 0"
            )
        return [tensor(BOOL, sizes[:1])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        boxes, group, overlap, most = operands
        result = np.zeros(len(boxes), np.bool_)
        kept: list[int] = []
        with np.errstate(all="ignore"):
            for i in range(len(boxes)):
                if i and group[i] != group[i - 1]:
                    kept = []
                result[i] = len(kept) < most and not any(_overlap(boxes[i], boxes[j]) > overlap for j in kept)
                if result[i]:
                    kept.append(i)
        return [result]


def _overlap(a: Array, b: Array) -> Any:
    """area(a ∩ b) / area(a ∪ b); where a ∩ b is empty, less than any number."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if not (sides > 0).all():
        return -np.inf
    inside = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return inside / (areas[0] + areas[1] - inside)


__all__ = ["SuppressOverlaps"]
