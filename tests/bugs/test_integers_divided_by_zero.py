"""Integers are divided by no zero: the call is refused where eager raises, and what is known to be none is not looked at."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

Function = Callable[..., Any]

DIVISIONS: dict[str, Function] = {
    "floor_divide": torch.floor_divide,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}
DTYPES = (torch.uint8, torch.int16, torch.int64)


def _as_in_eager(program: Function, function: Function, *args: Tensor) -> None:
    """Both calls raise RuntimeError, or the values are eager's."""
    try:
        function(*args)
    except RuntimeError as error:
        assert str(error) == "ZeroDivisionError"
        with pytest.raises(GuardError, match="ZeroDivisionError") as caught:
            program(*args)
        assert isinstance(caught.value, RuntimeError)
    else:
        check(program, function, *args)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_by_tensors(name: str, dtype: torch.dtype) -> None:
    divide = DIVISIONS[name]
    program = compiled(divide, torch.ones(3, 4, dtype=dtype), torch.ones(4, dtype=dtype))
    for rows, columns in ((3, 4), (1, 5), (0, 5), (3, 0), (2, 1), (70, 40)):
        x = torch.arange(rows * columns).reshape(rows, columns).to(dtype)
        y = torch.ones(columns, dtype=dtype) * 3
        _as_in_eager(program, divide, x, y)
        y[-1:] = 0
        _as_in_eager(program, divide, x, y)
        _as_in_eager(program, divide, x, torch.zeros_like(y))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_by_numbers(name: str, dtype: torch.dtype) -> None:
    divide = DIVISIONS[name]
    by_zero, by_scalar = compiled(lambda x: divide(x, 0), torch.ones(3, dtype=dtype)), compiled(divide, *_ones(dtype))
    for size in (0, 1, 5):
        x = torch.ones(size, dtype=dtype)
        _as_in_eager(by_zero, lambda x: divide(x, 0), x)
        _as_in_eager(by_scalar, divide, x, torch.tensor(0, dtype=dtype))
        _as_in_eager(by_scalar, divide, x, torch.tensor(2, dtype=dtype))


def _ones(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.ones(3, dtype=dtype), torch.tensor(1, dtype=dtype)


@pytest.mark.parametrize("name", ["floor_divide", "div_trunc", "remainder"])
def test_of_numbers(name: str) -> None:
    divide = DIVISIONS[name]
    program = compiled(lambda y: divide(7, y), torch.ones(3, dtype=torch.int64))
    for divisors in ([], [0], [1], [3, 0], [2, -2]):
        _as_in_eager(program, lambda y: divide(7, y), torch.tensor(divisors, dtype=torch.int64))


@pytest.mark.parametrize("name", DIVISIONS)
def test_floats_are_divided_by_zero(name: str) -> None:
    divide = DIVISIONS[name]
    program = compiled(divide, torch.ones(3), torch.ones(3))
    for size in (0, 1, 4):
        check(program, divide, torch.ones(size), torch.zeros(size))
    mixed = compiled(divide, torch.ones(3, dtype=torch.int64), torch.ones(3))
    check(mixed, divide, torch.ones(4, dtype=torch.int64), torch.zeros(4))


def test_by_sizes() -> None:
    """A size of the result divides nothing where it is 0; another is looked at."""

    def by_own(x: Tensor) -> Tensor:
        return x // x.shape[0]

    def by_other(x: Tensor, y: Tensor) -> Tensor:
        return x // y.shape[0]

    for dtype in (torch.int64, torch.int32, torch.int8):
        own = compiled(by_own, torch.ones(3, dtype=dtype))
        other = compiled(by_other, torch.ones(3, dtype=dtype), torch.ones(4))
        for size in (0, 1, 5):
            _as_in_eager(own, by_own, torch.ones(size, dtype=dtype))
            for divisor in (0, 1, 2):
                _as_in_eager(other, by_other, torch.ones(size, dtype=dtype), torch.ones(divisor))
    wraps = compiled(by_own, torch.ones(3, dtype=torch.int8))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        by_own(torch.ones(256, dtype=torch.int8))
    with pytest.raises(GuardError):
        wraps(torch.ones(256, dtype=torch.int8))
    check(wraps, by_own, torch.ones(257, dtype=torch.int8))


FREE: dict[str, Callable[[Tensor], Tensor]] = {
    "number": lambda x: x // 3,
    "negative": lambda x: torch.fmod(x, -2),
    "size": lambda x: x % x.shape[0],
    "size in every element": lambda x: x // torch.full_like(x, 7),
    "clamped": lambda x: x // x.clamp(min=1),
    "clamped on both sides": lambda x: x // x.clamp(2, 9),
    "constant": lambda x: x % torch.tensor(5),
}


@pytest.mark.parametrize("name", FREE)
def test_what_is_known_costs_nothing(name: str) -> None:
    function = FREE[name]
    program = compiled(function, torch.arange(4))
    for size in (0, 1, 9):
        check(program, function, torch.arange(size))
    assert program.report().launches == 1


def test_a_check_is_one_sum_of_the_divisors() -> None:
    """A sum of all elements is two kernels, of parts and of their sums, whatever is divided."""
    program = compiled(operator.floordiv, torch.ones(3, 4, dtype=torch.int64), torch.ones(4, dtype=torch.int64))
    program(torch.ones(50, 40, dtype=torch.int64), torch.ones(40, dtype=torch.int64))
    assert program.report().launches == 2 + 1
    scalar = compiled(operator.floordiv, torch.ones(3, dtype=torch.int64), torch.tensor(1))
    scalar(torch.ones(5, dtype=torch.int64), torch.tensor(2))
    assert scalar.report().launches <= 2


def test_facts_are_said() -> None:
    program = compiled(operator.mod, torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64))
    with pytest.raises(GuardError) as caught:
        program(torch.ones(5, dtype=torch.int64), torch.tensor([0, 1, 0, 2, 0]))
    error = caught.value
    assert (error.got, error.expected) == ("3 zeros among the divisors", "none")
    assert "torch.where" in str(error.remedy) and "test_integers_divided_by_zero.py" not in error.message
