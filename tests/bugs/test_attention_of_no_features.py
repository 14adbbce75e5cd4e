"""Attention of heads that have no features: an empty result, and no division by the number of their lines."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.end_to_end.eager import check, compiled


def attention(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x.tanh(), x)


@pytest.mark.parametrize("lead", ((), (2, 3)), ids=("matrices", "heads"))
def test_heads_of_any_size(lead: tuple[int, ...]) -> None:
    program = compiled(attention, torch.randn(*lead, 4, 5))
    for length, features in ((4, 0), (1, 0), (0, 0), (0, 3), (33, 0), (4, 5), (1, 1), (7, 64)):
        check(program, attention, torch.randn(*lead, length, features))
