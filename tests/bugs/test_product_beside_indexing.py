"""Rows of a table are added to a product: the index check has no place in a product's epilogue, so it is another kernel."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anyshape.support.errors import IndexOutOfRange
from tests.end_to_end.eager import check, compiled

TABLE = torch.randn(11, 6, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))


def linear(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return F.linear(x, WEIGHT) + F.embedding(index, TABLE)


def batched(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.bmm(x, x.transpose(1, 2)) + F.embedding(index, TABLE).sum(-1, keepdim=True))


def gathered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return F.linear(x, WEIGHT) * TABLE[index].gather(2, index.remainder(6).unsqueeze(-1).expand(-1, -1, 6))


@pytest.mark.parametrize("model", [linear, batched, gathered])
def test_indexing_beside_a_product(model: object) -> None:
    program = compiled(model, torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.int64))  # pyright: ignore[reportArgumentType]
    for rows, length in ((0, 3), (1, 1), (2, 0), (3, 33)):
        check(program, model, torch.randn(rows, length, 5), torch.randint(0, 11, (rows, length)))  # pyright: ignore[reportArgumentType]
    with pytest.raises(IndexOutOfRange, match="index 11 is out of range"):
        program(torch.randn(2, 3, 5), torch.full((2, 3), 11))
