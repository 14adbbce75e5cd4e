"""A slice with a constant bound takes what there is, as eager does, where the axis is shorter than the bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

SLICES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "first": (lambda x: x[:3] * 2, 2),
    "last": (lambda x: x[-2:] * 2, 1),
    "inner": (lambda x: x[2:4] * 2, 3),
    "rest": (lambda x: x[1:] * 2, 0),
}


@pytest.mark.parametrize("kind", SLICES)
def test_long_enough(kind: str) -> None:
    f, _ = SLICES[kind]
    program = compiled(f, torch.randn(5, 4))
    for rows in (4, 5, 9):
        check(program, f, torch.randn(rows, 4))


@pytest.mark.parametrize("kind", ("first", "last", "inner"))
def test_shorter_than_the_bound(kind: str) -> None:
    f, rows = SLICES[kind]
    for example in (1, 5):
        program = compiled(f, torch.randn(example, 4))
        for fewer in range(rows + 1):
            check(program, f, torch.randn(fewer, 4))


@pytest.mark.xfail(raises=GuardError, strict=True, reason="all but the first of nothing: bounds of 1 are not clamped")
def test_the_rest_of_nothing() -> None:
    f, rows = SLICES["rest"]
    check(compiled(f, torch.randn(5, 4)), f, torch.randn(rows, 4))
