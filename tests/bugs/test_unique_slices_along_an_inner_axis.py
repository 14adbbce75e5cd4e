"""`unique` of slices along an inner axis orders them by their elements as they stand, the other axes in their own order."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import check_both_ways


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_of_three_axes(dim: int) -> None:
    def of_slices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.unique(x, return_inverse=True, return_counts=True, dim=dim)

    torch.manual_seed(3)
    check_both_ways(of_slices, *((torch.randint(0, 2, sizes).float(),) for sizes in ((3, 4, 5), (2, 3, 7), (4, 1, 3))))
