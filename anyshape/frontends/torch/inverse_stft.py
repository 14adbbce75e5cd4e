"""`torch.istft` of a length that is a size: PyTorch's own takes a number."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Checked = Callable[[Tensor, Tensor, str], Tensor]
_LEAST = 1e-11
"""What PyTorch has the squares of the windows over a sample sum up to at least."""


def istft(
    checked: Checked,
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Tensor:
    """torch.istft of [frequencies, frames] or [batch, frequencies, frames]: Σ wᵢ·frameᵢ / Σ wᵢ² over the frames of a sample.

    Where `length` is a size, there are as wanted zeros behind the last frame: whether they are needed is then no condition.
    `checked` is `anyshape::checked`, which rejects samples that no window covers.
    """
    if not isinstance(length, torch.SymInt) or return_complex:
        plain: Callable[..., Tensor] = torch.istft
        return plain(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
    wanted: Any = length
    hop = n_fft // 4 if hop_length is None else hop_length
    spectrum = input.transpose(-1, -2)
    if spectrum.shape[-1] != n_fft // 2 + 1:  # the rest of a spectrum with two sides is the conjugate of what is before
        spectrum = spectrum[..., : n_fft // 2 + 1]
    frames = torch.fft.irfft(spectrum, n=n_fft, norm="ortho" if normalized else "backward")
    weights = _framed(window, n_fft, n_fft if win_length is None else win_length, frames)
    batch, count = frames.shape[:-2], frames.shape[-2]
    samples = n_fft + hop * (count - 1)

    def overlapped(parts: Tensor, ahead: tuple[Any, ...]) -> Tensor:
        added = torch.ops.aten.unfold_backward(parts, [*ahead, samples], len(ahead), n_fft, hop)
        return torch.cat([added, torch.zeros_like(added[..., :1]).expand(*ahead, wanted)], -1)

    first = n_fft // 2 if center else 0
    signal = overlapped(frames * weights, tuple(batch)).narrow(-1, first, wanted)
    squares = overlapped((weights * weights).expand(count, n_fft), ()).narrow(0, first, wanted)
    is_behind = torch.arange(wanted, device=input.device) >= samples - first
    squares = torch.where(is_behind, torch.ones_like(squares), squares)
    return checked(signal / squares, squares < _LEAST, "samples_that_no_window_covers")


def _framed(window: Tensor | None, n_fft: int, length: int, like: Tensor) -> Tensor:
    """The window, in the middle of a frame."""
    if window is None:
        window = torch.ones(length, dtype=like.dtype, device=like.device)
    left = (n_fft - length) // 2
    return torch.nn.functional.pad(window, (left, n_fft - length - left)) if length != n_fft else window


__all__ = ["istft"]
