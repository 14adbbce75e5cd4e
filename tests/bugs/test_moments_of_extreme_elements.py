"""Variances and deviations of f32 and bf16 overflowed where squares do in f32, and vanished below its smallest square."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import compiled


def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.var(1),
        x.std(1),
        x.var(0),
        x.std(0, unbiased=False),
        x.std(),
        torch.var_mean(x, 1)[0],
        x.std((0, 1)),
        torch.std_mean(x, 1)[0],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [1e18, 1e19, 1e20, 1e34, 1.0, 1e-19, 1e-20, 1e-30])
def test_moments(dtype: torch.dtype, scale: float) -> None:
    program = compiled(moments, torch.randn(3, 4).to(dtype))
    for shape in ((5, 1001), (2, 2), (1, 33)):
        x = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * scale).to(dtype)
        limit = 8e-3 if dtype == torch.bfloat16 else 1e-5
        for got, expected in zip(program(x), moments(x), strict=True):
            torch.testing.assert_close(got, expected, rtol=limit, atol=1e-44, equal_nan=True)
