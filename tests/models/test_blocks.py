"""Hand-written blocks of today's models, every size dynamic that the weights leave free."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import check, compiled

SIZES = (1, 2, 7, 33)
WIDTH = 32


class GroupedAttention(nn.Module):
    """Causal attention in which two heads share one pair of key and value heads."""

    def __init__(self, heads: int = 4, groups: int = 2, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.depth, self.fused = heads, groups, WIDTH // heads, fused
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, groups * self.depth, bias=False)
        self.value = nn.Linear(WIDTH, groups * self.depth, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, self.heads, self.depth).transpose(1, 2)
        k = self.key(x).view(batch, length, self.groups, self.depth).transpose(1, 2)
        v = self.value(x).view(batch, length, self.groups, self.depth).transpose(1, 2)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
            scores = q @ k.transpose(-1, -2) * self.depth**-0.5
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class FeedForward(nn.Module):
    """x + down(silu(gate(norm(x))) · up(norm(x))), with an RMS norm."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.gate, self.up = nn.Linear(WIDTH, 80, bias=False), nn.Linear(WIDTH, 80, bias=False)
        self.down = nn.Linear(80, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fused:
            normed = functional.rms_norm(x, (WIDTH,), self.scale, 1e-6)
        else:
            normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class MeanPool(nn.Module):
    """Logits and the likeliest class of the mean over the tokens of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = (x[..., 0].abs() * 10).long() % 50
        logits = self.head(self.table(tokens).mean(1))
        return functional.log_softmax(logits, -1), logits.argmax(-1)


class PostNorm(nn.Module):
    """Residuals, layer norms, a tanh-GELU and self-attention by PyTorch's own module functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.first(x + self.out(mixed))
        return self.second(x + self.down(functional.gelu(self.up(x), approximate="tanh")))


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "grouped attention": lambda: GroupedAttention(fused=True),
    "grouped attention by hand": lambda: GroupedAttention(fused=False),
    "feed-forward": lambda: FeedForward(fused=True),
    "feed-forward by hand": lambda: FeedForward(fused=False),
    "mean pool": MeanPool,
    "post-norm": PostNorm,
}


@pytest.fixture(scope="module", params=BLOCKS.values(), ids=list(BLOCKS))
def block(request: pytest.FixtureRequest) -> tuple[CompiledModule, nn.Module]:
    torch.manual_seed(0)
    module: nn.Module = request.param().eval()
    return compiled(module, torch.randn(2, 5, WIDTH)), module


@pytest.mark.parametrize(("batch", "length"), list(itertools.product(SIZES, SIZES)))
def test_block(block: tuple[CompiledModule, nn.Module], batch: int, length: int) -> None:
    torch.manual_seed(batch + 40 * length)
    check(*block, torch.randn(batch, length, WIDTH))


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(19, 40), nn.Linear(40, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.tanh(self.first(x))), -1)


def test_perceptron_in_f64() -> None:
    torch.manual_seed(0)
    module = Perceptron().double()
    program = compiled(module, torch.randn(2, 19, dtype=torch.float64))
    for rows in (0, *SIZES, 300):
        check(program, module, torch.randn(rows, 19, dtype=torch.float64))


def chain(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Elementwise ops, a row sum and a change of dtype."""
    z = torch.sigmoid(x * 2 + y) - y.abs() / 3
    return z * functional.gelu(x), z.sum(-1), torch.where(z > 0, x, y).float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_chain_in_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    program = compiled(chain, torch.randn(2, 5, dtype=dtype), torch.randn(2, 5, dtype=dtype))
    for rows, width in itertools.product((0, *SIZES), (0, *SIZES)):
        check(program, chain, torch.randn(rows, width, dtype=dtype), torch.randn(rows, width, dtype=dtype))
