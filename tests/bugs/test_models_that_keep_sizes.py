"""A model that stores in itself what it computes from sizes: compiling left a symbol there, and the model broken in eager mode."""

from __future__ import annotations

import torch
from torch import nn

from tests.end_to_end.eager import check, compiled


class Keeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.window = 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] <= self.window:
            self.window = x.shape[0]
        self.last = x.shape[1]
        return x * self.window


def test_attributes_are_as_before() -> None:
    module = Keeps().eval()
    program = compiled(module, torch.randn(5, 3))
    assert module.window == 4 and not hasattr(module, "last")
    check(program, module, torch.randn(7, 2))
    assert type(module.last) is int
