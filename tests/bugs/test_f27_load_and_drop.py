"""F27: compiling, running and dropping small models leaves no memory behind."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import torch

from anyshape.runtime import torch_adaptor
from tests.end_to_end.eager import compiled, loaded_again

MIB = 1 << 20


def resident_bytes() -> int:
    """Resident memory once Python's and the C library's free memory has gone back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_loading_and_dropping_fifty_programs() -> None:
    built = compiled(lambda x, w: torch.softmax(x @ w, -1), torch.randn(2, 3), torch.randn(3, 4)).built

    def load_and_run() -> None:
        torch_adaptor.run(loaded_again(built), [torch.randn(64, 512), torch.randn(512, 256)])

    for _ in range(10):
        load_and_run()
    before = resident_bytes()
    for _ in range(50):
        load_and_run()
    assert resident_bytes() - before < 4 * MIB


def test_compiling_and_dropping() -> None:
    """Six, not fifty, to be quick: a compilation that is kept keeps 2 MiB, its weights as they are and packed."""

    def compile_and_run(seed: int) -> None:
        torch.manual_seed(seed)
        module = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU())
        compiled(module, torch.randn(2, 512))(torch.randn(7, 512))

    for seed in range(4):  # what PyTorch and we load once
        compile_and_run(seed)
    before = resident_bytes()
    for seed in range(6):
        compile_and_run(seed)
    assert resident_bytes() - before < 6 * MIB
