"""Resizing, sampling at grids and padding by a tensor's own elements, compiled once for all sizes, against eager PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled
from tests.end_to_end.test_pooling import ODD, SHAPES, VOLUMES, agrees

MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


@pytest.mark.parametrize("mode", MODES)
def test_resize(mode: str) -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        sized = F.interpolate(x, size=(9, 20), mode=mode)
        doubled = F.interpolate(F.relu(x) + 1, scale_factor=2, mode=mode) * 2
        results = [sized, doubled, F.interpolate(x, scale_factor=1.5, mode=mode)]
        if mode == "bilinear":
            results += [F.interpolate(x, scale_factor=2, mode=mode, align_corners=True)]
            results += [F.interpolate(x, size=(5, 20), mode=mode, antialias=True)]
        return tuple(results)

    agrees(every, (2, 3, 12, 15), SHAPES, torch.randn)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(dtype: torch.dtype) -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.interpolate(x, scale_factor=2, mode=mode) for mode in ("nearest", "bilinear"))

    agrees(every, (2, 3, 12, 15), SHAPES, lambda *shape: torch.randn(shape).to(dtype))


def test_one_and_three_axes() -> None:
    def line(x: Tensor) -> tuple[Tensor, ...]:
        return F.interpolate(x, scale_factor=2, mode="linear"), F.interpolate(x, scale_factor=3)

    def volume(x: Tensor) -> tuple[Tensor, ...]:
        return F.interpolate(x, scale_factor=2, mode="trilinear"), F.interpolate(x, size=(3, 4, 9))

    agrees(line, (2, 3, 12), ODD, torch.randn)
    agrees(volume, (2, 3, 6, 7, 8), VOLUMES, torch.randn)


def test_the_size_is_an_argument() -> None:
    def like(x: Tensor, y: Tensor) -> Tensor:
        return F.interpolate(x, size=y.shape[2:], mode="bilinear")

    program = compiled(like, torch.randn(2, 3, 12, 15), torch.randn(1, 1, 5, 4))
    for shape, (h, w) in zip(SHAPES, [(1, 1), (2, 3), (40, 3), (2, 2), (1, 2)], strict=True):
        check(program, like, torch.randn(shape), torch.randn(1, 1, h, w))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_borders(mode: str) -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        return F.pad(x, (2, 1, 0, 3), mode=mode), F.pad(x, (2, -1, -2, 3), mode=mode)

    agrees(every, (2, 3, 12, 15), [shape for shape in SHAPES if min(shape[2:]) > 3], torch.randn)


def test_a_mirrored_axis_that_is_too_short() -> None:
    program = compiled(lambda x: F.pad(x, (3, 1), mode="reflect"), torch.randn(2, 12))
    with pytest.raises(GuardError, match="axis 1: got size 3"):
        program(torch.randn(2, 3))


GRIDS = (
    ("bilinear", "zeros", False),
    ("bilinear", "reflection", True),
    ("nearest", "border", True),
)


def sampler(mode: str, padding: str, align_corners: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, grid: F.grid_sample(x, grid, mode, padding, align_corners=align_corners)


@pytest.mark.parametrize(("mode", "padding", "align_corners"), GRIDS)
def test_grids(mode: str, padding: str, align_corners: bool) -> None:
    function = sampler(mode, padding, align_corners)

    def grid(*shape: int) -> Tensor:
        return torch.rand(*shape, 2) * 2.6 - 1.3

    program = compiled(function, torch.randn(2, 3, 12, 15), grid(2, 4, 5))
    for shape, (h, w) in zip(SHAPES, [(1, 1), (3, 3), (9, 30), (0, 4), (5, 1)], strict=True):
        check(program, function, torch.randn(shape), grid(shape[0], h, w))
