"""sign: 0 of NaN and of both zeros, as eager; infinities and denormals have their sign."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_sign(dtype: torch.dtype) -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-7, -1e-7, 3.0, -3.0], dtype=dtype)
    check(compiled(torch.sign, x), torch.sign, x)
