"""TorchDynamo hands a model over again for sizes of 0 and 1: the program that is there serves these graphs too."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnusedFunction=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import anyshape
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


def positions(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows of a table by position, for each of a batch."""
    ids = torch.arange(x.shape[1]).unsqueeze(0).repeat(x.shape[0], 1)
    return x + table[ids]


def test_rows_by_position() -> None:
    table = torch.randn(9, 4)
    program = torch.compile(positions, backend=backend, dynamic=True, options={"strict": True})
    emitted: list[int] = []
    for batch, length in ((2, 5), (1, 7), (3, 1), (1, 1)):
        before, x = objects_emitted(), torch.randn(batch, length, 4)
        assert torch.equal(program(x, table), positions(x, table))
        emitted.append(objects_emitted() - before)
    assert emitted[0] > 0
    assert emitted[1:] == [0, 0, 0]


def weighted(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x * mask[: x.shape[0]].sum(-1, keepdim=True)


def test_sizes_that_happen_to_be_equal() -> None:
    """Sizes that are equal at first are one to TorchDynamo, but not in the graph for one column: it serves both ways to call it."""
    program = torch.compile(weighted, backend=backend, dynamic=True)
    emitted: list[int] = []
    for rows, columns, masks in ((3, 5, 3), (4, 1, 4), (6, 1, 6), (4, 1, 7), (2, 1, 5), (2, 1, 2)):
        before, args = objects_emitted(), (torch.randn(rows, columns), torch.rand(masks, columns))
        torch.testing.assert_close(program(*args), weighted(*args))
        emitted.append(objects_emitted() - before)
    assert [count > 0 for count in emitted] == [True, False, False, True, False, False]
    assert [graph.shared for graph in anyshape.report().graphs] == [0, 1]
    assert not anyshape.report().remarks


class Strided(nn.Module):
    """Ops between convolutions, whose sizes follow from a size that is none of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(torch.relu(self.first(x)) + 1)).sum((2, 3))


def test_sizes_that_follow_from_others() -> None:
    model = Strided().eval()
    program = torch.compile(model, backend=backend, dynamic=True)
    emitted: list[int] = []
    for sizes in ((3, 12), (1, 14), (4, 9), (1, 9)):
        before, x = objects_emitted(), torch.randn(sizes[0], 2, sizes[1], sizes[1])
        torch.testing.assert_close(program(x), model(x), rtol=2e-5, atol=2e-5)
        emitted.append(objects_emitted() - before)
    assert emitted[0] > 0
    assert emitted[1:] == [0, 0, 0]
    assert [graph.shared for graph in anyshape.report().graphs][1:] == [1]


def test_another_computation_is_another_program() -> None:
    """The same inputs and outputs, and one op that differs."""
    x = torch.randn(3, 5)
    for f in (torch.sin, torch.cos):
        program = torch.compile(lambda x, f=f: f(x) + 1, backend=backend, dynamic=True)
        for rows in (3, 1):
            torch.testing.assert_close(program(x[:rows]), f(x[:rows]) + 1)
