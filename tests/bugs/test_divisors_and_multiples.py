"""`torch.gcd` and `torch.lcm` had no lowering; what they give at the least number of a dtype is PyTorch's too."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import check_both_ways
from tests.end_to_end.eager import check, compiled


def both(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.gcd(a, b), torch.lcm(a, b)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_numbers_of_every_width(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    divisors = compiled(torch.gcd, torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype))
    program = compiled(both, torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype))
    fibonacci = [1, 2]
    while fibonacci[-1] + fibonacci[-2] <= limits.max:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    ends = [limits.min, limits.min + 1, 0, 1, 2, 3, 6, limits.max - 1, limits.max, *fibonacci[-3:]]
    signed = [*ends, -1, -2, -9] if limits.min < 0 else ends
    pairs = torch.tensor([(a, b) for a in signed for b in signed], dtype=dtype)
    check(divisors, torch.gcd, pairs[:, 0].contiguous(), pairs[:, 1].contiguous())
    # PyTorch divides the least number by −1 for some multiples of it, and the process ends there.
    pairs = pairs[(pairs > limits.min).all(1)] if limits.min < 0 else pairs
    check(program, both, pairs[:, 0].contiguous(), pairs[:, 1].contiguous())
    for count in (0, 1, 37):
        a, b = (torch.randint(limits.min + 1, limits.max, (count,), dtype=dtype) for _ in range(2))
        check(program, both, a, b)


def test_broadcast_and_promoted() -> None:
    a, b = torch.arange(-6, 6).reshape(3, 4), torch.tensor([4, 6, 9, 0], dtype=torch.int32)
    check_both_ways(both, (a, b), (a[:1], b), (a[:0], b))
