"""Order: where elements stand when an axis is sorted, its first ones, and places in what is sorted already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Sample, same_dtype
from anyshape.dialects.dhlo.elementwise import widened
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import DTYPES, F32, F64, I32, I64
from anyshape.dialects.sizes import Tensor, sizes_of, tensor
from anyshape.symbolic import Size


def _order(x: Array, descending: bool) -> Array:
    """The stable order along the last axis; NaN counts as the largest element."""
    x = widened(x)
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def _descending(sizes: tuple[str, ...], descending: bool) -> Oracle:
    return Oracle("aten.argsort.stable", (Arg(0),), {"stable": True, "dim": len(sizes) - 1, "descending": descending})


class ArgSort(Whole, op="argsort"):
    """result[…, i] = j where x[…, j] is element number i of the row x[…, :] in order; i64, sizes of x, which has an axis at least.

    The order is ascending, or `descending`, and stable. −0 equals 0; NaN equals NaN and is larger than any number, as in PyTorch.
    """

    DEFAULTS: ClassVar = {"descending": False}
    SAMPLES = tuple(
        Sample((("m", "n"),), {"descending": descending}, DTYPES, oracle=_descending(("m", "n"), descending))
        for descending in (False, True)
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        sizes = sizes_of(one_operand(cls.name, operands))
        if not sizes:
            raise VerifyException(f"{cls.name} takes a tensor with an axis")
        return [tensor(I64, sizes)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [_order(operands[0], self.attribute("descending")).astype(np.int64)]


class TopK(Whole, op="top_k"):
    """result = the first k of `argsort(x, descending=largest)` on the last axis, i64 [.., k]; k is at most the size of the axis."""

    DEFAULTS: ClassVar = {"k": REQUIRED, "largest": True}
    SIZE_ATTRIBUTES = ("k",)
    SAMPLES = (
        Sample((("m", "n"),), {"k": (Size.symbol("n"),)}, DTYPES, oracle=_descending(("m", "n"), True)),
        Sample((("m", "n"),), {"k": (1,), "largest": False}, DTYPES, minimum={"n": 1}),
        Sample((("m", 1000),), {"k": (3,)}, (F32, F64, I32, I64)),
        Sample((("m", 3000),), {"k": (40,), "largest": False}, (F32, I64), values={0: "small"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        sizes = sizes_of(one_operand(cls.name, operands))
        if not sizes or len(attributes["k"]) != 1:
            raise VerifyException(f"{cls.name} takes a tensor with an axis, and one k")
        return [tensor(I64, (*sizes[:-1], *attributes["k"]))]

    @property
    def k(self) -> Size:
        return self.size_list("k")[0]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        order = _order(operands[0], self.attribute("largest"))
        return [order[..., : self.k.evaluate(env)].astype(np.int64)]


class RowOrder(Whole, op="row_order"):
    """result[i] = j where x[j, :] is row number i of the matrix x in ascending lexicographic order; i64 [number of rows].

    The order is stable, and that of `argsort` for elements. (numpy `lexsort` of the columns, the last first.)
    """

    SAMPLES = (Sample((("m", "n"),), {}, DTYPES, values={0: "small"}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        sizes = sizes_of(one_operand(cls.name, operands))
        if len(sizes) != 2:
            raise VerifyException(f"{cls.name} takes a matrix")
        return [tensor(I64, sizes[:1])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        order = np.arange(len(operands[0]))
        for column in reversed(operands[0].T):
            order = order[_order(column[order], descending=False)]
        return [order.astype(np.int64)]


class SearchSorted(Whole, op="search_sorted"):
    """result[…, i] = the first j with sorted[…, j] ≥ values[…, i], or > with `right`, n where there is none; i64, sizes of values.

    Operands sorted [.., n], ascending, and values [.., m] of one dtype; or sorted [n] for values of any sizes. By bisection from
    (0, n), middles rounded down, so that rows that are not sorted, and NaN, give what they give in PyTorch.
    """

    DEFAULTS: ClassVar = {"right": False}
    SAMPLES = tuple(
        Sample(
            operands, {"right": right}, dtypes,
            oracle=Oracle("aten.searchsorted.Tensor", (Arg(0), Arg(1)), {"right": right}),
        )
        for operands, right, dtypes in (
            ((("n",), ("m", "k")), False, DTYPES[1:]),
            ((("m", "n"), ("m", "k")), True, (F32, F64, I32)),
        )
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes a sorted tensor and values, got {len(operands)} operands")
        same_dtype(cls.name, operands)
        rows, values = (sizes_of(operand) for operand in operands)
        if len(rows) != 1 and (not rows or rows[:-1] != values[:-1]):
            raise VerifyException(f"{cls.name}: rows are {list(map(str, rows))}, values {list(map(str, values))}")
        return [tensor(I64, values)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        rows, values = (widened(operand) for operand in operands)
        extent = rows.shape[-1]
        low, high = np.zeros(values.shape, np.int64), np.full(values.shape, extent, np.int64)
        while (low < high).any():
            middle = (low + high) // 2
            safe = np.minimum(middle, extent - 1)
            found = rows[safe] if rows.ndim == 1 else np.take_along_axis(rows, safe, axis=-1)
            reached = found > values if self.attribute("right") else found >= values
            open_ = low < high
            low, high = np.where(open_ & ~reached, middle + 1, low), np.where(open_ & reached, middle, high)
        return [low]


__all__ = ["ArgSort", "RowOrder", "SearchSorted", "TopK"]
