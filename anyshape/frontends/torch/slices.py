"""Slices with constant bounds: `x[:3]` of two elements has two, and export must not read the bound as a condition on the axis."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import fake_impls

from anyshape.frontends.torch.replacing import replaced
from anyshape.frontends.torch.sizes import TorchSize
from anyshape.symbolic import Size, size_max, size_min


@contextmanager
def slices_clamp() -> Generator[None]:
    """While inside, a constant bound of a slice of a dynamic axis is clamped by the axis in the size of the result.

    Bounds of 0 stay as they are, and 1 and −1 too, which every axis with an element has: there a size of 0 remains a condition, since
    the sizes of nearly all models would be minima without it.
    """
    plain: Callable[[TorchSize, TorchSize], Any] = fake_impls._compute_slice_index  # pyright: ignore[reportPrivateUsage]

    def clamped(size: TorchSize, index: TorchSize) -> Any:
        if isinstance(size, int) or not is_clamped(index):
            return plain(size, index)
        return torch.sym_min(index, size) if index >= 0 else torch.sym_max(size + index, 0)

    with replaced(fake_impls, "_compute_slice_index", clamped):
        yield


def is_clamped(bound: object) -> bool:
    """Whether a bound of a slice is a constant that the axis may be shorter than."""
    return isinstance(bound, int) and 1 < abs(bound) < _OPEN_END


def clamped_bound(bound: int, size: Size) -> Size:
    """A constant bound as a position in an axis of that size."""
    return size_min(size, bound) if bound >= 0 else size_max(size + bound, 0)


_OPEN_END = 2**62
"""Bounds from here on mean the end of the axis."""


__all__ = ["clamped_bound", "is_clamped", "slices_clamp"]
