"""ATen ops that order elements, compiled, against eager PyTorch at sizes that the example did not have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from tests.end_to_end.test_scatter import Expressions, Family, check

ORDERED: Expressions = {
    "sort": lambda x, a, k: torch.cat(torch.sort(x, stable=True)),
    "sort_columns": lambda x, a, k: torch.cat(torch.sort(x, dim=0, descending=True, stable=True)),
    "sort_integers": lambda x, a, k: torch.cat(torch.sort(a, stable=True)),
    "sort_unstable": lambda x, a, k: torch.sort(a, descending=True).values,
    "argsort": lambda x, a, k: torch.argsort(a, dim=0, stable=True),
    "msort": lambda x, a, k: torch.msort(x.double()),
    "topk": lambda x, a, k: torch.cat(torch.topk(x, 2)),
    "topk_smallest": lambda x, a, k: torch.cat(torch.topk(x, 1, dim=0, largest=False)),
    "topk_dynamic": lambda x, a, k: torch.cat(torch.topk(x, k.shape[0])),
    "kthvalue": lambda x, a, k: torch.cat(torch.kthvalue(x, 2)),
    "median": lambda x, a, k: torch.median(x),
    "median_rows": lambda x, a, k: torch.cat(torch.median(x, 1)),
    "median_nan": lambda x, a, k: torch.median(torch.where(x > 1, torch.nan, x), 1).values,
    "nanmedian": lambda x, a, k: torch.nanmedian(torch.where(x > 1, torch.nan, x), 1, keepdim=True).values,
    "nanmedian_all": lambda x, a, k: torch.nanmedian(torch.where(x > 1, torch.nan, x)),
    "mode": lambda x, a, k: torch.mode(a, 1).values,
    "mode_columns": lambda x, a, k: torch.mode(a, 0, keepdim=True).values,
    "searchsorted": lambda x, a, k: torch.searchsorted(torch.sort(x).values, x),
    "searchsorted_right": lambda x, a, k: torch.searchsorted(torch.sort(a).values, a, right=True, out_int32=True),
    "searchsorted_sorter": lambda x, a, k: torch.searchsorted(x, x, sorter=torch.argsort(x)),
    "bucketize": lambda x, a, k: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5]), right=True),
    "bucketize_integers": lambda x, a, k: torch.bucketize(a, torch.tensor([-1, 0, 2])),
    "histc": lambda x, a, k: torch.histc(x, 5, -1, 1),
    "histc_range": lambda x, a, k: torch.histc(x, 7),
    "masked_scatter": lambda x, a, k: x.masked_scatter(x > 0.5, x.t().contiguous() * 2),
}


def call(m: int, n: int, k: int, seed: int = 0) -> tuple[Tensor, ...]:
    """x [m, n] of distinct elements, whole numbers with repetitions, and a vector whose length is a number."""
    torch.manual_seed(seed)
    return torch.randn(m, n), torch.randint(-3, 4, (m, n)), torch.zeros(k)


def test_orders() -> None:
    check(
        ORDERED,
        call(4, 5, 3),
        [call(*sizes, seed=1) for sizes in ((7, 2, 2), (1, 9, 1), (4, 3000, 0), (3, 1000, 700), (2, 3000, 20))],
    )


DTYPES = [
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


def test_dtypes() -> None:
    expressions = {
        f"{how}_{dtype}": lambda x, a, k, dtype=dtype, descending=descending: (
            torch.sort(x.to(dtype), descending=descending, stable=True).indices
        )
        for dtype in DTYPES
        for how, descending in (("up", False), ("down", True))
    }
    check(expressions, call(3, 4, 1), [tuple(40 * each for each in call(2, 300, 1))])


def test_special_values() -> None:
    x = torch.tensor([0.0, torch.nan, -0.0, torch.inf, -torch.inf, -torch.nan, 1.0, -0.0]).repeat(2, 9)
    module = Family(
        {
            "up": lambda x: torch.sort(x, stable=True).indices,
            "down": lambda x: torch.sort(x, descending=True, stable=True).indices,
            "top": lambda x: torch.topk(x, 20).values,
            "bottom": lambda x: torch.topk(x, 40, largest=False).values,
        }
    )
    got, expected = anyshape.compile(module, (torch.zeros(3, 60),))(x), module(x)
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], equal_nan=True, rtol=0, atol=0)


BAGS: Expressions = {
    "sum": lambda t, i, o, w: bag(i, t, o),
    "weighted": lambda t, i, o, w: bag(i, t, o, per_sample_weights=w, mode="sum"),
    "mean": lambda t, i, o, w: bag(i, t, o, mode="mean"),
    "padded": lambda t, i, o, w: bag(i % 3, torch.arange(12.0).view(3, 4), o, mode="mean", padding_idx=1),
    "max": lambda t, i, o, w: bag(i, t, o, mode="max"),
    "ends": lambda t, i, o, w: bag(i, t, torch.cat([o, o[:1] * 0 + i.shape[0]]), mode="mean", include_last_offset=True),
    "rows": lambda t, i, o, w: bag(torch.stack([i, i]), t, mode="sum"),
    "half": lambda t, i, o, w: bag(i, t.bfloat16(), o, mode="sum"),
}
bag: Any = torch.nn.functional.embedding_bag


def test_bags() -> None:
    def call(rows: int, width: int, count: int, bags: int) -> tuple[Tensor, ...]:
        torch.manual_seed(rows)
        offsets = torch.randint(0, count + 1, (bags,)).sort().values
        offsets[0] = 0
        return torch.randn(rows, width), torch.randint(0, rows, (count,)), offsets, torch.rand(count)

    check(BAGS, call(6, 5, 7, 3), [call(9, 4, 30, 8), call(3, 64, 5, 2), call(50, 33, 100, 40)])


def test_index_of_a_bag_out_of_range() -> None:
    module = Family({"bags": lambda t, i, o: bag(i, t, o)})
    program = anyshape.compile(module, (torch.zeros(4, 3), torch.tensor([1, 2, 3]), torch.tensor([0, 2])))
    with pytest.raises(anyshape.AnyshapeError, match=r"embedding_bag.*index 9 is out of range \[0, 5\)"):
        program(torch.zeros(5, 3), torch.tensor([0, 9]), torch.tensor([0]))
