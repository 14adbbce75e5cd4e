"""Several threads that compile at once: PyTorch captures for one of them at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from tests.end_to_end.eager import check, compiled


def test_each_gets_its_own_program() -> None:
    modules = [nn.Linear(5 + number, 7).eval() for number in range(6)]
    with ThreadPoolExecutor(len(modules)) as pool:
        programs = list(pool.map(lambda module: compiled(module, torch.randn(2, module.in_features)), modules))
    for module, program in zip(modules, programs, strict=True):
        check(program, module, torch.randn(3, module.in_features))
