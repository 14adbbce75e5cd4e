"""Whole models through `torch.compile`: values and strides as eager's at every size, one program, and what stays with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTModel,
)

import anyshape
from anyshape.driver import dynamo
from anyshape.driver.dynamo import backend
from anyshape.driver.instances import Instances
from anyshape.driver.remarks import JOURNAL

# PyTorch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

Inputs = Mapping[str, torch.Tensor]

VOCABULARY = 61
SIZES = ((2, 7), (3, 5), (1, 7), (4, 1), (5, 12))
"""Batch and length: general ones, then those for which TorchDynamo makes graphs of their own, then one that needs none."""


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch.compiler.reset()
    counters.clear()
    JOURNAL.clear()
    monkeypatch.setattr(dynamo, "_INSTANCES", Instances())
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def tokens(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(0, VOCABULARY, (batch, length))}


def masked_tokens(batch: int, length: int) -> Inputs:
    """Tokens, and a mask whose row i lacks its last i tokens."""
    lengths = (length - torch.arange(batch)).clamp(min=1)
    return {**tokens(batch, length), "attention_mask": (torch.arange(length) < lengths[:, None]).long()}


def images(batch: int, _: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 16, 16)}


def bert() -> nn.Module:
    """Of MiniLM's shape, but for the number of layers and words."""
    return BertModel(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=384,
            num_hidden_layers=2,
            num_attention_heads=12,
            intermediate_size=1536,
            max_position_embeddings=32,
        )
    )


def gpt2() -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=48, n_layer=2, n_head=4, use_cache=False)
    )


def llama() -> nn.Module:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            use_cache=False,
        )
    )


def vit() -> nn.Module:
    return ViTModel(
        ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            image_size=16,
            patch_size=4,
        )
    )


class Residual(nn.Module):
    """relu(x + conv(relu(conv(x)))), with batch norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(Residual(8), Residual(8))
        self.head = nn.Linear(8, 5)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(pixel_values)).mean((2, 3)))


@dataclass(frozen=True)
class Case:
    """`left`: ops that stay with PyTorch; `graphs`: how many TorchDynamo makes; `parts`: of each."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], Inputs]
    left: frozenset[str] = frozenset()
    graphs: int = 3
    parts: int = 1


CASES: Mapping[str, Case] = {
    "bert": Case(bert, masked_tokens),
    "gpt2": Case(gpt2, tokens),
    "gpt2, masked": Case(gpt2, masked_tokens),
    "llama": Case(llama, masked_tokens),
    "vit": Case(vit, images, graphs=2),
    "resnet": Case(ResNet, images, graphs=2),
}


@pytest.mark.parametrize("name", CASES)
def test_models(name: str) -> None:
    case = CASES[name]
    model = case.make().eval()
    program = torch.compile(model, backend=backend, dynamic=True)
    for sizes in SIZES:
        given = case.inputs(*sizes)
        pairs = zip(pytree.tree_leaves(program(**given)), pytree.tree_leaves(model(**given)), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-5, check_stride=True)
    report = anyshape.report()
    assert {remark.subject for remark in report.remarks} == case.left, report
    assert not counters["graph_break"], counters["graph_break"]
    # A graph for general sizes, one for a batch of 1 and, where there is a length, one for a length of 1.
    assert counters["stats"]["unique_graphs"] == report.graph_count == case.graphs, report
    assert {graph.parts for graph in report.graphs} == {case.parts}, report
    assert all(graph.shared == graph.parts for graph in report.graphs[1:]), report


Written = Callable[[torch.Tensor], Any]


def shifted(x: torch.Tensor) -> None:
    x[1:] = x[:-1].clone()


def doubled(x: torch.Tensor) -> None:
    x[[0, 0]] += x[[0, 0]]


def accumulated(x: torch.Tensor) -> torch.Tensor:
    return x.index_put_([torch.tensor([0, 0])], x[[0, 0]], accumulate=True)


IN_PLACE: Mapping[str, tuple[Written, tuple[tuple[int, ...], ...]]] = {
    "F06": (shifted, ((4, 3), (1024, 2048), (2, 1))),
    "F18": (doubled, ((2, 3), (5, 4), (1, 1))),
    "F18, accumulated": (accumulated, ((2, 3), (5, 4), (1, 1))),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_to_views(name: str) -> None:
    function, shapes = IN_PLACE[name]
    program = torch.compile(function, backend=backend, dynamic=True)
    for shape in shapes:
        ours = torch.randn(shape)
        eager = ours.clone()
        got, expected = program(ours), function(eager)
        assert torch.equal(ours, eager)
        assert got is None or (torch.equal(got, expected) and got.data_ptr() == ours.data_ptr())


VIEWS: Mapping[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "F07, roll": (
        lambda x: x.roll(-1, 0),
        tuple(torch.arange(n * 50).view(n, 5, 2, 5).to(memory_format=torch.channels_last) for n in (2, 3, 1)),
    ),
    "F07, as_strided": (
        lambda x: torch.as_strided(x.roll(-1, 0), (5, 10), (4, 1), 0),
        tuple(torch.arange(n * 50).view(n, 5, 2, 5).to(memory_format=torch.channels_last) for n in (2, 3)),
    ),
    "F08, 9:0:-1": (lambda x: x.flip(0)[:-1], (torch.arange(10), torch.arange(20).view(10, 2), torch.arange(3))),
    "F08, 9:2:-1": (lambda x: x.flip(0)[:-3], (torch.arange(10), torch.arange(20), torch.arange(4))),
    "F08, 9:0:-3": (
        lambda x: x.flip(-1)[..., :-1:3],
        (torch.arange(10), torch.arange(20), torch.arange(20).view(2, 10)),
    ),
    "F24": (
        lambda a: (a + 1).transpose(0, 1).reshape(-1, a.shape[0]),
        tuple(torch.randn(n, 3, 2) for n in (1, 2, 3, 4)),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    function, arguments = VIEWS[name]
    program = torch.compile(function, backend=backend, dynamic=True)
    for x in arguments:
        got, expected = program(x), function(x)
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()
