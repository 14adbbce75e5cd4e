"""F09: arithmetic wraps in its own width before the result is widened, also when both steps are one kernel."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled

WIDENED = [
    (torch.uint8, torch.int16),
    (torch.uint8, torch.float32),
    (torch.int8, torch.int64),
    (torch.int16, torch.int32),
    (torch.int32, torch.int64),
    (torch.int32, torch.float64),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDENED, ids=str)
def test_sums_products_and_differences(narrow: torch.dtype, wide: torch.dtype) -> None:
    limits = torch.iinfo(narrow)
    values = torch.tensor([limits.max, limits.min, limits.max // 2 + 1, 3, 1, 0, limits.max - 1], dtype=narrow)

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x + y).to(wide), (x * y).to(wide), (x - y).to(wide), (x + y).to(wide) + 1, (-x).to(wide)

    program = compiled(f, values, values)
    for size in (1, 2, 7):
        check(program, f, values[:size], values[:size])
        check(program, f, values.flip(0)[:size], values[:size])
    doubled = program(torch.full((1,), limits.max, dtype=narrow), torch.full((1,), limits.max, dtype=narrow))[0]
    assert doubled.item() == 2 * limits.max - (1 << limits.bits)


def test_the_case_itself() -> None:
    program = compiled(lambda x: (x + x).to(torch.int16), torch.zeros(3, dtype=torch.uint8))
    assert program(torch.tensor([128], dtype=torch.uint8)).tolist() == [0]
