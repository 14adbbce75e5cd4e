"""F22: `cond` whose branches give results of other sizes gives those of the branch that is taken, or says why it cannot."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import through_torch_compile


def test_a_size_decided_by_a_flag() -> None:
    """Said in Python: TorchDynamo takes the flag for a constant of the graph and compiles each branch."""

    def f(x: torch.Tensor, y: torch.Tensor, flag: bool) -> torch.Tensor:
        return torch.ones(x.shape[0], x.shape[1]) if flag else torch.zeros(x.shape[0], y.shape[1])

    program = through_torch_compile(f)
    for rows, a, b in ((5, 7, 8), (3, 2, 9), (0, 4, 1)):
        x, y = torch.randn(rows, a), torch.randn(rows, b)
        assert torch.equal(program(x, y, True), torch.ones(rows, a))
        assert torch.equal(program(x, y, False), torch.zeros(rows, b))


def test_a_cond_whose_branches_agree() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a, b: a.sin() + b, lambda a, b: a * b, (x, y))

    program = through_torch_compile(f)
    for rows, columns in ((5, 7), (3, 2), (6, 4)):
        for sign in (1, -1):
            x, y = sign * torch.rand(rows, columns), torch.randn(rows, columns)
            torch.testing.assert_close(program(x, y), f(x, y))


def test_a_cond_on_a_tensor_whose_branches_do_not() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0,
            lambda a, b: torch.ones(a.shape[0], a.shape[1]),
            lambda a, b: torch.zeros(a.shape[0], b.shape[1]),
            (x, y),
        )

    program = through_torch_compile(f)
    for sign, columns in ((1, 7), (-1, 8)):
        x, y = sign * torch.ones(5, 7), torch.ones(5, 8)
        try:
            got = program(x, y)
        except Exception as error:  # PyTorch's own: it wants branches whose results have one size
            assert "branch" in str(error)
        else:
            assert got.shape == (5, columns)
