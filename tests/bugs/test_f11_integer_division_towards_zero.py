"""F11: integer division that rounds towards zero, and the remainder of a number by a tensor."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


def divisions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.div(x, 3, rounding_mode="trunc"),
        torch.div(x, -2, rounding_mode="trunc"),
        torch.div(x, x.flip(0), rounding_mode="trunc"),
        7 % x,
        -7 % x,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
def test_every_pair_of_signs(dtype: torch.dtype) -> None:
    x = torch.tensor([7, -7, 1, -1, 3, -3, 40], dtype=dtype)
    program = compiled(divisions, x)
    assert program(x)[0].tolist() == [2, -2, 0, 0, 1, -1, 13]
    assert program(x)[3].tolist() == [0, 0, 0, 0, 1, -2, 7]
    check(program, divisions, x)
    check(program, divisions, x[:1])


def test_unsigned() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.div(x, y, rounding_mode="trunc"), 200 % x

    x, y = torch.tensor([7, 250, 255, 1], dtype=torch.uint8), torch.tensor([3, 7, 255, 200], dtype=torch.uint8)
    check(compiled(f, x, y), f, x, y)


def test_the_quotient_that_overflows() -> None:
    """The least integer by −1 has no quotient: it wraps to itself and never traps."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.div(x, y, rounding_mode="trunc")

    low = torch.iinfo(torch.int32).min
    x, y = torch.tensor([low, low, 5], dtype=torch.int32), torch.tensor([-1, 1, -1], dtype=torch.int32)
    assert compiled(f, x, y)(x, y).tolist() == [low, low, -5]
