"""Fractional maximum pools from given samples: the elements and the places of PyTorch's."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.end_to_end.eager import compiled

POOLS: dict[int, Callable[[Tensor, Tensor], Any]] = {
    2: lambda x, u: torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 3], u),
    3: lambda x, u: torch.ops.aten.fractional_max_pool3d(x, [2, 3, 1], [4, 1, 3], u),
}


@pytest.mark.parametrize("axes", POOLS)
def test_elements_and_places(axes: int) -> None:
    def example(*sizes: int) -> tuple[Tensor, Tensor]:
        return torch.randn(sizes[: 2 + axes]), torch.rand(sizes[0], sizes[1], axes)

    program = compiled(POOLS[axes], *example(2, 3, 9, 11, 7))
    for sizes in ((1, 2, 6, 5, 4), (3, 1, 7, 6, 12), (0, 2, 30, 40, 9)):
        x, samples = example(*sizes)
        got, expected = program(x, samples), POOLS[axes](x, samples)
        assert got[0].equal(expected[0])
        assert got[1].equal(expected[1])


@pytest.mark.parametrize(("axes", "sizes"), [(2, (1, 1, 4, 9)), (3, (1, 1, 5, 9, 9))])
def test_planes_without_room(axes: int, sizes: tuple[int, ...]) -> None:
    program = compiled(POOLS[axes], torch.randn(2, 3, *(9,) * axes), torch.rand(2, 3, axes))
    x, samples = torch.randn(sizes), torch.rand(1, 1, axes)
    for function in (program, POOLS[axes]):
        with pytest.raises(RuntimeError):
            function(x, samples)
