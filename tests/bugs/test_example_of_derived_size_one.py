"""An example from whose sizes the model derives a size of 1 leaves as free a program as any other example."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.end_to_end.eager import check, compiled

DERIVED: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "step": (2, lambda x: x[::2] + 1),
    "blocks": (8, lambda x: x.reshape(x.shape[0] // 8, 8).sum(-1)),
    "difference": (2, lambda x: x[1:] - x[:-1]),
    "sum": (2, lambda x: x[::2].sum(0)),
    "parts": (2, lambda x: torch.cat([x[:1], x[1:]])),
    "halved": (4, lambda x: x[::2][::2] * 2),
}


@pytest.mark.parametrize("kind", DERIVED)
@pytest.mark.parametrize("times", (1, 5))
def test_any_multiple(kind: str, times: int) -> None:
    small, f = DERIVED[kind]
    program = compiled(f, torch.randn(small * times))
    for factor in (1, 2, 7):
        check(program, f, torch.randn(small * factor))


def test_the_example_stays_on_its_side_of_a_condition() -> None:
    """A larger example would make the model compute something else: the program is for the example's own side."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x[::2] * 2 if x.shape[0] > 4 else x[::2] + 1

    for rows in (1, 2):
        program = compiled(f, torch.randn(rows, 6))
        for size in (1, 2, 3, 4):
            check(program, f, torch.randn(size, 6))


@pytest.mark.parametrize("length", (0, 1, 3, 4, 5, 8))
def test_a_stride_that_happens_to_be_a_product_of_sizes(length: int) -> None:
    """For an even length every other row has the strides of a reshape, which a product of PyTorch's asks for."""
    layer = nn.Linear(8, 8)

    def f(x: torch.Tensor) -> torch.Tensor:
        return layer(x[:, ::2]).sum(1)

    program = compiled(f, torch.randn(3, length, 8))
    for batch, other in ((2, 1), (1, 4), (5, 7), (2, 0)):
        check(program, f, torch.randn(batch, other, 8))
