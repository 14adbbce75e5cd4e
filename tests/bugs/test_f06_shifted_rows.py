"""F06: rows that are written one further, `x[1:] = x[:-1].clone()`; every row moves by one, at any size."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import check_both_ways, through_torch_compile


def shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:] = x[:-1].clone()
    return x


@pytest.mark.parametrize("shape", [(4, 3), (1024, 2048), (2, 1), (1, 5)], ids=str)
def test_in_place(shape: tuple[int, int]) -> None:
    x = torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape)
    expected = torch.cat((x[:1], x[:-1]))
    through_torch_compile(shifted)(x)
    assert torch.equal(x, expected)


def test_of_a_copy() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return shifted(x.clone()), shifted(x.T.clone())

    check_both_ways(f, *((torch.randn(shape),) for shape in ((4, 3), (2, 2), (7, 1), (33, 65))))
