"""Connectionist temporal classification: how likely sequences of labels are, over all ways to stretch them in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Sample
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, F64, I64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor


class CtcLoss(Whole, op="ctc_loss"):
    """result[n] = −ln p(targets[n, :l] | log_probs[:t, n]), t = input_lengths[n], l = target_lengths[n]; +inf where no path is that short.

    Operands log_probs [T, N, C] of f32 or f64, targets [N, S], input_lengths [N] in [0, T] and target_lengths [N] in [0, S], all i64;
    result [N]. A path is the labels with blanks between, before and behind them, each repeated at will; blanks may be left out between
    different labels. Of no steps, the result is 0 for no labels. A label outside [0, C) is an error.

    (A. Graves et al., Connectionist Temporal Classification, ICML 2006: the forward variables α, in logarithms.)
    """

    CHECKS_INDICES = True
    DEFAULTS: ClassVar = {"blank": REQUIRED}
    SAMPLES = (
        Sample(
            (("t", "n", "c"), ("n", "s"), ("n",), ("n",)), {"blank": 0}, (F32, F64), {1: I64, 2: I64, 3: I64},
            {0: "finite", 1: "index:c", 2: "index:t", 3: "index:s"}, {"t": 1, "n": 1, "c": 1},
            Oracle("aten.ctc_loss.Tensor", (Arg(0), Arg(1), Arg(2), Arg(3), 0, 0)),
        ),
        Sample(
            (("t", "n", 4), ("n", "s"), ("n",), ("n",)), {"blank": 3}, (F32, F64), {1: I64, 2: I64, 3: I64},
            {0: "unit", 1: "index:3", 2: "index:t+1", 3: "index:s+1"},
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        dtypes = [dtype_of(operand) for operand in operands]
        if len(operands) != 4 or dtypes[0] not in (F32, F64) or set(dtypes[1:]) != {I64}:
            raise VerifyException(
                f"{cls.name} takes log_probs of f32 or f64, and targets and two kinds of lengths of i64"
            )
        if attributes["blank"] < 0:
            raise VerifyException(f"{cls.name}: blank is {attributes['blank']}, expected a label")
        probs, targets, *lengths = (sizes_of(operand) for operand in operands)
        if len(probs) != 3 or len(targets) != 2 or any(each != probs[1:2] for each in (targets[:1], *lengths)):
            shown = [list(map(str, sizes_of(operand))) for operand in operands]
            raise VerifyException(f"{cls.name}: sizes are {shown}, expected [T, N, C], [N, S], [N] and [N]")
        return [tensor(dtypes[0], probs[1:2])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        probs, targets, steps, lengths = operands
        with np.errstate(all="ignore"):
            losses = [
                _loss(probs[: steps[n], n].astype(np.float64), targets[n, : lengths[n]], self.attribute("blank"))
                for n in range(probs.shape[1])
            ]
        return [np.array(losses, dtype=probs.dtype)]


def _loss(probs: Array, labels: Array, blank: int) -> float:
    """−ln of the sum over paths of [t, c] log-probabilities, by the forward variables of all places at once."""
    if not len(probs):
        return np.inf if len(labels) else 0.0
    path = np.full(2 * len(labels) + 1, blank, np.int64)
    path[1::2] = labels
    skips = np.zeros(len(path), bool)
    skips[3::2] = labels[1:] != labels[:-1]
    alpha = np.full(len(path), -np.inf)
    alpha[:2] = probs[0, path[:2]]
    for step in probs[1:]:
        one, two = np.full_like(alpha, -np.inf), np.full_like(alpha, -np.inf)
        one[1:], two[2:] = alpha[:-1], np.where(skips[2:], alpha[:-2], -np.inf)
        alpha = np.logaddexp(np.logaddexp(alpha, one), two) + step[path]
    return -float(np.logaddexp.reduce(alpha[-2:]))


__all__ = ["CtcLoss"]
