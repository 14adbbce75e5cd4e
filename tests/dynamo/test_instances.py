"""TorchDynamo hands a model over again for sizes of 0 and 1: the program that is there serves these graphs too."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnusedFunction=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from anyshape.codegen.llvm import objects_emitted
from anyshape.driver.dynamo import backend


class Block(nn.Module):
    """Attention, normalisation and a product, with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return x + self.out(y.transpose(1, 2).flatten(2))


MODELS: dict[str, tuple[nn.Module, Callable[[int, int], tuple[torch.Tensor, ...]]]] = {
    "perceptron": (
        nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8)),
        lambda rows, columns: (torch.randn(rows, columns, 6),),
    ),
    "attention": (
        Block(),
        lambda rows, columns: (torch.randn(rows, columns, 16), torch.ones(rows, columns, dtype=torch.bool)),
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_of_one_emit_nothing(kind: str) -> None:
    model, inputs = MODELS[kind]
    program = torch.compile(model.eval(), backend=backend, dynamic=True)
    emitted: list[int] = []
    for sizes in ((3, 5), (1, 7), (4, 9), (1, 1)):
        before, args = objects_emitted(), inputs(*sizes)
        torch.testing.assert_close(program(*args), model(*args), rtol=2e-5, atol=2e-5)
        emitted.append(objects_emitted() - before)
    assert emitted[0] > 0
    assert emitted[1:] == [0, 0, 0]


def test_another_computation_is_another_program() -> None:
    """The same inputs and outputs, and one op that differs."""
    x = torch.randn(3, 5)
    for f in (torch.sin, torch.cos):
        program = torch.compile(lambda x, f=f: f(x) + 1, backend=backend, dynamic=True)
        for rows in (3, 1):
            torch.testing.assert_close(program(x[:rows]), f(x[:rows]) + 1)
