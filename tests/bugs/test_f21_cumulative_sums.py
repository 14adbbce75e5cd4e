"""F21: cumsum of a scalar is the scalar; cumsum of a bool is an i64."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import check_both_ways


def test_of_a_scalar() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.tensor(5.0).cumsum(0) + x, x.cumsum(0), x.cumprod(-1)

    check_both_ways(f, (torch.tensor(2.0),), (torch.tensor(float("nan")),))


def test_of_bools() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(0), x.cumsum(-1), x.cumsum(0, dtype=torch.float32)

    check_both_ways(f, *((torch.rand(shape) > 0.5,) for shape in ((3, 5), (0, 4), (1, 1), (300, 2))))


def test_of_small_integers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0)

    check_both_ways(f, *((torch.full((n,), 100, dtype=torch.uint8),) for n in (3, 0, 1, 70)))
