"""Norms of matrices by sums of rows or columns fixed the sizes of the example: PyTorch's own read sizes as numbers there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.end_to_end.eager import check, compiled

ORDERS = (1, -1, math.inf, -math.inf)

NORMS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "matrix_norm": lambda x, order: torch.linalg.matrix_norm(x, order),
    "norm": lambda x, order: torch.linalg.norm(x, order, dim=(-2, -1)),
    "kept axes": lambda x, order: torch.linalg.matrix_norm(x, order, dim=(2, 0), keepdim=True),
    "f64": lambda x, order: torch.linalg.norm(x, order, (0, 1), dtype=torch.float64),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    def norms(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(NORMS[name](x, order) for order in ORDERS)

    program = compiled(norms, torch.randn(2, 3, 4))
    generator = torch.Generator().manual_seed(0)
    for sizes in ((5, 3, 4), (2, 7, 4), (2, 3, 90), (1, 1, 1), (3, 1, 2)):
        x = torch.randn(sizes, generator=generator)
        check(program, norms, x)
        x[0, 0, 0] = math.nan
        check(program, norms, x)


@pytest.mark.parametrize("order", ORDERS)
def test_of_no_elements(order: float) -> None:
    """A sum of none and the largest of none are 0, and the smallest of none is an error, as in eager."""

    def norm(x: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(x, order)

    program = compiled(norm, torch.randn(2, 3, 4))
    for sizes in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        x = torch.zeros(sizes)
        try:
            norm(x)
        except IndexError:
            with pytest.raises(IndexError):
                program(x)
        else:
            check(program, norm, x)


def test_of_a_matrix() -> None:
    def norm(x: Tensor) -> Tensor:
        return torch.linalg.norm(x, 1)

    program = compiled(norm, torch.randn(3, 4))
    for sizes in ((1, 1), (6, 2), (0, 3)):
        check(program, norm, torch.ones(sizes))
