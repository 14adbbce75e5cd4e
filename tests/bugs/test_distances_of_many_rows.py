"""`torch.cdist` takes a product from 26 rows on: a program compiled from fewer was refused more."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("rows", [4, 30])
def test_rows_are_free(rows: int) -> None:
    def nearest(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cdist(a, b), torch.cdist(a, b, p=1.0).amin(1)

    program = compiled(nearest, torch.randn(rows, 3), torch.randn(rows + 1, 3))
    assert not any("25" in guard for guard in program.report().guards)
    for m, n in ((1, 2), (0, 3), (7, 26), (65, 64), (30, 1000)):
        check(program, nearest, torch.randn(m, 3), torch.randn(n, 3))
