"""Reshapes without questions that only this example's sizes answer.

PyTorch searches a view among the axes, from left to right: is this length that axis, does it divide it? In an example of 4 x 4 the answer
may be yes by accident, and the accident becomes a condition of the program. All that a reshape needs is the number of elements.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import _prims_common, _refs

from anyshape.frontends.torch.replacing import replaced


@contextmanager
def reshapes_free() -> Generator[None]:
    """While inside, a row-major tensor is viewed with any sizes of as many elements; others are, as before, where a view is found."""

    def viewed(x: torch.Tensor, shape: Any, allow_copy: bool) -> torch.Tensor:
        if _prims_common.is_contiguous_or_false(x):
            return torch.as_strided(x, shape, _prims_common.make_contiguous_strides_for(shape))
        return search(x, shape, allow_copy)

    search: Callable[..., torch.Tensor] = _refs._reshape_view_helper_core_alg  # pyright: ignore[reportPrivateUsage]
    with replaced(_refs, "_reshape_view_helper_core_alg", viewed):
        yield


__all__ = ["reshapes_free"]
