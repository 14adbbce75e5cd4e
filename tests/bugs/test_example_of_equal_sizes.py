"""Axes that have equal sizes in the example by accident stay free of each other, where the model only reshapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.end_to_end.eager import check, compiled

RESHAPED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "last first": lambda x: x.reshape(x.shape[-1], -1) * 2,
    "first two": lambda x: x.reshape(x.shape[0] * x.shape[1], -1) - 1,
    "reversed": lambda x: x.view(x.shape[2], x.shape[1], x.shape[0]),
    "transposed": lambda x: x.transpose(0, 1).reshape(x.shape[2], -1) + 1,
    "of a sum": lambda x: (x + x.sum(0)).flatten(1).reshape(-1, x.shape[0]),
}


@pytest.mark.parametrize("kind", RESHAPED)
def test_another_size_for_each_axis(kind: str) -> None:
    f = RESHAPED[kind]
    program = compiled(f, torch.randn(4, 4, 4))
    for shape in ((4, 4, 4), (2, 3, 5), (8, 4, 2), (1, 7, 16), (7, 1, 1)):
        check(program, f, torch.randn(shape))
