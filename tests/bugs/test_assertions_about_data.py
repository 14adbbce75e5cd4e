"""What a model asserts of its data is checked at every call, as in eager mode, with the user's message; it used to be dropped."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyshape.support.errors import GuardError
from tests.bugs.front_ends import both_ways
from tests.end_to_end.eager import assert_same, check, compiled


class PositiveRates(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten._assert_async.msg((x > 0).all(), "rates must be positive")
        return x.sqrt()


class Repeated(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        length = n.item()
        torch._check(length >= 2)
        torch._check(length <= 5)
        return x * length


def test_an_assertion_about_a_tensor() -> None:
    module = PositiveRates()
    program = compiled(module, torch.rand(3) + 1)
    check(program, module, torch.rand(5) + 1)
    for error in (RuntimeError, GuardError):
        with pytest.raises(error, match=r"(?s)^rates must be positive\n.*where: +.*test_assertions_about_data\.py:"):
            program(torch.tensor([1.0, -1.0]))
    with pytest.raises(RuntimeError, match="rates must be positive"):
        module(torch.tensor([1.0, -1.0]))
    check(program, module, torch.rand(2) + 1)


def test_several_assertions() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.ops.aten._assert_async.msg((x > 0).all(), "x is positive")
        z = x @ y
        torch.ops.aten._assert_async.msg(z.sum() < 100, "the sum is small")
        return z.sum(0)

    for program in both_ways(f, torch.ones(2, 3), torch.ones(3, 4)).values():
        args = torch.ones(3, 5), torch.ones(5, 2)
        assert_same(program(*args), f(*args))
        with pytest.raises(RuntimeError, match="x is positive"):
            program(-torch.ones(3, 5), torch.ones(5, 2))
        with pytest.raises(RuntimeError, match="the sum is small"):
            program(torch.ones(30, 5), torch.ones(5, 2))


def test_an_assertion_about_a_number_that_data_say() -> None:
    module = Repeated()
    program = compiled(module, torch.rand(4), torch.tensor(3))
    for n in (2, 5):
        check(program, module, torch.rand(3), torch.tensor(n))
    for n in (1, 6):
        with pytest.raises(RuntimeError):
            module(torch.rand(3), torch.tensor(n))
        with pytest.raises(GuardError, match=rf"test_assertions_about_data\.py.*got size {n}"):
            program(torch.rand(3), torch.tensor(n))
