"""Parts of an axis that is padded: the elements of the operand in the middle, and what is beside them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue


@dataclass(frozen=True)
class AxisPart:
    """What is known of an index along the last axis of a padded value.

    Args:
        local: the index along the operand's axis, in which it lies; None where it lies beside.
    """

    local: SSAValue | None


__all__ = ["AxisPart"]
