"""Which groups and ops of a decided graph depend on one another, kept up to date while groups are merged.

Asking the graph each time (`groups.reaches`) is linear in it, so that asking for each pair of groups is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation

from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.fusion.groups import Decision, Group, ops_of_size, users_of

Step = Operation | Group
"""A group, or an op that belongs to none."""


class Descent:
    """For every step the set of steps that depend on it, as the bits of an integer.

    Args:
        decision: the groups.
        ops: the ops of the graph.
    """

    def __init__(self, decision: Decision, ops: Iterable[Operation]) -> None:
        self._decision = decision
        steps: list[Step] = [*decision.groups, *(op for op in ops if not decision.homes_of(op))]
        self._bits: dict[Step, int] = {step: 1 << number for number, step in enumerate(steps)}
        readers = {step: list(dict.fromkeys(self._readers(step))) for step in steps}
        self._after = {step: sum(map(self._bits.__getitem__, readers[step])) for step in steps}
        # Groups stand in reverse program order and ops in program order: what is read comes after what reads it.
        ordered = [*decision.groups, *reversed(steps[len(decision.groups) :])]
        changes = True
        while changes:
            changes = False
            for step in ordered:
                after = self._after[step]
                for reader in readers[step]:
                    after |= self._after[reader]
                changes |= after != self._after[step]
                self._after[step] = after

    def depends(self, group: Group, other: Group) -> bool:
        """Whether `group` reads, maybe through further steps, what `other` computes."""
        return bool(self._after[other] & self._bits[group])

    def merge(self, group: Group, home: Group) -> None:
        """Both are one step from now on; neither may depend on the other."""
        bits = self._bits[home] = self._bits[home] | self._bits.pop(group)
        after = self._after[home] = self._after[home] | self._after.pop(group)
        for step, steps in self._after.items():
            if steps & bits:
                self._after[step] = steps | bits | after

    def _readers(self, step: Step) -> Iterator[Step]:
        for value in step.outputs if isinstance(step, Group) else step.results:
            yield from self._steps(users_of(value))
        if isinstance(step, ReadSize):
            yield from self._steps(ops_of_size(step))

    def _steps(self, ops: Sequence[Operation]) -> Iterator[Step]:
        for op in ops:
            yield from self._decision.homes_of(op) or [op]
