"""Attention whose query, key and value are inputs: export ties none of their sizes, so the program has to."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled


def test_lengths_and_depths_that_differ() -> None:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v)

    def call(queries: int, keys: int, depth: int, width: int) -> list[torch.Tensor]:
        return [torch.randn(2, 3, queries, depth), torch.randn(2, 3, keys, depth), torch.randn(2, 3, keys, width)]

    program = compiled(f, *call(4, 5, 8, 6))
    for sizes in ((1, 1, 8, 8), (7, 2, 8, 16), (33, 7, 16, 8), (2, 33, 5, 3)):
        check(program, f, *call(*sizes))
    q, k, v = call(4, 5, 8, 6)
    for wrong in ((q, k, v[:, :, :-1]), (q, k[..., :-1], v), (q[..., :-1], k, v)):
        with pytest.raises(GuardError):
            program(*wrong)
