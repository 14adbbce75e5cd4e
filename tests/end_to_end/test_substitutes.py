"""Functions that export cannot take by itself: losses that ask their data, histograms; reductions of segments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import assert_same, compiled


def test_negative_variances_are_refused_when_they_come() -> None:
    program = compiled(functional.gaussian_nll_loss, torch.randn(2, 3), torch.randn(2, 3), torch.rand(2, 3))
    for rows in (1, 5):
        call = torch.randn(rows, 4), torch.randn(rows, 4), torch.rand(rows, 4)
        assert_same(program(*call), functional.gaussian_nll_loss(*call))
    with pytest.raises(GuardError, match="negative variances"):
        program(torch.zeros(1, 1), torch.zeros(1, 1), -torch.ones(1, 1))


@pytest.mark.parametrize("density", [False, True])
def test_histograms(density: bool) -> None:
    def by_number(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.histogram(x, 4, density=density))

    def by_edges(x: Tensor, edges: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.histogram(x, edges, weight=weight, density=density))

    program, with_edges = (
        compiled(by_number, torch.randn(7)),
        compiled(by_edges, torch.randn(7), torch.arange(3.0), torch.rand(7)),
    )
    for count in (20, 1, 33):
        x, weight = torch.randn(count), torch.rand(count)
        assert_same(program(x), by_number(x))
        for edges in (torch.tensor([-2.0, -1.0, 0.0, 1.5]), torch.tensor([0.0, 9.0])):
            assert_same(with_edges(x, edges, weight), by_edges(x, edges, weight))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str) -> None:
    def reduced(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.segment_reduce(x, reduce, lengths=lengths)

    program = compiled(reduced, torch.randn(6, 3), torch.tensor([1, 2, 3]))
    for lengths in ([3, 0, 4], [5], [0, 0, 2, 0]):
        x = torch.randn(sum(lengths), 2)
        assert_same(program(x, torch.tensor(lengths)), reduced(x, torch.tensor(lengths)))
    with pytest.raises(GuardError, match="wrong lengths"):
        program(torch.randn(4, 2), torch.tensor([1, 2]))
