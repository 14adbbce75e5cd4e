"""Views with strides of their own, and copies of views, at any size."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import torch
from torch import Tensor

from tests.end_to_end.eager import check, compiled

SHAPES = [(2, 3), (1, 1), (0, 3), (3, 0), (7, 33), (33, 7)]


def diagonals(x: Tensor) -> tuple[Tensor, ...]:
    return (
        x.diagonal() + 1,
        x.diagonal(-1).sum(),
        torch.diagonal_copy(x[None].expand(2, *x.shape) * 1, 0, -1, 1),
        x.mm(x.t()).trace(),
        torch.diagonal_scatter(x, x.new_ones(x.diagonal(1).shape), 1),
    )


def strided(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    columns = x.shape[1]
    return (
        y.as_strided((x.shape[0], columns), (1, x.shape[0])),
        y.t().as_strided((columns, x.shape[0]), (1, columns)) + 1,
        y.as_strided((2, x.numel() - 1), (1, 1), 0),
        torch.as_strided_scatter(y, y.new_ones(x.shape[0]), (x.shape[0],), (columns,), columns - 1),
        torch.as_strided_scatter(y.t(), y.new_ones(2), (2,), (1,)),
        torch.as_strided_copy(y, (x.shape[0],), (columns,), columns - 1),
    )


def copies(x: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.permute_copy(x, (1, 0)),
        torch.narrow_copy(x, 0, 0, x.shape[0]),
        torch.view_copy(x, (-1,)),
        torch.expand_copy(x[None], (2, *x.shape)),
        *torch.unbind_copy(x.new_ones(2, x.shape[0])),  # pyright: ignore[reportGeneralTypeIssues] - the stub says None
        torch.unsqueeze_copy(x, 1),
    )


def test_diagonals() -> None:
    program = compiled(diagonals, torch.randn(4, 5))
    for shape in ((2, 3), (1, 1), (7, 33), (33, 33)):
        check(program, diagonals, torch.randn(shape))


def test_strided() -> None:
    program = compiled(strided, torch.randn(4, 5))
    for shape in ((2, 3), (1, 2), (7, 33), (33, 7)):
        check(program, strided, torch.randn(shape))


def test_copies() -> None:
    program = compiled(copies, torch.randn(4, 5))
    for shape in SHAPES:
        check(program, copies, torch.randn(shape))
