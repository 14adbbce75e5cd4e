"""Least squares by singular values, at any sizes and ranks, and packed reflectors."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import compiled


def test_solutions_and_ranks() -> None:
    program = compiled(lambda a, b: torch.linalg.lstsq(a, b)[:3], torch.randn(2, 5, 3), torch.randn(2, 5, 2))
    deficient = torch.randn(1, 6, 1) @ torch.randn(1, 1, 4)
    for a in (torch.randn(1, 7, 4), torch.randn(3, 2, 5), torch.randn(2, 3, 3), torch.randn(0, 4, 2), deficient):
        b = torch.randn(*a.shape[:2], 2)
        solution, residuals, rank = program(a, b)
        expected = torch.linalg.lstsq(a, b)
        torch.testing.assert_close(solution, expected.solution, rtol=1e-3, atol=1e-4)
        assert rank.equal(expected.rank)
        assert residuals.shape == expected.residuals.shape


def test_residuals_want_full_rank() -> None:
    program = compiled(
        lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").residuals, torch.randn(5, 3), torch.randn(5, 2)
    )
    a, b = torch.randn(9, 4), torch.randn(9, 2)
    torch.testing.assert_close(program(a, b), torch.linalg.lstsq(a, b, driver="gelsd").residuals, rtol=1e-4, atol=1e-4)
    with pytest.raises(GuardError, match="less than full rank"):
        program(torch.ones(9, 4), b)


def test_packed_reflectors() -> None:
    program = compiled(lambda x: tuple(torch.geqrf(x)), torch.randn(4, 3))
    for sizes in ((5, 2), (2, 5), (1, 1), (4, 0), (3, 3)):
        x = torch.randn(sizes)
        for got, expected in zip(program(x), torch.geqrf(x), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
