"""`torch.istft(length=x.shape[1])` fixed the length: PyTorch's function takes a number there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

CASES: dict[str, dict[str, Any]] = {
    "window": {"window": torch.hann_window(16)},
    "no window": {"hop_length": 8},
    "short window": {"window": torch.hann_window(12), "win_length": 12, "hop_length": 3},
    "two sides": {"window": torch.hamming_window(16), "onesided": False, "normalized": True},
    "no centre": {"window": torch.hamming_window(16), "center": False},
}


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(case: str) -> None:
    options = CASES[case]

    def around(x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 16, return_complex=True, **options)
        return torch.istft(spectrum, 16, length=x.shape[-1], **options)

    program = compiled(around, torch.randn(2, 64))
    for shape in ((2, 64), (2, 80), (1, 70), (3, 67), (2, 33)):
        check(program, around, torch.randn(shape))


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
def test_lengths_of_their_own() -> None:
    def back(spectrum: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return torch.istft(spectrum, 16, window=torch.hann_window(16), length=like.shape[0])

    spectrum = torch.stft(torch.randn(64), 16, window=torch.hann_window(16), return_complex=True)
    program = compiled(back, spectrum, torch.randn(50))
    for length in (50, 1, 64, 71):
        check(program, back, spectrum, torch.randn(length))


def test_samples_that_no_window_covers() -> None:
    def around(x: torch.Tensor) -> torch.Tensor:
        options: dict[str, Any] = {"hop_length": 16, "window": torch.hann_window(16), "center": False}
        return torch.istft(torch.stft(x, 16, return_complex=True, **options), 16, length=x.shape[0], **options)

    with pytest.raises(RuntimeError, match="window overlap add min"):
        around(torch.randn(64))
    with pytest.raises(GuardError, match="no window covers"):
        compiled(around, torch.randn(64))(torch.randn(64))
