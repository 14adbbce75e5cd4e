"""Sizes of results without the questions of PyTorch's decompositions, which run to find them and fix or narrow sizes on the way.

Each function computes the sizes of one overload's result by the formula in PyTorch's documentation; the op itself checks its conditions
when it is lowered. `max_pool1d` is a composite of C++ that fixes the size of the axis which it pools: another says the same.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from operator import floordiv
from typing import Any

import torch
from torch import _meta_registrations
from torch._decomp import decomposition_table

from anyshape.frontends.torch.replacing import replaced, replaced_item

_aten = torch.ops.aten


def _pixel_shuffle(x: torch.Tensor, factor: int) -> torch.Tensor:
    *lead, channels, h, w = x.shape
    torch._check(channels % (factor * factor) == 0)  # pyright: ignore[reportPrivateUsage]
    return x.new_empty((*lead, channels // (factor * factor), h * factor, w * factor))


def _pixel_unshuffle(x: torch.Tensor, factor: int) -> torch.Tensor:
    *lead, channels, h, w = x.shape
    torch._check(h % factor == 0)  # pyright: ignore[reportPrivateUsage]
    torch._check(w % factor == 0)  # pyright: ignore[reportPrivateUsage]
    return x.new_empty((*lead, channels * factor * factor, h // factor, w // factor))


def _channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    torch._check(x.shape[1] % groups == 0)  # pyright: ignore[reportPrivateUsage]
    return x.new_empty(x.shape)


def _im2col(
    x: torch.Tensor, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    *lead, channels, h, w = x.shape
    axes = zip((h, w), kernel_size, dilation, padding, stride, strict=True)
    rows, columns = ((size + 2 * pad - apart * (extent - 1) - 1) // step + 1 for size, extent, apart, pad, step in axes)
    return x.new_empty((*lead, channels * kernel_size[0] * kernel_size[1], rows * columns))


def _col2im(x: torch.Tensor, output_size: Sequence[int], kernel_size: Sequence[int], *_: object) -> torch.Tensor:
    *lead, channels, _columns = x.shape
    return x.new_empty((*lead, channels // (kernel_size[0] * kernel_size[1]), *output_size))


def _affine_grid(theta: torch.Tensor, size: Sequence[int], _align_corners: bool) -> torch.Tensor:
    n, _, *rest = size
    return theta.new_empty((n, *rest, len(rest)))


def _fractional_max_pool(
    x: torch.Tensor, kernel_size: Sequence[int], output_size: Sequence[int], _samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = (*x.shape[: -len(kernel_size)], *output_size)
    return x.new_empty(sizes), x.new_empty(sizes, dtype=torch.int64)


_SIZES: dict[Any, Callable[..., Any]] = {
    _aten.affine_grid_generator.default: _affine_grid,
    _aten.channel_shuffle.default: _channel_shuffle,
    _aten.col2im.default: _col2im,
    _aten.fractional_max_pool2d.default: _fractional_max_pool,
    _aten.fractional_max_pool3d.default: _fractional_max_pool,
    _aten.im2col.default: _im2col,
    _aten.pixel_shuffle.default: _pixel_shuffle,
    _aten.pixel_unshuffle.default: _pixel_unshuffle,
}
SIZED = tuple(str(overload) for overload in _SIZES)
"""The overloads whose sizes are found here, and which are lowered whole."""


def _max_pool1d(x: torch.Tensor, *shape: Any, **named: Any) -> torch.Tensor:
    return torch.max_pool1d_with_indices(x, *shape, **named)[0]


@contextmanager
def sizes_only() -> Generator[None]:
    """While inside, PyTorch finds the sizes of these overloads' results so."""
    with ExitStack() as stack:
        stack.enter_context(replaced(torch, "max_pool1d", _max_pool1d))
        # Sizes of pools: Python's quotient is what it computes, without asking for the remainder as PyTorch 2.12 does.
        stack.enter_context(replaced(_meta_registrations, "div_rtn", floordiv))
        for overload, sizes in _SIZES.items():
            stack.enter_context(replaced_item(decomposition_table, overload, sizes))
        yield


__all__ = ["SIZED", "sizes_only"]
