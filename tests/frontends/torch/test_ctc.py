"""CTC loss and histograms of several dimensions: one program for all sizes, values as eager, and what the data may not be."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import anyshape
from anyshape.support.errors import GuardError, IndexOutOfRange

Data = tuple[Tensor, Tensor, Tensor, Tensor]


class _Loss(torch.nn.Module):
    def __init__(self, reduction: str, zero_infinity: bool = False) -> None:
        super().__init__()
        self._reduction, self._zero_infinity = reduction, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
        return functional.ctc_loss(
            log_probs, targets, steps, lengths, reduction=self._reduction, zero_infinity=self._zero_infinity
        )


def _data(steps: int, batch: int, classes: int, labels: int, *, is_flat: bool = False) -> Data:
    torch.manual_seed(steps)
    lengths = torch.randint(0, labels + 1, (batch,))
    sizes = (int(lengths.sum()),) if is_flat else (batch, labels)
    targets = torch.randint(1, classes, sizes)
    return torch.randn(steps, batch, classes).log_softmax(-1), targets, torch.randint(1, steps + 1, (batch,)), lengths


@pytest.mark.parametrize("is_flat", (False, True))
@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
def test_losses_are_pytorchs(reduction: str, is_flat: bool) -> None:
    model = _Loss(reduction, zero_infinity=reduction == "mean")
    program = anyshape.compile(model, _data(7, 3, 5, 4, is_flat=is_flat))
    for sizes in ((12, 5, 6, 3), (1, 1, 3, 1), (50, 16, 20, 20), (3, 2, 2, 0)):
        data = _data(*sizes, is_flat=is_flat)
        torch.testing.assert_close(program(*data), model(*data))


def test_lengths_and_labels_are_checked() -> None:
    log_probs, targets, steps, lengths = _data(7, 3, 5, 4)
    program = anyshape.compile(_Loss("none"), (log_probs, targets, steps, lengths))
    with pytest.raises(GuardError, match="input lengths beyond the log probs"):
        program(log_probs, targets, steps + 7, lengths)
    with pytest.raises(GuardError, match="target lengths beyond the targets"):
        program(log_probs, targets, steps, lengths + 5)
    with pytest.raises(IndexOutOfRange, match=r"is out of range \[0, 5\)"):
        program(log_probs, targets + 9, steps, torch.tensor([4, 4, 4]))


class _Histogram(torch.nn.Module):
    def __init__(self, bounds: list[float] | None) -> None:
        super().__init__()
        self._bounds = bounds

    def forward(self, x: Tensor, weight: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        found = torch.histogramdd(x, (2, 3), range=self._bounds, weight=weight)
        return found.hist, found.bin_edges


@pytest.mark.parametrize("bounds", (None, [0.0, 1.0, -1.0, 2.0]))
def test_histograms_of_two_dimensions(bounds: list[float] | None) -> None:
    model = _Histogram(bounds)
    program = anyshape.compile(model, (torch.randn(9, 2), torch.rand(9)))
    for rows in (0, 1, 33):
        data = torch.randn(rows, 2), torch.rand(rows)
        torch.testing.assert_close(program(*data), model(*data))
