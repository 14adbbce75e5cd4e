"""F24: compiled at lengths 1 and 2 and called at 3 and 4: shapes, strides and a growing cache are right each time."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import through_torch_compile
from tests.end_to_end.eager import check, compiled


def flattened(a: torch.Tensor) -> torch.Tensor:
    return (a + 1).transpose(0, 1).reshape(-1, a.shape[0])


def test_transposed_and_flattened() -> None:
    program = through_torch_compile(flattened)
    for n in (1, 2, 3, 4):
        x = torch.randn(n, 3, 2)
        torch.testing.assert_close(program(x), flattened(x), check_stride=True)
    for n, columns in ((1, 2), (2, 5)):
        exported = compiled(flattened, torch.randn(n, 3, columns))
        for m in (1, 2, 3, 4):
            check(exported, flattened, torch.randn(m, 3, columns))


def attended(cache: torch.Tensor, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A token appended to the cache, and its attention to all before it."""
    grown = torch.cat((cache, token), 1)
    return torch.softmax(token @ grown.transpose(1, 2), -1) @ grown, grown


def test_a_cache_that_grows_a_token_at_a_time() -> None:
    tokens = torch.randn(2, 9, 4)
    scores = tokens @ tokens.transpose(1, 2)
    scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    whole = torch.softmax(scores, -1) @ tokens
    for program in (through_torch_compile(attended), compiled(attended, tokens[:, :1], tokens[:, 1:2])):
        cache = tokens[:, :0]
        for step in range(9):
            out, cache = program(cache, tokens[:, step : step + 1])
            torch.testing.assert_close(out[:, 0], whole[:, step], rtol=2e-5, atol=2e-5)
            assert cache.shape[1] == step + 1
