"""F10: the divisions that trap in hardware neither raise a signal nor end the process."""

from __future__ import annotations

import os

import pytest
import torch

from tests.end_to_end.eager import compiled


def survives(work: object) -> int:
    """The exit status of `work` in a child process; negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()  # pyright: ignore
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8], ids=str)
def test_the_least_integer_by_minus_one(dtype: torch.dtype) -> None:
    least = torch.iinfo(dtype).min

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.div(x, y, rounding_mode="floor"), torch.remainder(x, y), torch.fmod(x, y)

    program = compiled(f, torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype))

    def work() -> None:
        for size in (1, 7, 40):
            x, y = torch.full((size,), least, dtype=dtype), torch.full((size,), -1, dtype=dtype)
            quotient, remainder, rest = program(x, y)
            assert quotient.tolist() == [least] * size
            assert remainder.tolist() == rest.tolist() == [0] * size

    assert survives(work) == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("operation", [torch.floor_divide, torch.remainder, torch.fmod], ids=lambda f: f.__name__)
def test_division_by_zero(operation: object, dtype: torch.dtype) -> None:
    """The call is refused as in eager, and the next one is right."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return operation(x, y)  # pyright: ignore

    program = compiled(f, torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype))
    x = torch.tensor([7, -7, 0, 5], dtype=dtype)

    def work() -> None:
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            program(x, torch.tensor([0, 0, 0, 2], dtype=dtype))
        y = torch.tensor([3, 3, 3, 2], dtype=dtype)
        assert torch.equal(program(x, y), f(x, y))

    assert survives(work) == 0
