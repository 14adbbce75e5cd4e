"""n % (k - 4), where the divisor may be negative or 0: Python's value, or an error where Python has one."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

Function = Callable[[int, int], Any]
DIVISIONS: tuple[tuple[Function, int], ...] = (
    (lambda n, k: n % (k - 4), 4),
    (lambda n, k: n % (k - 1), 1),
    (lambda n, k: n % (4 - k), 4),
    (lambda n, k: n // (k - 4), 4),
    (lambda n, k: n // (k - 4) // 2, 4),
    (lambda n, k: divmod(n, k - 3), 3),
    (lambda n, k: math.ceil(n / (k - 4)), 4),
    (lambda n, k: math.floor(n / (k - 4)), 4),
    (lambda n, k: math.trunc(n / (k - 4)), 4),
    (lambda n, k: round(n / (k - 4)), 4),
    (lambda n, k: n % k, 0),
    (lambda n, k: n // k, 0),
    (lambda n, k: n / k, 0),
    (lambda n, k: 100 % k, 0),
    (lambda n, k: 100 // k, 0),
    (lambda n, k: n * k // k, 0),
    (lambda n, k: k // k, 0),
    (lambda n, k: n % (k % 3 + k), 0),
)
"""What is computed, and the k for which Python divides by zero."""


@pytest.mark.parametrize(("divide", "pole"), DIVISIONS, ids=lambda each: str(each) if isinstance(each, int) else "")
def test_divisors_of_any_sign(divide: Function, pole: int) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, torch.Tensor]:
        found = divide(x.shape[0], y.shape[0])
        number = sum(found) if isinstance(found, tuple) else found
        return found, torch.arange(3) * number

    program = compiled(f, torch.zeros(6), torch.zeros(7))
    for n in (0, 1, 6, 7, 11, 4097):
        for k in range(9):
            if k != pole:
                check(program, f, torch.zeros(n), torch.zeros(k))
                continue
            with pytest.raises(ZeroDivisionError):
                f(torch.zeros(n), torch.zeros(k))
            with pytest.raises(GuardError, match=r"allowed only if d0.* != \d.*a division in Python, .*\.py:\d+"):
                program(torch.zeros(n), torch.zeros(k))


def test_shapes_from_such_a_remainder() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.new_ones(x.shape[0] % (y.shape[0] - 4) + 9)

    program = compiled(f, torch.zeros(6), torch.zeros(7))
    for n in (0, 1, 5, 100):
        for k in (0, 1, 2, 3, 5, 6, 33):
            check(program, f, torch.zeros(n), torch.zeros(k))


@pytest.mark.parametrize("divisor", (-3, -1))
def test_quotients_of_quotients_by_negatives(divisor: int) -> None:
    """PyTorch takes n // 2 // -3 for n // -6, which is another number for odd n."""

    def f(x: torch.Tensor) -> int:
        return x.shape[0] // 2 // divisor

    program = compiled(f, torch.zeros(6))
    refused = 0
    for n in range(14):
        try:
            check(program, f, torch.zeros(n))
        except GuardError:
            refused += 1
    assert refused <= 8


def test_a_remainder_by_a_sum_with_nothing() -> None:
    """k % (k + n) is k, unless n is 0."""

    def f(x: torch.Tensor, y: torch.Tensor) -> int:
        return y.shape[0] % (y.shape[0] + x.shape[0])

    program = compiled(f, torch.zeros(6), torch.zeros(7))
    for n, k in ((6, 7), (0, 7), (0, 1), (1, 0), (3, 0), (2, 2)):
        check(program, f, torch.zeros(n), torch.zeros(k))
    with pytest.raises(GuardError, match="division in Python"):
        program(torch.zeros(0), torch.zeros(0))


def test_a_size_that_the_data_say() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        chosen = x[x > 0]
        return chosen * (x.shape[0] // chosen.shape[0])

    program = compiled(f, torch.tensor([1.0, -1.0, 2.0]))
    check(program, f, torch.tensor([1.0, -1.0, -2.0, -3.0]))
    with pytest.raises(GuardError, match="!= 0"):
        program(-torch.ones(3))
