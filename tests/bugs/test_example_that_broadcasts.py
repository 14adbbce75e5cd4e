"""An example axis of size 1 beside a larger one: the program takes 1 or the other size there, as eager does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

Sizes = tuple[int, ...]

BROADCAST: dict[str, tuple[Callable[..., torch.Tensor], Sizes, Sizes, tuple[tuple[Sizes, Sizes], ...]]] = {
    "add": (torch.add, (3, 4), (1, 4), (((0, 4), (0, 4)), ((0, 4), (1, 4)), ((7, 4), (7, 4)), ((1, 4), (1, 4)))),
    "last axis": (torch.mul, (3, 4), (3, 1), (((5, 40), (5, 40)), ((5, 40), (5, 1)), ((5, 1), (5, 1)))),
    "first operand": (torch.sub, (1, 4), (3, 4), (((5, 4), (5, 4)), ((1, 4), (5, 4)))),
    "where": (lambda x, y: torch.where(x > 0, x, y), (3, 4), (1, 4), (((5, 4), (5, 4)), ((5, 4), (1, 4)))),
    "product": (torch.matmul, (3, 4, 6), (1, 6, 7), (((5, 4, 6), (5, 6, 7)), ((5, 4, 6), (1, 6, 7)))),
    "expand": (lambda x, y: y.expand(x.shape[0], 4) + x, (3, 4), (1, 4), (((5, 4), (5, 4)), ((5, 4), (1, 4)))),
    "mean": (lambda x, y: (y * 2).sigmoid() * x + y.mean(0), (3, 4), (1, 4), (((5, 4), (5, 4)), ((5, 4), (1, 4)))),
    "softmax": (lambda x, y: torch.softmax(x + y, -1), (3, 4), (1, 4), (((5, 40), (5, 40)), ((5, 40), (1, 40)))),
    "attention": (
        lambda x, y: scaled_dot_product_attention(x, x, x, attn_mask=y),
        (2, 4, 6, 8),
        (1, 1, 6, 6),
        (((2, 4, 7, 8), (2, 4, 7, 7)), ((3, 5, 7, 8), (3, 1, 7, 7)), ((3, 5, 7, 8), (1, 5, 7, 7))),
    ),
}


@pytest.mark.parametrize("kind", BROADCAST)
def test_one_or_the_other(kind: str) -> None:
    f, first, second, calls = BROADCAST[kind]
    program = compiled(f, torch.randn(first), torch.randn(second))
    for x, y in ((first, second), *calls):
        check(program, f, torch.randn(x), torch.randn(y))


def test_another_size_is_refused() -> None:
    program = compiled(torch.add, torch.randn(3, 4), torch.randn(1, 4))
    with pytest.raises(GuardError, match="size 2"):
        program(torch.randn(5, 4), torch.randn(2, 4))
