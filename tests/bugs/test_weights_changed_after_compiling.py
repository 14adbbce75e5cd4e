"""Weights are constants: what is done to the model after it was compiled does not show, neither wholly nor in part."""

import torch
from torch import nn

from tests.end_to_end.eager import compiled


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.linear = nn.Linear(8, 5)
        self.norm = nn.LayerNorm(5)
        self.register_buffer("shift", torch.ones(5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(self.table(tokens))) + self.shift


def test_weights_changed_in_place() -> None:
    torch.manual_seed(0)
    module = Layers().eval()
    program = compiled(module, torch.zeros(2, dtype=torch.int64))
    tokens = torch.arange(11)
    before = program(tokens)
    torch.testing.assert_close(before, module(tokens).detach())
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.add_(1.0)
    assert not torch.allclose(module(tokens), before)
    assert torch.equal(program(tokens), before)
