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


class KeepsSeveral(nn.Module):
    """Keeps a tuple of sizes, nested ones, a list that is written to, and one that grows with each call."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: tuple[int, ...] | None = None
        self.latest = [0, 0]
        self.seen: list[int] = []
        self.names = ["kept"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shape = (*x.shape, x.shape[0] * 2)
        self.pairs = [(x.shape[0], x.shape[1])]
        self.latest[0] = x.shape[0]
        self.seen.append(x.shape[1])
        return x.reshape(self.shape[1], self.latest[0])


def test_tuples_and_lists_of_sizes_are_as_before() -> None:
    module = KeepsSeveral().eval()
    latest, seen = module.latest, module.seen
    program = compiled(module, torch.randn(5, 3))
    assert module.shape is None and not hasattr(module, "pairs")
    assert module.latest is latest and latest == [0, 0]
    assert module.seen is seen and seen == []
    assert module.names == ["kept"]
    check(program, module, torch.randn(7, 2))
    assert repr((module.shape, module.pairs, latest, seen)) == "((7, 2, 14), [(7, 2)], [7, 0], [2])"
