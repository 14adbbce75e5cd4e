"""Whether a model of the zoo is one program that equals eager at every batch and size."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

import anyshape
from bench.zoo import Entry
from tests.end_to_end.eager import DispatchedOps

BATCHES = (1, 2, 3)


def check_entry(entry: Entry) -> None:
    """Compile the small model from one example, and compare it with eager at the others; PyTorch computes nothing meanwhile."""
    module = entry.make(small=True)
    program = anyshape.compile(
        module, (), dict(entry.call(module, 2, entry.example)), options=anyshape.Options(threads=1)
    )
    for batch in BATCHES:
        for size in entry.sizes:
            call = entry.call(module, batch, size)
            with torch.no_grad():
                expected = module(**call)
            with DispatchedOps() as dispatched:
                got = program(**call)
            assert not dispatched.compute, f"{entry.name} leaves ops to PyTorch: {dispatched.compute}"
            _compare(got, expected, entry.tolerance, f"{entry.name}, batch {batch}, {entry.size} {size}")


def _compare(got: Any, expected: Any, tolerance: float, where: str) -> None:
    ours, eager = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    assert len(ours) == len(eager), where
    for mine, reference in zip(ours, eager, strict=True):
        assert mine.shape == reference.shape, where
        largest = max(1.0, reference.abs().max().item()) if reference.numel() else 1.0
        torch.testing.assert_close(
            mine, reference, rtol=0, atol=tolerance * largest, msg=lambda text: f"{where}: {text}"
        )


__all__ = ["check_entry"]
