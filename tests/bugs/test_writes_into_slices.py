"""Writes into slices asked for sizes: where they begin was not held to the axis, so that `y[:, 1:] = 0` refused axes of none, and what
PyTorch's C++ code asks to see whether a slice overlaps itself became a guard, so that `y[1::2] = 0` refused up to three rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.end_to_end.eager import check, compiled

Write = Callable[[torch.Tensor, torch.Tensor], object]

WRITES: dict[str, Write] = {
    "y[:, 1:] = 5": lambda y, x: y[:, 1:].fill_(5),
    "y[::2] *= 2": lambda y, x: y.__setitem__(slice(None, None, 2), y[::2] * 2),
    "y[1::2] = 0": lambda y, x: y.__setitem__(slice(1, None, 2), 0),
    "y[1::2, ::2] = x[1::2, ::2]": lambda y, x: y[1::2, ::2].copy_(x[1::2, ::2]),
    "y[1:] = x[:-1]": lambda y, x: y.__setitem__(slice(1, None), x[:-1]),
    "y[-2:] = 0": lambda y, x: y.__setitem__(slice(-2, None), 0),
    "y[1:-1] = 0": lambda y, x: y.__setitem__(slice(1, -1), 0),
    "y[:2] = 1": lambda y, x: y.__setitem__(slice(None, 2), 1),
    "y.T[1:] = 3": lambda y, x: y.T.__setitem__(slice(1, None), 3),
    "the diagonal": lambda y, x: y.diagonal().fill_(0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_nothing_is_asked_of_sizes(write: Write) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        write(y, x)
        return y

    program = compiled(written, torch.randn(4, 5))
    assert not program.report().guards
    for sizes in ((0, 0), (0, 3), (1, 1), (1, 3), (2, 3), (3, 3), (4, 1), (7, 9), (4, 4)):
        check(program, written, torch.randn(*sizes))
