"""F19: with `ceil_mode`, a window that would begin behind the input does not count: no row of -inf."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.bugs.front_ends import through_torch_compile


def test_kernel_of_one_and_stride_two() -> None:
    program = through_torch_compile(lambda x: F.max_pool2d(x, 1, 2, ceil_mode=True))
    for height, width in ((6, 7), (7, 6), (1, 1), (5, 2)):
        x = torch.randn(1, 1, height, width)
        got = program(x)
        assert got.shape == (1, 1, -(-height // 2), -(-width // 2))
        assert torch.equal(got, x[..., ::2, ::2])


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 3, 1), (3, 2, 1), (3, 4, 0), (2, 2, 0)])
def test_neighbours(kernel: int, stride: int, padding: int) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pools = (F.max_pool2d, F.avg_pool2d)
        return tuple(pool(x, kernel, stride, padding, ceil_mode=ceil) for pool in pools for ceil in (True, False))

    program = through_torch_compile(f)
    for height, width in ((6, 7), (7, 6), (3, 3), (9, 4)):
        x = torch.randn(2, 3, height, width)
        for got, expected in zip(program(x), f(x), strict=True):
            torch.testing.assert_close(got, expected)
