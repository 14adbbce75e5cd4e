"""What a caller hands to `compile` and to the program beside plain tensors: nothing, numbers, a function, wrapped tensors."""

from __future__ import annotations

import pytest
import torch

import anyshape
from anyshape.support.errors import ArgumentError
from tests.end_to_end.eager import check, compiled


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x / factor


def test_a_float_is_the_same_only_bit_by_bit() -> None:
    x = torch.ones(3)
    program = compiled(scaled, x, 0.0)
    check(program, scaled, x, 0.0)
    with pytest.raises(ArgumentError, match="cannot change"):
        program(x, -0.0)
    check(compiled(scaled, x, float("nan")), scaled, x, float("nan"))


def test_no_argument() -> None:
    class Steps(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.arange(5) * 2

    assert anyshape.compile(Steps())().tolist() == [0, 2, 4, 6, 8]


def test_a_function_is_no_module() -> None:
    with pytest.raises(ArgumentError, match=r"torch\.nn\.Module"):
        anyshape.compile(torch.relu, (torch.ones(3),))


def test_one_tensor_is_no_tuple_of_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"\(x,\)"):
        anyshape.compile(torch.nn.ReLU(), torch.ones(3, 4))  # pyright: ignore[reportArgumentType]


def test_tensors_without_memory() -> None:
    program = anyshape.compile(torch.nn.ReLU(), (torch.ones(3, 4),))
    with pytest.raises(ArgumentError, match="memory of its own"):
        torch.func.vmap(program)(torch.ones(2, 3, 4))
    assert torch.equal(program(-torch.ones(3, 4)), torch.zeros(3, 4))
