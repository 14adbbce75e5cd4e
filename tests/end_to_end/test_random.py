"""Random ops: their distributions, that `torch.manual_seed` repeats them, and that neither fusion nor threads change a bit."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import anyshape
from anyshape.driver.api import CompiledModule
from anyshape.driver.dynamo import backend
from tests.end_to_end.eager import Calls, compiled

COUNT = 40_000


def seeded(program: CompiledModule, *args: Any, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return program(*args)


def distance(drawn: Tensor, distribution: Callable[[Tensor], Tensor]) -> float:
    """√n·sup |F_n − F| (Kolmogorov and Smirnov); 1.95 is exceeded once in a thousand."""
    values = distribution(drawn.flatten().double().sort().values)
    n = values.numel()
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    return math.sqrt(n) * float(torch.maximum((steps[1:] - values).max(), (values - steps[:-1]).max()))


def normal(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def draws(x: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.rand_like(x),
        torch.rand(x.shape, dtype=torch.float64),
        torch.randn_like(x),
        torch.randn(x.shape, dtype=torch.float64),
        torch.normal(x * 0 + 2, 3.0),
        torch.empty_like(x).exponential_(2.0),
        torch.empty_like(x).uniform_(-1, 1),
        torch.empty_like(x).cauchy_(1.0, 2.0),
        torch.empty_like(x).log_normal_(0.5, 0.25),
    )


DISTRIBUTIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x,
    normal,
    normal,
    lambda x: normal((x - 2) / 3),
    lambda x: 1 - torch.exp(-2 * x),
    lambda x: (x + 1) / 2,
    lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi,
    lambda x: normal((torch.log(x) - 0.5) / 0.25),
]


@pytest.fixture(scope="module")
def program() -> CompiledModule:
    return compiled(draws, torch.zeros(2, 3))


def test_continuous_distributions(program: CompiledModule) -> None:
    results = seeded(program, torch.zeros(COUNT // 100, 100))
    for index, (drawn, distribution) in enumerate(zip(results, DISTRIBUTIONS, strict=True)):
        assert distance(drawn, distribution) < 1.95, index
    assert results[0].min() >= 0 and results[0].max() < 1
    pairs = torch.corrcoef(torch.stack([each.double().flatten() for each in results[:5]])) - torch.eye(5)
    assert pairs.abs().max() < 0.02, "streams of one program are independent"


def test_a_seed_repeats_and_each_call_differs(program: CompiledModule) -> None:
    x = torch.zeros(3, 5)
    first, again = seeded(program, x), seeded(program, x)
    for a, b, c, d in zip(first, again, program(x), seeded(program, x, seed=2), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c) and not torch.equal(a, d)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_sizes(program: CompiledModule, rows: int) -> None:
    results = seeded(program, torch.zeros(rows, 4))
    assert all(each.shape == (rows, 4) and bool(each.isfinite().all()) for each in results)


def test_fusion_and_threads_change_no_bits() -> None:
    x = torch.zeros(700, 65)

    def fused(x: Tensor) -> tuple[Tensor, Tensor]:
        drawn = torch.rand_like(x)
        return (drawn * 2 - 1).t().contiguous(), drawn.sum(-1)

    def alone(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    drawn = seeded(compiled(alone, torch.zeros(2, 3)), x)
    moved, total = seeded(compiled(fused, torch.zeros(2, 3)), x)
    assert torch.equal(moved, (drawn * 2 - 1).t())
    torch.testing.assert_close(total, drawn.sum(-1))
    assert torch.equal(seeded(compiled(alone, torch.zeros(2, 3), threads=4), x), drawn)


def test_discrete_distributions() -> None:
    def discrete(x: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.randint(-3, 4, x.shape),
            torch.randint_like(x, 10),
            torch.bernoulli(x),
            torch.empty_like(x).bernoulli_(0.75),
            torch.empty_like(x).geometric_(0.25),
            torch.randint(0, x.shape[0], (x.shape[0],)),
        )

    program = compiled(discrete, torch.zeros(2, 3))
    whole, like, by_tensor, by_number, trials, rows = seeded(program, torch.full((400, 100), 0.2))
    counts = torch.bincount(whole.flatten() + 3, minlength=7).double()
    expected = whole.numel() / 7
    assert ((counts - expected) ** 2 / expected).sum() < 22.5, "χ² of 6 degrees: once in a thousand"
    assert whole.dtype == torch.int64 and like.dtype == torch.float32
    assert set(like.unique().tolist()) == set(range(10))
    assert abs(by_tensor.mean() - 0.2) < 0.01 and abs(by_number.mean() - 0.75) < 0.01
    assert set(by_tensor.unique().tolist()) == {0.0, 1.0}
    assert trials.min() == 1 and abs(trials.mean() - 4) < 0.1
    assert rows.min() >= 0 and rows.max() < 400


def test_permutations_and_multinomials() -> None:
    def drawn(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = weights.shape[0]
        return torch.randperm(rows), torch.multinomial(weights, 50, replacement=True), torch.multinomial(weights, 2)

    program = compiled(drawn, torch.rand(3, 5))
    weights = torch.tensor([[0.1, 0.0, 0.2, 0.7]]).repeat(2000, 1)
    order, replaced, distinct = seeded(program, weights)
    assert torch.equal(order.sort().values, torch.arange(2000)) and not torch.equal(order, torch.arange(2000))
    shares = torch.bincount(replaced.flatten(), minlength=4) / replaced.numel()
    torch.testing.assert_close(shares, weights[0], atol=0.01, rtol=0)
    assert bool((distinct[:, 0] != distinct[:, 1]).all()) and bool((distinct != 1).all())
    first = torch.bincount(distinct[:, 0], minlength=4) / 2000
    torch.testing.assert_close(first, weights[0], atol=0.04, rtol=0)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 50)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x)
        return y, functional.dropout(y, 0.25, self.training)


def test_dropout_in_training() -> None:
    module = Dropping().train()
    program = anyshape.compile(module, (torch.randn(2, 6),), options=anyshape.Options(threads=1))
    y, dropped = seeded(program, torch.randn(400, 6))
    kept = dropped != 0
    assert abs(kept.double().mean() - 0.75) < 0.01
    torch.testing.assert_close(dropped[kept], y[kept] / 0.75)


def test_nothing_is_drawn_in_inference() -> None:
    program = compiled(Dropping(), torch.randn(2, 6))
    torch.manual_seed(5)
    program(torch.randn(2, 6, generator=torch.Generator().manual_seed(1)))
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))


def test_narrow_dtypes_draw_in_their_precision() -> None:
    def narrow(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.rand_like(x), torch.randn_like(x)

    for dtype, bits in ((torch.float16, 11), (torch.bfloat16, 8)):
        uniform, gaussian = seeded(
            compiled(Calls(narrow), torch.zeros(2, 3, dtype=dtype)), torch.zeros(COUNT, 1, dtype=dtype)
        )
        assert uniform.max() < 1 and torch.equal((uniform.double() * 2**bits).frac(), torch.zeros(COUNT, 1).double())
        assert abs(gaussian.double().mean()) < 0.02 and abs(gaussian.double().std() - 1) < 0.02


def test_inside_torch_compile_pytorch_draws() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.rand_like(x) * 2 + x.relu()

    with torch.no_grad():
        fast = torch.compile(function, backend=backend, dynamic=True)
        for rows in (3, 5):
            x = torch.ones(rows, 4)
            torch.manual_seed(3)
            expected = function(x)
            torch.manual_seed(3)
            torch.testing.assert_close(fast(x), expected)
