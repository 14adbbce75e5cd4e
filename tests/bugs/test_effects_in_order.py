"""Ops that only raise have tokens that keep them in order: one more input of AOTAutograd's graph, None in every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import anyshape

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false


class Solved(nn.Module):
    """(x·W + 9)⁻¹, a buffer that counts calls, and an op beside them that PyTorch runs where `mixed`."""

    def __init__(self, mixed: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("calls", torch.zeros(3))
        self.mixed = mixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)  # pyright: ignore[reportCallIssue]
        y = torch.linalg.inv(x @ self.weight + 9 * torch.eye(3))
        if self.mixed:
            y = torch.special.airy_ai(y)
        return torch.linalg.cholesky(y @ y.mT + torch.eye(3)) + self.calls


@pytest.fixture(autouse=True)
def _anew() -> None:
    torch.compiler.reset()


def compiled(function: Callable[..., Any], strict: bool = True) -> Callable[..., Any]:
    return torch.compile(function, backend="anyshape", dynamic=True, options={"strict": strict})


@pytest.mark.parametrize("mixed", [False, True])
def test_checks_among_weights_and_writes(mixed: bool) -> None:
    torch.manual_seed(0)
    model, eager = Solved(mixed), Solved(mixed)
    eager.load_state_dict(model.state_dict())
    program = compiled(model, strict=not mixed)
    before = len(anyshape.report().of_kind("run"))
    with torch.no_grad():
        for batch in (2, 5, 1):
            x = torch.randn(batch, 3, 3)
            torch.testing.assert_close(program(x), eager(x), rtol=1e-4, atol=1e-4)
            assert torch.equal(model.calls, eager.calls)  # pyright: ignore[reportArgumentType]
            for each in (model, eager):
                each.weight.mul_(0.5)
    assert len(anyshape.report().of_kind("run")) == before, "the program itself gave the results"


def test_a_singular_matrix_is_the_users_mistake() -> None:
    program = compiled(torch.linalg.inv)
    torch.testing.assert_close(program(2 * torch.eye(3)), torch.eye(3) / 2)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.inv"):  # pyright: ignore[reportPrivateImportUsage]
        program(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    torch.testing.assert_close(program(4 * torch.eye(5)), torch.eye(5) / 4)
