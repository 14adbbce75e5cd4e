"""Where a signal's handler raised as C began to ask Python for an output, the address of that output was whatever happened to be in a
register: the process crashed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

import pytest
import torch

from anyshape.runtime import loader
from anyshape.support.errors import MemoryLimit
from tests.end_to_end.eager import assert_same, compiled


@pytest.fixture
def ignored(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException | None]]:
    """What was raised where nobody could catch it."""
    seen: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: seen.append(event.exc_value))
    yield seen
    sys.setprofile(None)


def test_an_allocation_that_is_interrupted_fails(ignored: list[BaseException | None]) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x.t() * 2

    def interrupt(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is loader._Asked.__call__.__code__:
            raise KeyboardInterrupt

    program = compiled(f, torch.randn(3, 4))
    for rows in range(2, 6):
        x = torch.randn(rows, 5)
        sys.setprofile(interrupt)  # what it raises is raised where a signal's handler may raise
        with pytest.raises(MemoryLimit, match="could not allocate"):
            program(x)
        sys.setprofile(None)
        assert isinstance(ignored.pop(), KeyboardInterrupt)
        for _ in range(2):
            for got, expected in zip(program(x), f(x), strict=True):
                assert_same(got, expected)
