"""`torch.special.zeta` had no lowering."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math

import pytest
import torch

from tests.end_to_end.eager import check, compiled


def zeta(s: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.special.zeta(s, q), torch.special.zeta(2.0, q), torch.special.zeta(s, 3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_over_the_range(dtype: torch.dtype) -> None:
    program = compiled(zeta, torch.rand(3, dtype=dtype) + 2, torch.rand(3, dtype=dtype))
    # Powers of 300 come near 0, where results are this far apart.
    subnormal = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    for least, most in ((1.01, 3.0), (1.5, 12.0), (20.0, 80.0)):
        for low, high in ((0.05, 2.0), (1.0, 300.0)):
            s, q = (torch.rand(200, dtype=dtype) * (b - a) + a for a, b in ((least, most), (low, high)))
            finite = torch.special.zeta(s, q).abs() < 1e30
            for got, expected in zip(program(s[finite], q[finite]), zeta(s[finite], q[finite]), strict=True):
                rtol = 2e-5 if dtype == torch.float32 else 1e-13
                torch.testing.assert_close(got, expected, rtol=rtol, atol=2 * subnormal)
    check(program, zeta, torch.rand(0, dtype=dtype), torch.rand(0, dtype=dtype))


def test_below_zero_and_at_the_ends() -> None:
    inf, nan = math.inf, math.nan
    s, q = zip(
        *((s, q) for s in (1.0, 0.5, 2.0, 3.0, 2.5, 7.0, nan, -inf) for q in (0.0, -0.0, -1.0, -0.5, -2.75, -100.5, -inf, nan, 1.0, 0.3)),
        *((inf, q) for q in (1.0, 0.5, -1.5)),
        (1e300, 1.0), (3.0, 1e-200), (2.0, 1e300), (1e300, -1.5), strict=True,
    )  # fmt: skip
    program = compiled(torch.special.zeta, torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64))
    check(program, torch.special.zeta, *(torch.tensor(each, dtype=torch.float64) for each in (s, q)))


def test_integers_are_promoted() -> None:
    s, q = torch.arange(6).unsqueeze(1), torch.arange(-3, 5)
    check(compiled(torch.special.zeta, s, q), torch.special.zeta, s, q)
