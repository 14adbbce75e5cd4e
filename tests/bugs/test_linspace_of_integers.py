"""Integers at equal distances are those of PyTorch: the ends lose their fractions first, the steps are f64 and are cut off last."""

import pytest
import torch

import anyshape
from tests.bugs.front_ends import both_ways

ENDS = ((4.3, -3), (-2.0, 50), (0, 7), (-7.9, 7.9), (50, 1), (3, 3))


class _Spaced(torch.nn.Module):
    def __init__(self, ends: tuple[float, float], dtype: torch.dtype) -> None:
        super().__init__()
        self._ends, self._dtype = ends, dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linspace(*self._ends, x.shape[0], dtype=self._dtype)


class _BetweenElements(torch.nn.Module):
    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.linspace(ends[0], ends[1], x.shape[0], dtype=torch.int32)


class _Constant(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.linspace(4.3, -3, 50, dtype=torch.int64, device="cpu")


def test_constant_steps() -> None:
    for program in both_ways(_Constant(), torch.zeros(2, 1, dtype=torch.int64)).values():
        x = torch.arange(3)[:, None]
        assert program(x).equal(_Constant()(x))


@pytest.mark.parametrize("ends", ENDS)
def test_any_number_of_steps(ends: tuple[float, float]) -> None:
    program = anyshape.compile(_Spaced(ends, torch.int64), (torch.zeros(5),))
    for size in (0, 1, 2, 3, 7, 50, 51):
        assert program(torch.zeros(size)).equal(torch.linspace(*ends, size, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_steps_of_floats(dtype: torch.dtype) -> None:
    program = anyshape.compile(_Spaced((4.3, -3), dtype), (torch.zeros(5),))
    for size in (0, 1, 2, 3, 50, 51):
        got, expected = program(torch.zeros(size)), torch.linspace(4.3, -3, size, dtype=dtype)
        assert got.dtype == dtype
        torch.testing.assert_close(got, expected)


def test_ends_that_data_say() -> None:
    program = anyshape.compile(_BetweenElements(), (torch.zeros(5), torch.tensor([0.0, 1.0])))
    for ends in ENDS:
        x, limits = torch.zeros(11), torch.tensor(ends, dtype=torch.float32)
        assert program(x, limits).equal(_BetweenElements()(x, limits))
