"""torch.linalg at sizes from 0 on: systems, factorisations, singular values, eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import compiled

SIZES = ((2, 3), (1, 1), (0, 4), (3, 17), (2, 0))
"""Of the batch and of square matrices."""

Function = Callable[[Tensor], Tensor | tuple[Tensor, ...]]

SQUARE: dict[str, Function] = {
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)),
    "solve": lambda x: torch.linalg.solve(x, x[..., :2]),
    "inverses": lambda x: (torch.linalg.inv(x), torch.linalg.solve(x, x.mT, left=False)),
    "determinants": lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x)),
    "lu": lambda x: (*torch.linalg.lu(x), *torch.linalg.lu_factor(x)),
    "triangular": lambda x: (
        torch.linalg.solve_triangular(x, x.mT, upper=True),
        torch.linalg.solve_triangular(x, x.mT, upper=False, left=False),
    ),
    "qr": lambda x: tuple(torch.linalg.qr(x)),
    "eigvalsh": torch.linalg.eigvalsh,
}


@pytest.mark.parametrize("name", SQUARE)
def test_of_square_matrices(name: str) -> None:
    function = SQUARE[name]
    torch.manual_seed(1)

    def matrices(batch: int, size: int) -> Tensor:
        return torch.randn(batch, size, size, dtype=torch.float64) + 4 * torch.eye(size, dtype=torch.float64)

    program = compiled(function, matrices(2, 3))
    for batch, size in SIZES:
        x = matrices(batch, size)
        ours, theirs = program(x), function(x)
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for got, expected in pairs:
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors(full: bool) -> None:
    def factors(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.linalg.svd(x, full_matrices=full))

    program = compiled(factors, torch.randn(2, 3, 4))
    for batch, rows, columns in ((2, 3, 4), (1, 7, 2), (2, 1, 1), (2, 9, 9)):
        x = torch.randn(batch, rows, columns)
        x[:, -1] = 0  # a singular value of 0
        left, values, right = program(x)
        expected = factors(x)
        assert [each.shape for each in (left, values, right)] == [each.shape for each in expected]
        torch.testing.assert_close(values, expected[1], rtol=1e-5, atol=1e-5)
        count = values.shape[-1]
        torch.testing.assert_close(
            (left[..., :count] * values[..., None, :]) @ right[..., :count, :], x, rtol=1e-5, atol=1e-5
        )
        for square in (left.mT @ left, right @ right.mT):
            torch.testing.assert_close(square, torch.eye(square.shape[-1]).expand_as(square), rtol=1e-5, atol=1e-5)


def test_eigenvectors_of_both_triangles() -> None:
    for uplo in ("L", "U"):
        program = compiled(lambda x, uplo=uplo: tuple(torch.linalg.eigh(x, UPLO=uplo)), torch.randn(2, 3, 3))
        x = torch.randn(2, 6, 6)
        values, vectors = program(x)
        half = x.tril(-1) if uplo == "L" else x.triu(1)
        matrix = half + half.mT + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))
        torch.testing.assert_close((vectors * values[..., None, :]) @ vectors.mT, matrix, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(values, torch.linalg.eigvalsh(matrix), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "bad"), [("inv", [[1.0, 2.0], [2.0, 4.0]]), ("cholesky", [[1.0, 2.0], [2.0, 1.0]])])
def test_matrices_without_a_factorisation_are_refused(name: str, bad: list[list[float]]) -> None:
    function = getattr(torch.linalg, name)
    program = compiled(function, torch.eye(3))
    torch.testing.assert_close(program(2 * torch.eye(4)), function(2 * torch.eye(4)))
    with pytest.raises(GuardError, match=rf"linalg\.{name}: "):
        program(torch.tensor(bad))


def test_norms_and_ranks_by_singular_values() -> None:
    functions: tuple[Function, ...] = (
        lambda x: torch.linalg.matrix_norm(x, "nuc"),
        lambda x: torch.linalg.norm(x, -2, dim=(0, 2), keepdim=True),
        torch.linalg.cond,
        torch.linalg.svdvals,
    )
    for function in functions:
        program = compiled(function, torch.randn(2, 4, 4))
        for size in (4, 1, 9):
            x = torch.randn(3, size, size)
            torch.testing.assert_close(program(x), function(x), rtol=1e-4, atol=1e-4)
