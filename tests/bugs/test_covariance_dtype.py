"""A covariance has the dtype that its weights promote the observations to."""

import pytest
import torch

import anyshape


class _Covariance(torch.nn.Module):
    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return torch.cov(x, aweights=weights)


@pytest.mark.parametrize("dtypes", [(torch.bfloat16, torch.float32), (torch.float32, torch.float64)])
def test_weights_of_a_wider_dtype(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    x, weights = (torch.rand(size, dtype=dtype) + 0.1 for size, dtype in zip(((2, 5), (5,)), dtypes, strict=True))
    program = anyshape.compile(_Covariance(), (x, weights))
    got, expected = program(x, weights), torch.cov(x, aweights=weights)
    assert got.dtype == expected.dtype == dtypes[1]
    torch.testing.assert_close(got, expected, rtol=1e-2 if dtypes[0] == torch.bfloat16 else 1e-5, atol=1e-3)
