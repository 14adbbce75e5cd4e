"""A matrix that cannot be factorised raises what it raises in PyTorch, with the batch element and the pivot."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

import anyshape
from anyshape.support.errors import GuardError, SingularMatrix

Function = Callable[[Tensor], Tensor]

FUNCTIONS: dict[str, Function] = {
    "inv": torch.linalg.inv,
    "solve": lambda x: torch.linalg.solve(x, x.mT),
    "cholesky": torch.linalg.cholesky,
    "inv_ex": lambda x: torch.linalg.inv_ex(x, check_errors=True)[0],
    "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x, check_errors=True)[0],
    "cholesky_inverse": torch.cholesky_inverse,
    "lu_factor": lambda x: torch.linalg.lu_factor(x)[0],
    "matrix_power": lambda x: torch.linalg.matrix_power(x, -2),
}


class _Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def _diagonals(*rows: tuple[float, ...]) -> Tensor:
    return torch.diag_embed(torch.tensor(rows, dtype=torch.float32))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_facts_are_pytorchs(name: str) -> None:
    function = FUNCTIONS[name]
    batch, one = _Applied(function), _Applied(function)
    of_batch = anyshape.compile(batch, (_diagonals((1, 2, 3), (2, 3, 4)),))
    of_one = anyshape.compile(one, (_diagonals((1, 2, 3))[0],))
    for x in (_diagonals((1, 2, 3), (1, 0, 3), (0, 1, 2)), _diagonals((0, 1)), _diagonals((1, 2, 3, 0))):
        _same_error(of_batch, function, x)
        _same_error(of_one, function, x[0] if x.shape[0] == 1 else x[1])
    for x in (_diagonals((4, 1)), torch.zeros(0, 2, 2), torch.zeros(2, 0, 0)):
        torch.testing.assert_close(of_batch(x), function(x))


def _same_error(program: Callable[[Tensor], Tensor], function: Function, x: Tensor) -> None:
    with pytest.raises(RuntimeError) as expected:
        function(x)
    with pytest.raises(type(expected.value)) as got:
        program(x)
    assert isinstance(got.value, LinAlgError)
    assert isinstance(got.value, SingularMatrix)
    assert isinstance(got.value, GuardError)
    assert _facts(str(expected.value)) in str(got.value)
    error = got.value
    assert (str(error.where).split("/")[-1].split(":")[0], error.expected) == (
        "test_singular_matrices.py",
        "info = 0, that of a matrix which can be factorised",
    )
    assert str(error.got).startswith("info = ") and "multiple of the identity" in str(error.remedy)


def test_fields_say_which_matrix_and_where() -> None:
    program = anyshape.compile(_Applied(torch.linalg.inv), (_diagonals((1, 2, 3), (2, 3, 4)),))
    with pytest.raises(LinAlgError) as caught:
        program(_diagonals((1, 2), (2, 0), (0, 3)))
    error = caught.value
    assert isinstance(error, SingularMatrix)
    assert error.message.startswith("linalg.inv: (Batch element 1): The diagonal element 2 is zero")
    assert error.got == "info = 2"
    line = inspect.getsourcelines(_Applied.forward)[1] + 1
    assert f"test_singular_matrices.py:{line}" in str(error.where)


def _facts(message: str) -> str:
    """The message without the name of the function, of which PyTorch has several."""
    return message.split(": ", 1)[1]


def test_not_positive_definite() -> None:
    program = anyshape.compile(_Applied(torch.linalg.cholesky), (_diagonals((1, 2, 3), (2, 3, 4)),))
    with pytest.raises(
        LinAlgError, match=r"\(Batch element 1\).*the leading minor of order 3 is not positive-definite"
    ):
        program(_diagonals((1, 2, 3), (2, 3, -4)))
    torch.testing.assert_close(program(_diagonals((4, 9))), _diagonals((2, 3)))
