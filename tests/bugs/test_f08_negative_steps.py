"""F08: slices with negative steps, which PyTorch says by `flip`: 9:0:-1, 9:2:-1, 9:0:-3 on either axis, 19:0:-3 of 20."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import check_both_ways

CASES = {"9:0:-1": (1, 1), "9:2:-1": (3, 1), "9:0:-3": (1, 3)}
"""How many elements at the end are left out, and the step."""


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_matrices(name: str, axis: int) -> None:
    left_out, step = CASES[name]

    def f(x: torch.Tensor) -> torch.Tensor:
        return (
            x.flip(axis)
            .narrow(axis, 0, x.shape[axis] - left_out)
            .index_select(axis, torch.arange(0, x.shape[axis] - left_out, step))
        )

    check_both_ways(f, *((torch.arange(n * m).view(n, m),) for n, m in ((10, 10), (20, 4), (4, 20), (7, 5))))


def test_a_vector() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.flip(0)[:-1], x.flip(0)[:-3], x.flip(0)[:-1:3]

    program_calls = [(torch.arange(n),) for n in (10, 20, 4, 5)]
    check_both_ways(f, *program_calls)
    assert f(torch.arange(10))[2].tolist() == [9, 6, 3]
