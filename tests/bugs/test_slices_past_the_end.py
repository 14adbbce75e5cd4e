"""A slice with a constant bound takes what there is, as eager does, where the axis is shorter than the bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

SLICES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "first": (lambda x: x[:3] * 2, 2),
    "last": (lambda x: x[-2:] * 2, 1),
    "inner": (lambda x: x[2:4] * 2, 3),
    "rest": (lambda x: x[1:] * 2, 0),
    "but the last": (lambda x: x[:-1] * 2, 0),
    "without both ends": (lambda x: x[1:-1] + 1, 1),
    "differences": (lambda x: x[1:] - x[:-1], 1),
    "second differences": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], 2),
    "rest of the rest": (lambda x: x[1:][1:] + 1, 1),
    "every other but the last": (lambda x: x[:-1:2] + 1, 1),
    "from both ends": (lambda x: x[-3:2] + 1, 2),
    "blocks of the rest": (lambda x: x[1:].reshape(-1, 2, 2).sum(1), 1),
}


@pytest.mark.parametrize("kind", SLICES)
def test_long_enough(kind: str) -> None:
    f, _ = SLICES[kind]
    program = compiled(f, torch.randn(5, 4))
    for rows in (4, 5, 9):
        check(program, f, torch.randn(rows, 4))


@pytest.mark.parametrize("kind", SLICES)
def test_shorter_than_the_bound(kind: str) -> None:
    f, rows = SLICES[kind]
    for example in (2, 5):
        program = compiled(f, torch.randn(example, 4))
        for fewer in range(rows + 1):
            check(program, f, torch.randn(fewer, 4))


@pytest.mark.parametrize("example", (0, 1))
def test_an_example_that_is_shorter(example: int) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[1:] - x[:-1], x[:3].exp()

    program = compiled(f, torch.randn(example, 4))
    for rows in (0, 1, 2, 7):
        check(program, f, torch.randn(rows, 4))


def test_one_element_is_asked_for() -> None:
    """An axis of size 1 is worth more to nearly all models than the program for none."""
    for f in (lambda x: x[:1] * 2, lambda x: x[-1:] * 2):
        program = compiled(f, torch.randn(5, 4))
        check(program, f, torch.randn(1, 4))
        with pytest.raises(GuardError, match="axis 0"):
            program(torch.randn(0, 4))


def test_narrow_does_not_clamp() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.narrow(0, 1, 3) * 2

    program = compiled(f, torch.randn(5, 4))
    check(program, f, torch.randn(4, 4))
    with pytest.raises(GuardError, match="axis 0"):
        program(torch.randn(3, 4))
