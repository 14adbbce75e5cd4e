"""Ops whose kernel computes nothing else: sorts, scatters, searches."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from anyshape.dialects.dhlo.base import DhloOp


class Whole(DhloOp, ABC):
    """An op that reads all of its operands in memory and is one kernel by itself, `tile.whole`, which a target claims by the op's name."""

    PLANNED = True
    CHECKS_INDICES: ClassVar[bool] = False
    """Whether its kernel reports indices that are out of range."""


__all__ = ["Whole"]
