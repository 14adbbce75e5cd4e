"""F23: complex numbers broadcast as others do: ones of [2, 2] plus a constant [2, 1] of ones is 2 everywhere."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import through_torch_compile


def test_a_constant_column() -> None:
    column = torch.ones(2, 1, dtype=torch.complex64)
    program = through_torch_compile(lambda x: x + column)
    for columns in (2, 1, 0, 5):
        got = program(torch.ones(2, columns, dtype=torch.complex64))
        assert torch.equal(got, torch.full((2, columns), 2 + 0j, dtype=torch.complex64))


def test_products_and_parts() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * y, torch.real(x) + torch.imag(y), x.abs(), x.conj() - y

    program = through_torch_compile(f)
    for shape in ((2, 2), (1, 3), (0, 2)):
        x, y = (torch.randn(shape, dtype=torch.complex64) for _ in range(2))
        for got, expected in zip(program(x, y), f(x, y), strict=True):
            torch.testing.assert_close(got, expected)
