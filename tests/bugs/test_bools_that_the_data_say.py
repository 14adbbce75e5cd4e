"""A bool or a float of the data is a result and a part of Python's arithmetic, as integers are; a branch on one is an error at its line."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.support.errors import ExportError, GuardError

Function = Callable[[Tensor], Any]

FUNCTIONS: dict[str, Function] = {
    "result": lambda x: (_any(x), torch.sym_not(_any(x))),
    "factor": lambda x: x * _any(x),
    "filled": lambda x: torch.where(torch.full((), _any(x)), x, -x),
    "chosen": lambda x: x + torch.sym_ite(_any(x), 2, 3),
    "joined": lambda x: (_any(x) & _all(x), _any(x) | _all(x), _any(x) == _all(x)),
    "compared": lambda x: (x.sum().item() > 1, x.long().sum().item() > 1),
    "floats": lambda x: (x.sum().item() * 2 - 1, x * (x.sum().item() + x.shape[0]), -x.sum().item() / 3),
    "integers": lambda x: (x.long().sum().item() // 3, x.long().sum().item() % 3, x.long().sum().item() * 1.5),
}


def _any(x: Tensor) -> Any:
    return (x > 0).any().item()


def _all(x: Tensor) -> Any:
    return (x > 0).all().item()


class _Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Any:
        return self._function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_in_eager_mode(name: str) -> None:
    model = _Applied(FUNCTIONS[name])
    program = anyshape.compile(model, (torch.randn(3),))
    for x in (torch.ones(4), -torch.ones(5), torch.zeros(0), torch.tensor([5.0, -3.0, 0.5])):
        _check(program(x), model(x))


def _check(got: Any, expected: Any) -> None:
    assert type(got) is type(expected)
    if isinstance(expected, tuple):
        for one, other in zip(got, expected, strict=True):
            _check(one, other)
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(got, expected)
    else:
        assert got == pytest.approx(expected)


@pytest.mark.parametrize("operation", (operator.floordiv, operator.mod, operator.truediv))
def test_a_division_by_zero_is_an_error(operation: Callable[[Any, Any], Any]) -> None:
    program = anyshape.compile(
        _Applied(lambda x: x * operation(7, x.sum().item())), (torch.ones(3, dtype=torch.int64),)
    )
    ones = torch.ones(2, dtype=torch.int64)
    assert program(ones).tolist() == [operation(7, 2)] * 2
    with pytest.raises(GuardError, match="division by zero"):
        program(ones * 0)


def test_what_is_checked_is_checked() -> None:
    def positive(x: Tensor) -> Tensor:
        torch._check(_any(x))
        return x + 1

    program = anyshape.compile(_Applied(positive), (torch.randn(3),))
    assert program(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(GuardError, match=r"test_bools_that_the_data_say\.py"):
        program(-torch.ones(2))


def test_a_branch_is_an_error_at_its_line() -> None:
    def branches(x: Tensor) -> Tensor:
        if (x > 0).any():
            return x + 1
        return x - 1

    with pytest.raises(ExportError, match=r"test_bools_that_the_data_say\.py:\d+: if \(x > 0\)\.any\(\):") as error:
        anyshape.compile(_Applied(branches), (torch.randn(3),))
    assert "torch.where" in str(error.value)
