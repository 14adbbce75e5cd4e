"""Single layers, anyshape beside PyTorch eager: matrix products against the FMA rate, memory-bound groups against memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import functional

import anyshape
from anyshape.cli.timing import alternate
from bench.figures import paired_ratio, spread
from bench.settings import Settings

ROWS = (1, 8, 17, 64, 128, 333, 1024, 2048)
PRODUCTS = {
    "BERT-base": ((768, 768), (768, 3072), (3072, 768)),
    "Llama-1B": ((2048, 2048), (2048, 512), (2048, 8192), (8192, 2048)),
}
"""(depth k, columns n) of the layers of each model."""


class Softmax(torch.nn.Module):
    """exp(xᵢ − max x) / Σ exp(xⱼ − max x) over the last axis."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.softmax(x, dim=-1)


class ResidualNorm(torch.nn.Module):
    """Layer normalisation of x + x·s."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(columns))
        self.norm = torch.nn.LayerNorm(columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + x * self.scale)


class BiasGelu(torch.nn.Module):
    """gelu(x + b), by the error function."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x + self.bias)


@dataclass(frozen=True)
class MemoryCase:
    """A memory-bound group, and the sizes that it runs at: one in cache, others larger."""

    title: str
    make: Callable[[int], torch.nn.Module]
    shapes: tuple[tuple[int, int], ...]


# 24 MB an array where caches shall not help: the C library gives memory of more than 32 MB back to the system at each call, and
# both sides would measure page faults.
MEMORY_CASES = (
    MemoryCase(
        "softmax",
        lambda columns: Softmax(),
        ((1024, 384), (16384, 384), (192, 32768), (64, 65536), (2, 1 << 20), (1, 1 << 22)),
    ),
    MemoryCase(
        "residual + layer norm",
        ResidualNorm,
        ((1024, 384), (16384, 384), (1536, 4096), (64, 65536), (2, 1 << 20), (1, 1 << 22)),
    ),
    MemoryCase("bias + gelu", BiasGelu, ((1024, 1536), (4096, 1536))),
)


def measure_products(run: Settings) -> list[dict[str, Any]]:
    """GFLOP/s of a linear layer with any number of rows; one compilation a layer."""
    rows: list[dict[str, Any]] = []
    for model, layers in PRODUCTS.items():
        for k, n in layers:
            run.say(f"product {k}×{n}")
            module = torch.nn.Linear(k, n).eval()
            program = _compile(module, k, run.threads)
            for m in ROWS:
                row = _compare(module, program, torch.randn(m, k), run)
                rate = 2e-9 * m * n * k / row["seconds"]["median"]
                share = run.ceilings.product_ms(2.0 * m * n * k, 4.0 * n * k) / (1e3 * row["seconds"]["median"])
                rows.append({"model": model, "m": m, "k": k, "n": n, "gflops": rate, "share": share, **row})
    return rows


def measure_memory(run: Settings) -> list[dict[str, Any]]:
    """GB/s of groups that read each element and parameter once and write each result once. The share is of the machine's memory
    rate; what fits in cache may exceed it."""
    rows: list[dict[str, Any]] = []
    for case in MEMORY_CASES:
        programs: dict[int, tuple[torch.nn.Module, Any]] = {}
        for height, columns in case.shapes:
            run.say(f"{case.title} {height}×{columns}")
            if columns not in programs:
                module = case.make(columns).eval()
                programs[columns] = module, _compile(module, columns, run.threads)
            x = torch.randn(height, columns)
            row = _compare(*programs[columns], x, run)
            parameters = sum(each.nbytes for each in programs[columns][0].parameters())
            rate = 1e-9 * (2 * x.nbytes + parameters) / row["seconds"]["median"]
            size = {"rows": height, "columns": columns}
            rows.append({"group": case.title, **size, "gb_s": rate, "share": rate / run.ceilings.memory_scale, **row})
    return rows


def _compile(module: torch.nn.Module, columns: int, threads: int) -> Any:
    return anyshape.compile(
        module,
        (torch.randn(3, columns),),
        dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=1 << 20)},),
        options=anyshape.Options(threads=threads),
    )


def _compare(module: torch.nn.Module, program: Any, x: torch.Tensor, run: Settings) -> dict[str, Any]:
    """Seconds of ours and the paired ratio to eager's."""

    def eager() -> torch.Tensor:
        with torch.no_grad():
            return module(x)

    functions: Mapping[str, Callable[[], object]] = {"ours": lambda: program(x), "eager": eager}
    difference = float((program(x) - eager()).abs().max())
    samples = alternate(functions, seconds=run.layer_seconds * len(functions), block=10)
    return {
        "seconds": asdict(spread(samples["ours"])),
        "eager_seconds": asdict(spread(samples["eager"])),
        "eager_ratio": asdict(paired_ratio(samples["eager"], samples["ours"])),
        "difference": difference,
    }
