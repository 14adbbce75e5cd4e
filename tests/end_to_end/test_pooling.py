"""Pooling, its gradients and windows, compiled once for all sizes, against eager PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

aten = torch.ops.aten
SHAPES = [(1, 1, 7, 9), (0, 3, 8, 8), (2, 3, 33, 17), (1, 2, 1, 1), (3, 1, 6, 40)]
ODD = [(1, 1, 7), (0, 2, 8), (2, 2, 65)]
VOLUMES = [(1, 1, 7, 4, 5), (0, 2, 8, 8, 8), (2, 2, 5, 6, 17)]


def with_specials(*shape: int) -> Tensor:
    """Normal numbers, among them NaN, −∞ and equal ones."""
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randint(-3, 4, shape, generator=generator).float()
    x[torch.rand(shape, generator=generator) < 0.05] = float("nan")
    x[torch.rand(shape, generator=generator) < 0.2] = float("-inf")
    return x


def agrees(
    function: Callable[..., object],
    example: Sequence[int],
    shapes: Sequence[Sequence[int]],
    make: Callable[..., Tensor],
) -> None:
    program = compiled(function, make(*example))
    for shape in (example, *shapes):
        check(program, function, make(*shape))


MAXIMA: dict[str, Callable[[Tensor], object]] = {
    "3x3/2": lambda x: F.max_pool2d(x, 3, 2, 1),
    "places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "rounded up": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "neighbours": lambda x: F.max_pool2d(x, (2, 3), 1, 1, return_indices=True),
    "large": lambda x: F.max_pool2d(x, (7, 6), 2, padding=3, return_indices=True),
    "adaptive": lambda x: F.adaptive_max_pool2d(x, (5, 3), return_indices=True),
}
MEANS: dict[str, Callable[[Tensor], object]] = {
    "3x3/2": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "inside": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "rounded up": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "large": lambda x: F.avg_pool2d(x, 7, 1, 3, count_include_pad=False),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (7, 3)),
    "one axis": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
    "with neighbours": lambda x: F.avg_pool2d(F.relu(F.max_pool2d(F.relu(x + 1), 3, 2, 1) * 2), 2, ceil_mode=True) + 1,
}


@pytest.mark.parametrize("name", MAXIMA)
def test_maxima(name: str) -> None:
    agrees(MAXIMA[name], (2, 3, 12, 15), SHAPES, with_specials)


@pytest.mark.parametrize("name", MEANS)
def test_means(name: str) -> None:
    agrees(MEANS[name], (2, 3, 12, 15), SHAPES, torch.randn)


def test_one_axis() -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        both = F.max_pool1d(x, 3, 2, 1, return_indices=True)
        means = (F.avg_pool1d(x, 3, 2, 1), F.adaptive_avg_pool1d(x, 4), F.lp_pool1d(x.abs(), 2, 3, 2))
        return (*both, *means, F.adaptive_max_pool1d(x, 4))

    agrees(every, (2, 3, 12), ODD, torch.randn)


def test_three_axes() -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        both = F.max_pool3d(x, 3, 2, 1, return_indices=True)
        return (*both, F.avg_pool3d(x, 2, 2, 1, count_include_pad=False), F.adaptive_avg_pool3d(x, (2, 3, 4)))

    agrees(every, (2, 3, 6, 7, 8), VOLUMES, torch.randn)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64])
def test_dtypes(dtype: torch.dtype) -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        pools = (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1))
        return (*pools, F.adaptive_avg_pool2d(x, (3, 2))) if dtype.is_floating_point else pools

    agrees(every, (2, 3, 12, 15), SHAPES, lambda *shape: (torch.randn(shape) * 9).to(dtype))


def test_the_adaptive_size_is_an_argument() -> None:
    def like(x: Tensor, y: Tensor) -> Tensor:
        sizes: Any = y.shape[2:]
        return F.adaptive_avg_pool2d(x, sizes)

    program = compiled(like, torch.randn(2, 3, 12, 15), torch.randn(1, 1, 5, 4))
    for shape, (h, w) in zip(SHAPES, [(1, 1), (2, 3), (40, 3), (2, 2), (0, 2)], strict=True):
        check(program, like, torch.randn(shape), torch.randn(1, 1, h, w))


def test_a_window_larger_than_the_tensor() -> None:
    program = compiled(lambda x: F.avg_pool2d(x, 3), torch.randn(2, 3, 12, 15))
    with pytest.raises(GuardError, match=r"args\[0\], axis 3: got size 2"):
        program(torch.randn(2, 3, 12, 2))


def test_windows_and_their_sums() -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        columns = F.unfold(x, 3, padding=1, stride=2)
        return columns, F.fold(columns, x.shape[2:], 3, padding=1, stride=2), x.unfold(3, 1, 2)

    agrees(every, (2, 3, 12, 15), SHAPES, torch.randn)


def test_gradients() -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        largest, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        of_max = aten.max_pool2d_with_indices_backward(largest, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)
        mean = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        of_mean = aten.avg_pool2d_backward(mean, x, [3, 3], [2, 2], [1, 1], False, False, None)
        return of_max, of_mean, aten._adaptive_avg_pool2d_backward(F.adaptive_avg_pool2d(x, (3, 5)), x)

    agrees(every, (2, 3, 12, 15), SHAPES, torch.randn)
