"""An example from whose sizes the model derives a size of 1 leaves as free a program as any other example."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

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
