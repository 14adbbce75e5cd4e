"""Axes that all are 1 in the example and are broadcast to each other: each is 1 or their common size in a call, as in eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

Sizes = tuple[int, ...]

MEETING: dict[str, tuple[Callable[..., torch.Tensor], Sizes, Sizes, tuple[tuple[Sizes, Sizes], ...]]] = {
    "add": (torch.add, (1, 4), (1, 4), (((5, 4), (5, 4)), ((1, 4), (5, 4)), ((5, 4), (1, 4)), ((0, 4), (1, 4)))),
    "where": (
        lambda x, y: torch.where(y > 0, x, x),
        (0, 1, 1, 1),
        (1, 1, 1),
        (((2, 3, 4, 5), (3, 4, 5)), ((2, 3, 1, 5), (3, 4, 1)), ((0, 1, 4, 5), (3, 4, 5))),
    ),
    "scores": (
        lambda x, y: (x @ x.transpose(1, 2) + y).softmax(-1),
        (1, 1, 8),
        (1, 1, 1),
        (((3, 4, 8), (3, 1, 4)), ((3, 4, 8), (3, 4, 4)), ((3, 4, 8), (1, 1, 1)), ((1, 4, 8), (3, 4, 1))),
    ),
    "twice": (lambda x, y: (x + y) * y - x, (1, 1), (1, 1), (((5, 3), (5, 1)), ((1, 3), (7, 3)), ((1, 0), (1, 1)))),
}


@pytest.mark.parametrize("kind", MEETING)
def test_each_is_one_or_the_common_size(kind: str) -> None:
    f, first, second, calls = MEETING[kind]
    program = compiled(f, torch.randn(first), torch.randn(second))
    for x, y in ((first, second), *calls):
        check(program, f, torch.randn(x), torch.randn(y))


def test_other_sizes_are_refused_in_words() -> None:
    program = compiled(torch.add, torch.randn(1, 4), torch.randn(1, 4))
    with pytest.raises(GuardError, match="size 2"):
        program(torch.randn(5, 4), torch.randn(2, 4))
    assert any("is 1 or" in guard for guard in program.report().guards)


def test_three_at_once() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.where(z > 0, x, y) + x

    program = compiled(f, *(torch.randn(1, 4) for _ in range(3)))
    for rows in itertools.product((1, 5), repeat=3):
        check(program, f, *(torch.randn(n, 4) for n in rows))


class Attention(nn.Module):
    """Its result has the sizes of x by name, which the mask follows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.parts(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, 8))


@pytest.mark.parametrize("example", ((1, 1), (2, 1), (1, 5)), ids=str)
def test_a_mask(example: tuple[int, int]) -> None:
    batch, length = example
    module = Attention().eval()
    program = compiled(module, torch.randn(batch, length, 8), torch.randn(batch, 1, 1, length))
    for rows in (1, 3):
        for mask in ((rows, 1, 1, 4), (rows, 1, 4, 4), (rows, 2, 4, 4), *(((1, 1, 1, 4),) if batch == 1 else ())):
            check(program, module, torch.randn(rows, 4, 8), torch.randn(mask))
