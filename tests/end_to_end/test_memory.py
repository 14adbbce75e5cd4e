"""Memory of calls and of programs: arenas near the peak of live bytes, and nothing left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from anyshape.dialects.host.interpreter import peak_live_bytes
from tests.end_to_end.eager import ObservedProgram, assert_same, compiled

WIDTH = 32


class Encoder(nn.Module):
    """Two transformer layers: intermediates of many sizes whose lifetimes cross."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = lambda: nn.ModuleDict(  # noqa: E731
            {
                "qkv": nn.Linear(WIDTH, 3 * WIDTH),
                "out": nn.Linear(WIDTH, WIDTH),
                "up": nn.Linear(WIDTH, 4 * WIDTH),
                "down": nn.Linear(4 * WIDTH, WIDTH),
                "norm": nn.LayerNorm(WIDTH),
            }
        )
        self.layers = nn.ModuleList([layer(), layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            q, k, v = layer["qkv"](x).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)  # pyright: ignore
            mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = layer["norm"](x + layer["out"](mixed))  # pyright: ignore
            x = x + layer["down"](functional.gelu(layer["up"](x)))  # pyright: ignore
        return x


class Branching(nn.Module):
    """Values that live long beside short-lived ones of other sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.narrow(functional.relu(self.wide(x * scale))) for scale in (1.0, 2.0, 3.0, 4.0)]
        while len(kept) > 1:
            kept = [self.narrow(torch.tanh(self.wide(a))) + b for a, b in zip(kept[::2], kept[1::2], strict=True)]
        return kept[0] + x


@pytest.mark.parametrize("make", [Encoder, Branching])
def test_intermediates_fit_near_the_peak(make: type[nn.Module]) -> None:
    module = make().eval()
    built = compiled(module, torch.randn(2, 5, WIDTH)).built
    assert built.stages is not None
    program = built.stages.program
    observed = ObservedProgram(built)
    for batch, length in ((1, 1), (1, 2), (7, 3), (2, 33), (16, 40), (1, 200), (0, 4)):
        x = torch.randn(batch, length, WIDTH)
        observed.arenas.clear()
        (got,) = observed(x)
        with torch.no_grad():
            assert_same(got, module(x), message=(batch, length))
        peak = peak_live_bytes(program, [x.shape])
        assert sum(observed.arenas) <= 1.15 * peak, f"{observed.arenas} for a peak of {peak} at {batch} x {length}"


def test_strided_inputs_are_counted() -> None:
    """A copy to row-major order lies in the arena as well."""
    module = Branching().eval()
    built = compiled(module, torch.randn(2, 5, WIDTH)).built
    assert built.stages is not None
    program = built.stages.program
    observed = ObservedProgram(built)
    x = torch.randn(WIDTH, 40, 16).permute(2, 1, 0)
    (got,) = observed(x)
    with torch.no_grad():
        assert_same(got, module(x))
    peak = peak_live_bytes(program, [x.shape], strided=[0])
    assert peak > peak_live_bytes(program, [x.shape])
    assert sum(observed.arenas) <= 1.15 * peak


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_calls_leave_nothing_behind() -> None:
    """Ten thousand calls of growing and shrinking sizes need the memory of the largest."""
    program = compiled(lambda x: torch.softmax(x, -1) + 1, torch.randn(2, 3))
    for size in (1, 40, 7):
        for _ in range(300):
            program(torch.ones(size, 64))
    gc.collect()
    before = resident_bytes()
    for _ in range(3000):
        for size in (1, 40, 7):
            program(torch.ones(size, 64))
    assert resident_bytes() - before < 4 << 20
