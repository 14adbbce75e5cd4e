"""A convolution with `padding="same"`: PyTorch checks that its two paddings do not overflow, which is no condition on sizes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.bugs.front_ends import through_torch_compile
from tests.end_to_end.eager import assert_same, check, compiled


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_filter_of_any_size(dilation: int) -> None:
    def f(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, weight, padding="same", dilation=dilation)

    program, plugged = compiled(f, torch.randn(2, 3, 8), torch.randn(4, 3, 3)), through_torch_compile(f)
    for batch, length, width in ((1, 9, 3), (3, 5, 5), (2, 12, 1)):
        x, weight = torch.randn(batch, 3, length), torch.randn(4, 3, width)
        check(program, f, x, weight)
        assert_same(plugged(x, weight), f(x, weight))
