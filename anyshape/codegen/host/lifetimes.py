"""Which buffers of a host program lie in the arena, and from which step to which they are alive.

The steps of a program are its `dense`, `launch`, `read` and `check` ops, numbered in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from anyshape.dialects.host import AllocateOp, CheckOp, DenseOp, LaunchOp, ProgramOp, ReadOp, root_of


@dataclass(frozen=True)
class ArenaBuffer:
    """The result of an `allocate` or `dense`, alive in the closed interval of steps [first, last]."""

    value: SSAValue
    first: int
    last: int


def arena_buffers(program: ProgramOp) -> list[ArenaBuffer]:
    """The buffers to place in the arena, in order of birth; those that no step uses need no place.

    A use of a view is a use of what it views. A copy made by `dense` is born at that step.
    """
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    step = 0
    for op in program.body.block.ops:
        if isinstance(op, DenseOp):
            first[op.result] = last[op.result] = step
        elif isinstance(op, LaunchOp | ReadOp | CheckOp):
            for root in map(root_of, op.operands):
                if isinstance(root.owner, AllocateOp | DenseOp):
                    first.setdefault(root, step)
                    last[root] = step
        else:
            continue
        step += 1
    return [ArenaBuffer(value, begin, last[value]) for value, begin in first.items()]
