"""F04: a program compiled from an example of batch 1, or 0, runs at batch 5."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.end_to_end.eager import check, compiled


class Flattened(nn.Module):
    """The batch goes through reshapes, a product and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        flat = self.linear(x.reshape(batch * length, 6))
        return flat.reshape(batch, length, 4).amax(-1).softmax(-1)


@pytest.mark.parametrize("batch", [1, 0])
@pytest.mark.parametrize("length", [1, 3])
def test_example_of_batch_one(batch: int, length: int) -> None:
    module = Flattened().eval()
    program = compiled(module, torch.randn(batch, length, 6))
    for shape in ((5, 3), (1, 1), (1, 7), (7, 1), (33, 2)):
        check(program, module, torch.randn(*shape, 6))
