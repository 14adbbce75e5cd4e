"""What a launch needs to know of a claimed kernel."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.symbolic import Size


@dataclass(frozen=True)
class Schedule:
    """Sizes over a kernel's symbols, as `ral_launch` takes them.

    Args:
        extent: number of tasks, what `[begin, end)` of the kernel counts.
        grain: tasks that are worth handing to another thread.
        scratch_bytes: bytes of scratch of each worker.
    """

    extent: Size
    grain: Size
    scratch_bytes: Size
