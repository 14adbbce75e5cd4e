"""`logsumexp` over no elements, and over infinite ones, is what PyTorch says."""

from __future__ import annotations

import torch

from tests.end_to_end.eager import check, compiled

INFINITE = float("inf")


def test_nothing_and_infinities() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.logsumexp(0), x.logsumexp(1, keepdim=True), x.logsumexp((0, 1))

    program = compiled(f, torch.randn(3, 4))
    for rows, columns in ((0, 3), (3, 0), (0, 0), (1, 1), (5, 7)):
        check(program, f, torch.randn(rows, columns))
    check(program, f, torch.tensor([[-INFINITE, -INFINITE], [-INFINITE, 1.0]]))
    check(program, f, torch.tensor([[INFINITE, -INFINITE], [INFINITE, float("nan")]]))
