"""F18: `x[[0,0]] += x[[0,0]]` writes 2x, not 4x; with accumulation asked for, the sum."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import check_both_ways, through_torch_compile

SHAPES = ((2, 3), (5, 4), (1, 1), (3, 0))


def doubled(x: torch.Tensor) -> torch.Tensor:
    x[[0, 0]] += x[[0, 0]]
    return x


def accumulated(x: torch.Tensor) -> torch.Tensor:
    return x.index_put_([torch.tensor([0, 0])], x[[0, 0]], accumulate=True)


def test_in_place() -> None:
    for function, factor in ((doubled, 2), (accumulated, 3)):
        program = through_torch_compile(function)
        for shape in SHAPES:
            x = torch.randn(shape)
            expected = torch.cat((x[:1] * factor, x[1:]))
            program(x)
            torch.testing.assert_close(x, expected)


def test_of_a_copy() -> None:
    check_both_ways(lambda x: doubled(x.clone()), *((torch.randn(shape),) for shape in SHAPES))
