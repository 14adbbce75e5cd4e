"""A decomposition of PyTorch's that asks for an element's value cannot be captured: that is an ExportError, as for any other capture."""

from __future__ import annotations

import pytest
import torch

import anyshape
from tests.bugs.front_ends import through_torch_compile
from tests.end_to_end.eager import check, compiled


def taken(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.take(x, index)


def test_take_by_a_scalar_index_compiles_or_says_so() -> None:
    x, index = torch.randn(1), torch.tensor(0)
    try:
        program = compiled(taken, x, index)
    except (anyshape.ExportError, anyshape.UnsupportedOps) as error:
        assert "take" in str(error) or "data-dependent" in str(error)
    else:
        check(program, taken, x, index)


@pytest.mark.parametrize("size", [1, 5])
def test_torch_compile_gives_the_value(size: int) -> None:
    program = through_torch_compile(taken)
    x = torch.randn(size)
    assert torch.equal(program(x, torch.tensor(size - 1)), x[size - 1])
