"""Whether two ways to compute a model's results give the same."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch

CALL_ERRORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, ZeroDivisionError)
"""What a model raises for inputs that it does not take."""

_TOLERANCE = 1e-3
"""Relative to the largest output: far above rounding, far below another computation."""


def close(got: object, expected: object) -> bool:
    """Equal, up to rounding where they are tensors of floating-point numbers; NaN equals NaN."""
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return got == expected
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(got, expected)
    scale = float(expected.abs().nan_to_num().max()) if expected.numel() else 0.0
    return torch.allclose(got, expected, rtol=_TOLERANCE, atol=_TOLERANCE * max(scale, 1e-6), equal_nan=True)


__all__ = ["CALL_ERRORS", "close"]
