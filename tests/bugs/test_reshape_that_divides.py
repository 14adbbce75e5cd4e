"""A reshape to sizes that were divided from others must refuse sizes that do not divide, not drop the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

DIVIDING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "halves": lambda x: x.reshape(2, x.shape[0] // 2, x.shape[1]).sum(0),
    "rest": lambda x: x.reshape(-1, 2, x.shape[1]).sum(1),
    "last": lambda x: x.t().reshape(x.shape[1], x.shape[0] // 2, 2).amax(-1),
    "unflatten": lambda x: x.unflatten(0, (-1, 2)).sum(1),
    "view": lambda x: x.view(x.shape[0] // 2, 2 * x.shape[1]) + 1,
}


@pytest.mark.parametrize("kind", DIVIDING)
def test_odd_sizes_are_refused(kind: str) -> None:
    f = DIVIDING[kind]
    program = compiled(f, torch.randn(6, 5))
    for rows, width in ((6, 5), (8, 1), (8, 7), (34, 33)):
        check(program, f, torch.randn(rows, width))
    for rows in (1, 7, 33):
        with pytest.raises(GuardError, match=r"args\[0\]"):
            program(torch.randn(rows, 5))
    check(program, f, torch.randn(4, 3))


@pytest.mark.parametrize("kind", DIVIDING)
def test_the_smallest_size_that_divides(kind: str) -> None:
    f = DIVIDING[kind]
    check(compiled(f, torch.randn(6, 5)), f, torch.randn(2, 5))
