"""F01: reductions with no elements in the result, or none to reduce, give what eager gives; `max` of none is the framework's error."""

from __future__ import annotations

import pytest
import torch

from tests.bugs.front_ends import both_ways, check_both_ways


def test_argmin_of_no_rows_seen_as_another_shape() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.argmin(1, keepdim=True).view(x.shape[0], 1)

    check_both_ways(f, (torch.randn(2, 3),), (torch.empty(0, 3),), (torch.randn(1, 7),))

    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.argmin(x, 1).view(0, 3)

    check_both_ways(g, (torch.empty(0, 3),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_sums_and_products_of_none(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0), x.sum(), x.prod(0), x.prod(), x.any(0), x.all(0)

    shapes = ((2, 3), (0, 3), (3, 0), (0, 0))
    check_both_ways(f, *((torch.ones(shape).to(dtype),) for shape in shapes))


def test_means_of_none_are_nan() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.mean(0), x.mean(), x.var(0), x.logsumexp(0)

    check_both_ways(f, (torch.randn(4, 3),), (torch.empty(0, 3),), (torch.empty(3, 0),))


def test_the_maximum_of_none_is_an_error() -> None:
    for function in (lambda x: x.amax(0), lambda x: x.argmax(0), lambda x: x.max(0).values):
        for way, program in both_ways(function, torch.randn(2, 3)).items():
            with pytest.raises((RuntimeError, IndexError, ValueError)):
                pytest.fail(f"{way} gave {program(torch.empty(0, 3))}")
