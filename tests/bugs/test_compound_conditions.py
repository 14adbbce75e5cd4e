"""A condition of several comparisons in the model's Python, `a | b` and `a & b`, holds of every call."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

LENGTH = 4000


def neither(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x.shape[1] == LENGTH) | (x.shape[0] == 77) else x * 2


def both(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x.shape[1] < LENGTH) & (x.shape[0] < 77) else x * 2


def either(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x.shape[1] < LENGTH) | (x.shape[1] == 2 * LENGTH) else x * 2


def behind_a_remainder(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 4:
        x = F.pad(x, (0, 4 - x.shape[1] % 4))
    elif (x.shape[1] == LENGTH) | (x.shape[0] == 77):
        x = x + 1
    return x.view(x.shape[0], -1, 4).sum(2)


@pytest.mark.parametrize("model", [neither, both, either, behind_a_remainder])
def test_the_other_side_is_refused(model: object) -> None:
    program = compiled(model, torch.randn(2, 6))  # pyright: ignore[reportArgumentType]
    check(program, model, torch.randn(3, 9))  # pyright: ignore[reportArgumentType]
    with pytest.raises(GuardError):
        program(torch.randn(2, LENGTH))


def test_a_remainder_beside_another_condition_is_needed_for_it() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if (x.shape[1] % 4 != 0) & (x.shape[1] < LENGTH):
            x = F.pad(x, (0, 4 - x.shape[1] % 4))
        return x[:, : x.shape[1] // 4 * 4].reshape(x.shape[0], -1, 4).sum(2)

    program = compiled(f, torch.randn(2, 6))
    check(program, f, torch.randn(3, 9))
    with pytest.raises(GuardError):
        program(torch.randn(2, LENGTH + 1))
