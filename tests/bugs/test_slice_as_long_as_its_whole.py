"""Joining v[:, :2] with v along other axes says that the slice is as long as v: the size was replaced by the slice's length, which is
computed from it, without end. Found by nnsmith."""

import pytest
import torch

from anyshape import GuardError
from tests.end_to_end.eager import check, compiled


def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    chosen = torch.where(mask, torch.ones(2, 2, 1, 1, dtype=torch.int16), x)
    places = chosen.argmax(2)
    return torch.cat([places[:, :, 0:2], places], dim=0)


def test_up_to_the_slice() -> None:
    program = compiled(f, torch.ones(5, 1, dtype=torch.int16), torch.ones(1, 1, 1, 2, dtype=torch.bool))
    for rows in (1, 2, 7):
        for columns in (1, 2):
            x = torch.randint(-9, 9, (rows, 1), dtype=torch.int16)
            check(program, f, x, torch.rand(1, 1, 1, columns) > 0.5)
    with pytest.raises(GuardError, match="<= 2"):
        program(torch.ones(5, 1, dtype=torch.int16), torch.ones(1, 1, 1, 3, dtype=torch.bool))
