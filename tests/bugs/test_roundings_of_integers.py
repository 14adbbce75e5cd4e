"""Roundings leave integers as they are, and no integer is infinite or no number."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import check_both_ways


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_of_integers(dtype: torch.dtype) -> None:
    def asked(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y.floor(), y.ceil(), y.round(), y.trunc(), y.isnan(), y.isinf()

    check_both_ways(asked, *((torch.arange(size, dtype=dtype),) for size in (3, 1, 0, 9)))


def test_of_bools() -> None:
    check_both_ways(torch.isnan, (torch.tensor([True, False]),), (torch.tensor([False]),))
