"""Elementwise ops, norms and small products of PyTorch's that are several ops here, in every dtype that PyTorch takes."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.end_to_end.eager import check, compiled

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int16, torch.uint8, torch.bool)
SHAPES = [(2, 3), (1, 1), (0, 3), (5, 33)]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    return torch.randint(0 if dtype == torch.uint8 else -50, 50, shape, dtype=dtype)


def floats(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        x.round(decimals=2), (x * 64).round(decimals=-1), torch.angle(x), torch.ldexp(x, torch.tensor(3)), x.copysign(y), x.copysign(-1.0),
        torch.fmax(x, y), torch.fmin(x, y), torch.hypot(x, y), torch.signbit(x), torch.atan2(y, x), torch.log2(x.abs() + 1),
        torch.heaviside(x, y), torch.sinc(x), torch.nan_to_num(x / 0), torch.xlogy(x.abs(), y.abs()), torch.logaddexp(x, y), x.frac(),
        torch.lerp(x, y, 0.25), torch.addcmul(x, x, y, value=2), torch.isclose(x, y), torch.clamp(x, max=0.5), torch.erfc(x),
        torch.nn.functional.mish(x), torch.nn.functional.logsigmoid(x), torch.nn.functional.softshrink(x), torch.nn.functional.rrelu(x),
    )  # fmt: skip


def integers(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.acos(x), torch.sinh(y), torch.atan2(x, y), torch.copysign(x, y), torch.fmax(x, y), torch.signbit(x), torch.lgamma(y),
        torch.angle(x), torch.logical_xor(x, y), x + y, x * y, x / (y.int().abs() + 1), x.sum(0), x.prod(1), x.float().mean(), x.cumsum(0),
        x == y, torch.maximum(x, y), x.bool().any(1), x.to(torch.float16) + y, torch.where(x > y, x, y), x.to(torch.int64) // 3,
        x & y, x ^ y, ~x,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype: torch.dtype) -> None:
    program = compiled(floats, values((2, 3), dtype), values((2, 3), dtype))
    for shape in SHAPES:
        check(program, floats, values(shape, dtype), values(shape, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: torch.dtype) -> None:
    program = compiled(integers, values((2, 3), dtype), values((2, 3), dtype))
    for shape in SHAPES:
        check(program, integers, values(shape, dtype), values(shape, dtype))


def norms(x: Tensor) -> tuple[Tensor, ...]:
    orders = (0, 1, 2, 3, 0.5, math.inf, -math.inf)
    return (
        *(torch.linalg.vector_norm(x, order, dim=-1) for order in orders), x.norm(), torch.dist(x, x * 0.5, 3), torch.dist(x, x + 1),
        torch.logcumsumexp(x, 0), torch.nn.functional.normalize(x, p=1.0),
    )  # fmt: skip


def test_norms() -> None:
    program = compiled(norms, torch.randn(2, 3))
    for shape in [(2, 3), (1, 1), (5, 33)]:
        check(program, norms, torch.randn(shape))


def test_cumulative_logarithm_at_infinities() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.logcumsumexp(x, 0)

    program = compiled(function, torch.randn(3))
    for x in (
        [-math.inf, -math.inf, 1.0],
        [1.0, math.inf, 2.0],
        [200.0, -300.0, 0.0],
        [math.nan, 1.0],
        [-700.0, 0.0],
        [-1e4, 0.0],
    ):
        check(program, function, torch.tensor(x))


def products(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.addmv(x[:, 0], x, y[:, 0], beta=2, alpha=0.5), torch.addbmm(x @ y, torch.stack([x, x]), torch.stack([y, y * 2])),
        torch.outer(x[:, 0], y[0]), torch.addr(x @ y, x[:, 0], y[0]), torch.einsum("ij,jk->ki", x, y),
        torch.nn.functional.bilinear(x, x, torch.stack([x.t() @ x, x.t() @ x + 1])),
    )  # fmt: skip


def test_products() -> None:
    program = compiled(products, torch.randn(4, 5), torch.randn(5, 4))
    for rows, depth in [(2, 3), (3, 2), (5, 33)]:
        check(program, products, torch.randn(rows, depth), torch.randn(depth, rows))


def test_neighbours_and_bits() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.nextafter(x, y), x.view(torch.int32) >> 23, *torch.frexp(x)

    program = compiled(function, torch.randn(2, 3), torch.randn(2, 3))
    special = torch.tensor([[0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, 3.4e38]])
    for y in (torch.zeros(1, 9), torch.full((1, 9), math.inf), special, -special):
        check(program, function, special, y)
