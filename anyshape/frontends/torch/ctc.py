"""CTC loss, for which export has no shape rule: what the lengths say is checked, then one op computes the losses of all sequences."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.ctc import CtcLoss
from anyshape.frontends.torch.builder import GraphBuilder, lowers

Checked = Callable[[Tensor, Tensor, str], Tensor]


@torch.library.custom_op("anyshape::ctc", mutates_args=())
def ctc(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """The loss of each sequence: log_probs [T, N, C], targets [N, S]."""
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, 0).clone()


@ctc.register_fake
def _(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    return log_probs.new_empty((log_probs.shape[1],))


@lowers("anyshape.ctc.default")
def lower_ctc(
    builder: GraphBuilder, log_probs: SSAValue, targets: SSAValue, steps: SSAValue, lengths: SSAValue, blank: int
) -> SSAValue:
    return builder.emit(CtcLoss, log_probs, targets, steps, lengths, blank=blank)


def ctc_loss(
    checked: Checked,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """torch.nn.functional.ctc_loss.

    Args:
        checked: a tensor as it is; ValueError where an element of another one holds.
        log_probs: [T, N, C] or [T, C].
        targets: [N, S], or the labels of all sequences one after another.
        input_lengths, target_lengths: numbers of steps and of labels, as integers or a tensor of them.
        reduction: "none", "mean" of the losses divided by the numbers of labels, or "sum"; or 0, 1 and 2.
    """
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}')
    if not 0 <= blank < log_probs.shape[-1]:
        raise RuntimeError("blank must be in label range")
    is_batch = log_probs.dim() == 3
    probs = log_probs if is_batch else log_probs.unsqueeze(1)
    steps, lengths = (_lengths(each) for each in (input_lengths, target_lengths))
    for each, what in ((steps, "input_lengths"), (lengths, "target_lengths")):
        if each.shape[0] != probs.shape[1]:
            raise RuntimeError(f"{what} must be of size batch_size")
    steps = checked(steps, (steps > probs.shape[0]) | (steps < 0), "input_lengths_beyond_the_log_probs")
    labels, room = _padded(targets.long(), lengths, is_batch=is_batch)
    if labels.shape[0] != probs.shape[1]:
        raise RuntimeError(
            f"Expected tensor to have size {probs.shape[1]} at dimension 0, but got size {labels.shape[0]} for the targets"
        )
    lengths = checked(lengths, room | (lengths < 0), "target_lengths_beyond_the_targets")
    losses = ctc(probs, labels, steps, lengths, blank)
    if zero_infinity:
        losses = torch.where(losses == math.inf, 0.0, losses)
    if reduction in ("mean", 1):
        return (losses / lengths.clamp(min=1).to(losses.dtype)).mean()
    if reduction in ("sum", 2):
        return losses.sum()
    return losses if is_batch else losses.squeeze(0)


def _lengths(lengths: Tensor | Sequence[int]) -> Tensor:
    """[N], i64."""
    found = lengths if isinstance(lengths, Tensor) else torch.tensor(lengths, dtype=torch.int64)
    return found.long().reshape(-1)


def _padded(targets: Tensor, lengths: Tensor, *, is_batch: bool) -> tuple[Tensor, Tensor]:
    """(labels [N, S], which sequences have more labels than there are). Labels one after another are as many columns as labels."""
    if targets.dim() == 2 or not is_batch:
        rows = targets if targets.dim() == 2 else targets.unsqueeze(0)
        return rows, lengths > rows.shape[1]
    count = targets.shape[0]
    ends = lengths.cumsum(0)
    places = (ends - lengths).unsqueeze(1) + torch.arange(count)
    return targets[places.clamp(0, count - 1)], ends > count


__all__ = ["ctc", "ctc_loss", "lower_ctc"]
