"""A model that asks whether there are elements at all: export takes every size for positive, and does not ask the example."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

ASKING: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, int]]] = {
    "size": (lambda x: x.sum(0) * 2 if x.shape[0] > 0 else x.sum(0) + 7, (0, 4)),
    "truth": (lambda x: x.sum(0) * 2 if x.shape[0] else x.sum(0) + 7, (0, 4)),
    "at least one": (lambda x: x.sum(0) + 7 if x.shape[0] < 1 else x.sum(0) * 2, (0, 4)),
    "elements": (lambda x: x.sum(0) * 2 if x.numel() else x.sum(0) + 7, (0, 4)),
    "a slice": (lambda x: x[1:].sum(0) * 2 if x[1:].shape[0] > 0 else x.sum(0) + 7, (1, 4)),
}


@pytest.mark.parametrize("kind", ASKING)
def test_the_other_branch_is_refused(kind: str) -> None:
    f, other = ASKING[kind]
    program = compiled(f, torch.randn(3, 4))
    for rows in (2, 7):
        check(program, f, torch.randn(rows, 4))
    with pytest.raises(GuardError):
        program(torch.randn(other))


def test_a_question_that_does_not_matter_is_no_condition() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.exp() * 2 if x.shape[0] > 0 else x

    program = compiled(f, torch.randn(3, 4))
    for rows in (0, 1, 5):
        check(program, f, torch.randn(rows, 4))
