"""`torch.kron` read the sizes of its operands as numbers, so that a program took those of the example alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled

EXAMPLES = [((2, 3), (3, 2)), ((2, 3), (4,)), ((5,), (2, 3, 2)), ((), (2, 3)), ((3,), (3,))]


@pytest.mark.parametrize("shapes", EXAMPLES, ids=str)
def test_sizes_are_free(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    def product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.kron(a, b), b.kron(a)

    program = compiled(product, *(torch.randn(shape) for shape in shapes))
    for size in (3, 1, 0, 5):
        first, second = (tuple(n + size - 2 if size > 1 else size for n in shape) for shape in shapes)
        check(program, product, torch.randn(first), torch.randn(second))
        check(program, product, torch.randn(first), torch.randn(shapes[1]))


def test_integers_and_complex_numbers() -> None:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.kron(a, b)

    for dtype in (torch.int64, torch.complex64):
        a, b = (torch.randn(shape).mul(9).to(dtype) for shape in ((2, 3), (4, 2)))
        program = compiled(product, a, b)
        check(program, product, a, b)
        check(program, product, a.T.contiguous(), b[:1])
