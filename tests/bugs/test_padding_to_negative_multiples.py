"""`F.pad` by (−n) mod k cuts n to a multiple where k < 0: it adds nothing."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.end_to_end.eager import check, compiled


def test_a_negative_divisor() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (0, -x.shape[0] % -4))

    program = compiled(f, torch.randn(6))
    for size in (4, 5, 7, 8, 9, 64, 65):
        check(program, f, torch.randn(size))
