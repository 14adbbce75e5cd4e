"""F26: `any` and `all` of u8 stay u8 in PyTorch, and arithmetic on them wraps in u8."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


def test_any_of_u8_stays_u8() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.any() * 200 + 100, x.any(-1) * 200 + 100

    program = compiled(f, torch.ones(2, 3, dtype=torch.uint8))
    got = program(torch.tensor([[0, 7], [0, 0]], dtype=torch.uint8))
    assert got[0].dtype == torch.uint8 and got[0].item() == 44
    for shape in ((1, 1), (7, 2), (2, 33)):
        check(program, f, torch.randint(0, 2, shape, dtype=torch.uint8) * 5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.float32], ids=str)
def test_other_dtypes_give_bool(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.any(-1), x.all(-1), x.any(), x.all(0), x.any(-1).long() * 200 + 100

    program = compiled(f, torch.ones(2, 3).to(dtype))
    for shape in ((1, 1), (7, 2), (2, 33), (3, 0)):
        check(program, f, torch.randint(0, 2, shape).to(dtype))
