"""Sizes that are equal by the op's own contract, and that two expressions say, do not keep an op from being compiled."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_a_transposed_convolution(groups: int) -> None:
    def f(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, weight, stride=2, groups=groups)

    def arguments(batch: int, channels: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(batch, channels, 5, width), torch.randn(channels, 3, 2, 3)

    program = compiled(f, *arguments(2, 8, 4))
    for batch, channels, width in ((1, 4, 6), (3, 8, 1), (2, 12, 7)):
        check(program, f, *arguments(batch, channels, width))


def test_running_statistics_of_a_batch_norm() -> None:
    def f(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ops.aten._native_batch_norm_legit_functional(x, None, None, mean, variance, True, 0.1, 1e-5)

    def arguments(batch: int, channels: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(batch, channels, 4), torch.randn(channels), torch.rand(channels)

    program = compiled(f, *arguments(3, 5))
    for batch, channels in ((2, 5), (4, 1), (3, 7)):
        check(program, f, *arguments(batch, channels))
