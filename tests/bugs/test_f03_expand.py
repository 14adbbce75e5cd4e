"""F03: a filled tensor expanded to sizes known at run time has those sizes."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool, torch.float64], ids=str)
def test_full_expanded_by_run_time_sizes(dtype: torch.dtype) -> None:
    def f(batch: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.full((x.shape[0], x.shape[1]), 3, dtype=dtype).expand(batch.shape[0], *x.shape)

    program = compiled(f, torch.zeros(2), torch.zeros(4, 8))
    for count, rows, columns in itertools.product((0, 1, 2, 7), repeat=3):
        check(program, f, torch.zeros(count), torch.zeros(rows, columns))
    assert program(torch.zeros(1), torch.zeros(4, 8)).shape == (1, 4, 8)


def test_inputs_expanded_on_every_axis() -> None:
    def f(x: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = like.shape
        return x[:, None, None].expand(-1, a, b), x[None, :, None].expand(a, -1, b), x.expand(a, b, -1) + 0

    program = compiled(f, torch.randn(3), torch.randn(4, 5))
    for sizes in itertools.product((0, 1, 2, 7), repeat=3):
        check(program, f, torch.randn(sizes[0]), torch.randn(sizes[1:]))
