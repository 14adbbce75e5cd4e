"""F11: floor division, remainder and fmod with every pair of signs, in integers and floats."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


def divisions(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x // y,
        x % y,
        torch.fmod(x, y),
        torch.div(x, y, rounding_mode="floor"),
        x / y,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.float32, torch.float64], ids=str)
def test_every_pair_of_signs(dtype: torch.dtype) -> None:
    x, y = torch.tensor([7, -7, 7, -7], dtype=dtype), torch.tensor([3, 3, -3, -3], dtype=dtype)
    program = compiled(divisions, x, y)
    floor, remainder, rest, *_ = program(x, y)
    assert floor.tolist() == [2, -3, -3, 2]
    assert remainder.tolist() == [1, 2, -2, -1]
    assert rest.tolist() == [1, -1, 1, -1]
    values = torch.arange(-9, 10)
    a, b = torch.meshgrid(values, values[values != 0], indexing="ij")
    a, b = a.reshape(-1).to(dtype), b.reshape(-1).to(dtype)
    check(program, divisions, a, b)
    check(program, divisions, a[:1], b[:1])


def test_unsigned() -> None:
    x, y = torch.tensor([7, 250, 255, 0], dtype=torch.uint8), torch.tensor([3, 7, 255, 200], dtype=torch.uint8)
    check(compiled(divisions, x, y), divisions, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floats_whose_quotient_rounds_up(dtype: torch.dtype) -> None:
    """1.0 / 0.1 rounds to 10, but the floor of the exact quotient is 9."""
    x = torch.tensor([1.0, 0.0, -0.0, 1.0, float("inf"), float("nan"), -1.0, 1e30], dtype=dtype)
    y = torch.tensor([0.1, 0.0, 3.0, float("inf"), 2.0, 1.0, 0.1, 7.0], dtype=dtype)
    program = compiled(divisions, x, y)
    assert program(x[:1], y[:1])[0].tolist() == [9.0]
    check(program, divisions, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_towards_zero(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.div(x, y, rounding_mode="trunc")

    x, y = torch.tensor([7, -7, 7, -7, 6, 0.5], dtype=dtype), torch.tensor([3, 3, -3, -3, 2, -1], dtype=dtype)
    check(compiled(f, x, y), f, x, y)


def test_by_a_number() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // 3, x % -3, torch.fmod(x, 3), x // -2

    for dtype in (torch.int64, torch.float32):
        x = torch.tensor([7, -7, 1, -1, 3, -3, 40], dtype=dtype)
        check(compiled(f, x), f, x)
