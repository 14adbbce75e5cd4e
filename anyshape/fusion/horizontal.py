"""Groups that do not depend on one another become one kernel where they run over the same points.

It saves a launch, and what both read is read once. Groups are merged that read the same value or kernel, or that read nothing
but arguments of the graph (masks and positions, at its beginning): others may lie far apart in the program, and their results
would live longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import Weight
from anyshape.fusion.descent import Descent
from anyshape.fusion.groups import Decision, Group

MAX_BUFFERS = 8
"""Buffers of a merged kernel: as many streams as a core's prefetchers follow."""
LOOK_BACK = 8
"""Groups over the same points that are tried, the latest first, so that deciding stays linear in the graph."""


def merge_independent(decision: Decision, ops: Iterable[Operation]) -> None:
    """Merge groups of a decided graph with these ops; the edges between the groups that are left keep their reasons."""
    descent = Descent(decision, ops)
    alike: dict[Hashable, list[Group]] = {}
    for group in reversed(list(decision.groups)):  # from arguments to results: merged kernels make their readers alike
        if group.anchor is not None or group.is_whole:
            continue
        candidates = alike.setdefault((group.kind, group.domain, group.space, group.scanned), [])
        home = next(
            (each for each in reversed(candidates[-LOOK_BACK:]) if _may_merge(each, group, decision, descent)), None
        )
        if home is None:
            candidates.append(group)
        else:
            _merge(group, home, decision)
            descent.merge(group, home)


def _may_merge(first: Group, second: Group, decision: Decision, descent: Descent) -> bool:
    inputs = first.inputs | second.inputs
    if len(inputs) + len(first.outputs) + len(second.outputs) > MAX_BUFFERS:
        return False
    early = first.space is None and all(isinstance(value.owner, Block | Weight) for value in inputs)
    if _sources(first, decision).isdisjoint(_sources(second, decision)) and not early:
        return False
    return not descent.depends(first, second) and not descent.depends(second, first)


def _sources(group: Group, decision: Decision) -> set[SSAValue | Group]:
    """What a group reads: values from outside of groups, and the groups that compute the others."""
    found: set[SSAValue | Group] = set()
    for value in group.inputs:
        makers = decision.homes_of(value.owner) if isinstance(value.owner, Operation) else []
        found.update(makers or [value])
    return found


def _merge(group: Group, home: Group, decision: Decision) -> None:
    """Everything of `group` becomes part of `home`."""
    home.outputs.extend(value for value in group.outputs if value not in home.outputs)
    home.amplified |= group.amplified
    for op, routes in group.routes.items():
        home.routes[op] = home.routes.get(op, frozenset()) | routes
    decision.absorb(group, home)
