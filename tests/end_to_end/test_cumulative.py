"""Cumulative sums, products and extrema along any axis, compiled once for all sizes, against eager PyTorch."""

import pytest
import torch
from torch import Tensor, nn

from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import check, compiled

SHAPES = [(2, 3, 5), (0, 1, 2), (1, 1, 1), (3, 0, 4), (2, 3, 0), (2, 7, 33), (5, 33, 100), (1, 17, 300)]
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
)


class Along(nn.Module):
    """Everything along every axis, with ops before and behind, and from the end."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        sums = [(torch.tanh(x) * 2).cumsum(axis).relu() for axis in range(3)]
        products = [x.cumprod(axis - 3) for axis in range(3)]
        from_the_end = x.flip(-1).cumsum(-1).flip(-1)
        return (*sums, *products, from_the_end, x.cumsum(1, dtype=torch.float64))


class Extrema(nn.Module):
    """The largest and the smallest so far, with their positions: the last of equal ones, and of every NaN its own."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (*x.cummax(-1), *x.cummin(1), *x.cummax(0))


class Positions(nn.Module):
    """Positions of the tokens that a mask keeps, and 1 for the others, as language models number them."""

    def forward(self, mask: Tensor) -> Tensor:
        return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)


class EveryType(nn.Module):
    def forward(self, *xs: Tensor) -> tuple[Tensor, ...]:
        return tuple(each for x in xs for each in (x.cumsum(-1), x.cumsum(0), x.cumprod(0)))


def of_type(dtype: torch.dtype, *shape: int) -> Tensor:
    """Small numbers, so that no order of additions rounds differently; -1, 0 and 1 make products that stay small."""
    return torch.randint(0 if dtype in (torch.bool, torch.uint8) else -1, 2, shape).to(dtype)


@pytest.fixture(scope="module")
def along() -> tuple[CompiledModule, nn.Module]:
    return compiled(Along(), torch.randn(2, 3, 5)), Along()


@pytest.fixture(scope="module")
def extrema() -> tuple[CompiledModule, nn.Module]:
    return compiled(Extrema(), torch.randn(2, 3, 5)), Extrema()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_every_axis(along: tuple[CompiledModule, nn.Module], shape: tuple[int, ...]) -> None:
    program, module = along
    torch.manual_seed(0)
    check(program, module, torch.rand(shape) * 2 - 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extrema(extrema: tuple[CompiledModule, nn.Module], shape: tuple[int, ...]) -> None:
    program, module = extrema
    torch.manual_seed(0)
    x = torch.randint(-5, 5, shape).float()
    check(program, module, x)
    check(program, module, torch.where(torch.rand(shape) < 0.05, float("nan"), x))


def test_positions_under_a_mask() -> None:
    module = Positions()
    program = compiled(module, torch.ones(2, 5, dtype=torch.int64))
    assert program.report().kernels == 1
    torch.manual_seed(0)
    for batch, length in ((1, 1), (0, 3), (2, 0), (3, 7), (2, 100)):
        check(program, module, (torch.rand(batch, length) < 0.7).long())


def test_every_type() -> None:
    """Integers and bools are summed in i64; floats keep their type."""
    module = EveryType()
    torch.manual_seed(0)
    program = compiled(module, *(of_type(dtype, 3, 4) for dtype in DTYPES))
    for rows, length in ((1, 1), (0, 2), (3, 0), (5, 40)):
        check(program, module, *(of_type(dtype, rows, length) for dtype in DTYPES))


def test_a_number_is_its_own_sum() -> None:
    def scalar(x: Tensor) -> tuple[Tensor, ...]:
        return (x.cumsum(0), x.cumprod(0), *x.cummax(0))

    check(compiled(scalar, torch.tensor(3.0)), scalar, torch.tensor(-2.0))
