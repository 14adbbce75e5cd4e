"""Prefixes of `torch.logcumsumexp` were −inf where the row's largest element was more than 745 above all of them."""

from __future__ import annotations

import math

import pytest
import torch

from tests.end_to_end.eager import check, compiled

INF, NAN = math.inf, math.nan
ROWS = (
    [-1e4, 0.0], [0.0, -1e4], [-1e4, -2e4, 1e4, 1e4], [-INF, -INF, -3e4, 0.0], [1.0, INF, -INF, INF], [-INF, INF],
    [NAN, 1.0], [1.0, NAN, INF], [INF, NAN], [5.0], [],
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_every_prefix_counts_for_itself(dtype: torch.dtype, dim: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.logcumsumexp(x, dim)

    program = compiled(function, torch.randn(3, 4).to(dtype))
    for row in ROWS:
        for x in (torch.tensor([row]), torch.tensor([row]).T, torch.tensor([row, row, row]).expand(3, len(row))):
            check(program, function, x.contiguous().to(dtype))
    for shape in ((0, 3), (3, 0), (1, 1), (2, 300), (300, 2)):
        check(program, function, (torch.randn(shape) * 2000).to(dtype))
