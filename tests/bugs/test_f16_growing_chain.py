"""F16: a graph that appends a + b and a · b of its last two values n times costs in proportion to n."""

from __future__ import annotations

import torch

from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import check, compiled


def chain(length: int) -> torch.nn.Module:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            values = [x, y]
            for _ in range(length):
                a, b = values[-2:]
                values += [a + b, a * b]
            return values[-1] + values[-2]

    return Chain()


def counts(program: CompiledModule) -> tuple[int, int, int]:
    """Kernels, launches, ops of all kernel plans."""
    built = program.built
    assert built.stages is not None
    ops = sum(1 for kernel in built.stages.kernels.values() for _ in kernel.walk())
    report = program.report()
    return report.kernels, report.launches, ops


def test_work_grows_linearly() -> None:
    """Each value is used twice: whoever copies its producers into each use writes 2ⁿ ops."""
    lengths = (4, 8, 13)
    measured: list[tuple[int, int, int]] = []
    for length in lengths:
        module = chain(length)
        program = compiled(module, torch.randn(2, 3), torch.randn(2, 3))
        measured.append(counts(program))
        for shape in ((1, 1), (7, 2), (0, 3)):
            check(program, module, 0.5 * torch.randn(shape), 0.5 * torch.randn(shape))
    for (_, launches, ops), length in zip(measured, lengths, strict=True):
        assert ops <= 30 + 10 * length, f"a step adds two ops, and a few loads and stores: {measured}"
        assert launches <= length
