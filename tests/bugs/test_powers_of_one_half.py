"""f16 is raised to ±½ by C's `pow` in PyTorch, by roots in the other dtypes: they differ at −∞ and −0."""

from __future__ import annotations

import math

import pytest
import torch

from tests.end_to_end.eager import compiled

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, -1.5, 2.5])
def test_powers(dtype: torch.dtype, exponent: float) -> None:
    def powers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x**exponent, x ** torch.full_like(x, exponent), torch.copysign(torch.ones_like(x), x**exponent)

    program = compiled(powers, torch.randn(3).to(dtype))
    for values in ([-INF, -0.0, 0.0, INF, NAN, -4.0, 4.0, 0.25] * 9, [-INF], [-0.0], [4.0], []):
        x = torch.tensor(values).to(dtype)
        got, expected = program(x), powers(x)
        for ours, eager in zip(got[:2], expected[:2], strict=True):
            torch.testing.assert_close(ours, eager, equal_nan=True)
        defined = ~expected[0].isnan()
        assert torch.equal(got[2][defined], expected[2][defined])
