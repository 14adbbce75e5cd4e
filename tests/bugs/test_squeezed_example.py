"""An example with an axis of 1 that the model squeezes: the program refused that example, since 1 was given another size in the trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.end_to_end.eager import check, compiled

Function = Callable[[torch.Tensor], torch.Tensor]
CASES: dict[str, tuple[Function, tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "dim": (lambda x: x.squeeze(1) * 2, (2, 1), ((2, 1), (1, 1), (7, 1), (0, 1))),
    "all": (lambda x: x.squeeze() + 1, (1, 3, 1), ((1, 3, 1), (1, 5, 1))),
    "dims": (lambda x: x.squeeze((0, 2)).exp(), (1, 3, 1), ((1, 3, 1), (1, 1, 1), (1, 9, 1))),
    "derived": (lambda x: x[:, 1:].squeeze(1), (3, 2), ((3, 2), (1, 2))),
    "behind a sum": (lambda x: x.sum(1, keepdim=True).squeeze(1), (1, 4), ((1, 4), (3, 1), (5, 0))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_example_is_taken(case: str) -> None:
    f, example, shapes = CASES[case]
    program = compiled(f, torch.randn(example))
    for shape in shapes:
        check(program, f, torch.randn(shape))
