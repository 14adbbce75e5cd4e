"""Results without elements have PyTorch's strides: a size of 0 counts as 1 in those of the axes outside it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyshape

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

SIZES = ((0, 0), (0, 4), (3, 0), (2, 3))


def results(x: torch.Tensor) -> Any:
    return x @ x.t(), x.t() @ x, x + 1, torch.cat([x, x]), x[None].exp(), x.t().contiguous()


@pytest.mark.parametrize("dynamic", [None, True])
def test_inside_pytorch(dynamic: bool | None) -> None:
    torch.compiler.reset()
    fast = torch.compile(results, backend="anyshape", dynamic=dynamic)
    with torch.no_grad():
        for sizes in SIZES:
            x = torch.randn(sizes)
            for got, expected in zip(fast(x), results(x), strict=True):
                assert (got.shape, got.stride()) == (expected.shape, expected.stride())


class Results(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x @ x.mT, x + 1, x[None] * 2


def test_exported() -> None:
    fast = anyshape.compile(Results(), (torch.randn(5, 4),))
    for rows in (0, 1, 3):
        x = torch.randn(rows, 4)
        assert [each.stride() for each in fast(x)] == [each.stride() for each in Results()(x)]
