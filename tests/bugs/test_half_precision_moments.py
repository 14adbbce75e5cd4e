"""Sums of squares of f16 and bf16 are kept in f32: in f16 itself they overflow at 65504 and vanish below 6e-8."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.end_to_end.eager import check, compiled


def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.var(1),
        x.std(1),
        x.var(1, unbiased=False),
        *torch.var_mean(x, 1),
        torch.linalg.vector_norm(x, dim=1),
        F.normalize(x, dim=1),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("width", "scale"), [(70_001, 1.0), (33, 200.0), (33, 1e-3)])
def test_moments(dtype: torch.dtype, width: int, scale: float) -> None:
    x = (torch.randn(2, width, generator=torch.Generator().manual_seed(0)) * scale).to(dtype)
    check(compiled(moments, x[:, :4]), moments, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_default_epsilon_of_rms_norm(dtype: torch.dtype) -> None:
    def rms(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (3,))

    x = torch.tensor([[0.03, -0.02, 0.01], [1.0, 2.0, 3.0]], dtype=dtype)
    check(compiled(rms, x), rms, x)
