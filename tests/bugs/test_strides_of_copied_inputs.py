"""`torch.compile`: an input that is returned as a copy has the layout that PyTorch gives the copy, not the input's."""

from __future__ import annotations

import pytest
import torch

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false


def copies(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.contiguous(), x.clone(), x.flatten(1), x.clone(memory_format=torch.contiguous_format), x * 2


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 3, 6, 7), (3, 2, 1, 4)])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)])
def test_copies_of_an_input(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    torch.compiler.reset()
    fast = torch.compile(copies, backend="anyshape", dynamic=True)
    inverse = [order.index(axis) for axis in range(4)]
    x = torch.randn([sizes[axis] for axis in order]).permute(inverse)
    with torch.no_grad():
        for got, expected in zip(fast(x), copies(x), strict=True):
            torch.testing.assert_close(got, expected)
            assert got.stride() == expected.stride()
