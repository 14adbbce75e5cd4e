"""Norms of complex tensors, and complex elements put at a mask, had no lowering."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math

import pytest
import torch

from tests.end_to_end.eager import check, compiled

SHAPES = ((3, 4), (1, 1), (5, 37))


def norms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    orders = (0, 1, 2, 3, 0.5, math.inf, -math.inf)
    return (
        *(torch.linalg.vector_norm(x, order, dim=1) for order in orders), torch.linalg.vector_norm(x, dim=0, keepdim=True),
        torch.linalg.norm(x), x.norm(), x.norm(1), torch.linalg.matrix_norm(x),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_norms(dtype: torch.dtype) -> None:
    program = compiled(norms, torch.randn(3, 4, dtype=dtype))
    for shape in SHAPES:
        check(program, norms, torch.randn(shape, dtype=dtype))
    check(
        program, norms, torch.tensor([[3 + 4j, 0, 1e4j], [complex(math.inf, 1), 1, complex(2, math.nan)]], dtype=dtype)
    )


def test_of_no_elements() -> None:
    def length(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.linalg.vector_norm(x, dim=1), torch.linalg.norm(x)

    program = compiled(length, torch.randn(3, 4, dtype=torch.complex64))
    for shape in ((0, 4), (3, 0), (0, 0)):
        check(program, length, torch.randn(shape, dtype=torch.complex64))


def test_elements_put_at_a_mask() -> None:
    def put(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask, source)

    def call(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = torch.randn(shape, dtype=torch.complex64)
        return x, x.real > 0, torch.randn(x.numel() + 2, dtype=torch.complex64)

    program = compiled(put, *call(3, 4))
    for shape in (*SHAPES, (0, 4)):
        check(program, put, *call(*shape))
