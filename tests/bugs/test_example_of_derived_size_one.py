"""An example from whose sizes the model derives a size of 1 leaves as free a program as any other example."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

DERIVED: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "step": (2, lambda x: x[::2] + 1),
    "blocks": (8, lambda x: x.reshape(x.shape[0] // 8, 8).sum(-1)),
    "difference": (2, lambda x: x[1:] - x[:-1]),
}


@pytest.mark.parametrize("kind", DERIVED)
def test_a_larger_example(kind: str) -> None:
    small, f = DERIVED[kind]
    program = compiled(f, torch.randn(small * 5))
    for factor in (1, 2, 7):
        check(program, f, torch.randn(small * factor))


@pytest.mark.xfail(
    raises=GuardError, strict=True, reason="torch.export fixes the size: the derived 1 is a constant to it"
)
@pytest.mark.parametrize("kind", DERIVED)
def test_the_smallest_example(kind: str) -> None:
    small, f = DERIVED[kind]
    check(compiled(f, torch.randn(small)), f, torch.randn(small * 3))
