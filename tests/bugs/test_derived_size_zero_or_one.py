"""A size that the model derives may be 0 or 1 in a call: what export asked about strides is no condition of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.end_to_end.eager import check, compiled

DERIVED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "first half": lambda x: x[:, : x.shape[1] // 2],
    "second half": lambda x: x[:, x.shape[1] // 2 :] * 2,
    "narrow": lambda x: x.narrow(1, x.shape[1] // 2, x.shape[1] - x.shape[1] // 2),
    "step": lambda x: x[:, ::3] + x[:, ::3],
    "repeated": lambda x: x.repeat_interleave(2, 1)[None].expand(3, -1, -1)[:, : x.shape[0] // 2],
}


@pytest.mark.parametrize("kind", DERIVED)
@pytest.mark.parametrize("example", ((8, 2), (1, 0), (3, 3)), ids=str)
def test_every_size(kind: str, example: tuple[int, int]) -> None:
    f = DERIVED[kind]
    program = compiled(f, torch.randn(example))
    for rows in (0, 1, 2, 7):
        for columns in (0, 1, 2, 3, 8):
            check(program, f, torch.randn(rows, columns))


def test_roll_of_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, 0) + x.roll(-2, 1)

    program = compiled(f, torch.randn(3, 4))
    for rows in (0, 1, 2, 5):
        for columns in (0, 1, 7):
            check(program, f, torch.randn(rows, columns))
