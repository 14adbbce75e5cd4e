"""Ops that only raise: PyTorch keeps those in a graph that it knows to have effects."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from __future__ import annotations

from functools import cache

from torch._higher_order_ops import effects

_CHECK = "aten::_linalg_check_errors"


@cache
def keep_checks() -> None:
    """Have the check of what `torch.linalg` computes kept in graphs, which PyTorch does itself from 2.13 on.

    Before, graphs of PyTorch's own lose it, and a singular matrix has an inverse of infinities. Known once, it is for the process.
    """
    if effects._get_effect(_CHECK) is None:
        effects._register_effectful_op(_CHECK, effects._EffectType.ORDERED)


__all__ = ["keep_checks"]
