"""Decide which ops become one kernel.

The graph is walked from results to arguments; each op joins the group of its users where that is possible, else it
starts a group. Nothing is rewritten here: the result is a side table of groups and, for every edge between two
groups, the reason why it was not fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import BroadcastInDim, Constant, DotGeneral, Iota, Reduce, SizeOf, Transpose
from anyshape.fusion.layout import can_multiply
from anyshape.fusion.roles import (
    Role,
    cost_of,
    domain_of,
    is_elementwise,
    is_layout,
    reads_anywhere,
    repeats,
    role_of,
    without_ones,
)
from anyshape.symbolic import Size

Domain = tuple[Size, ...]
CHEAP = 2
"""An op up to this cost may be computed again for every element that a broadcast makes of it."""
MAX_INPUTS = 32
"""Buffers that one kernel may take; more would spill its pointers."""


@dataclass(frozen=True)
class Space:
    """What the reductions of a group share: the points reduced over, the points kept, and the axes that go."""

    domain: Domain
    kept: Domain
    axes: tuple[int, ...]

    @property
    def innermost(self) -> bool:
        """Whether exactly the last axes go, so that one row is one outer point."""
        return self.axes == tuple(range(len(self.kept), len(self.domain)))


@dataclass(eq=False)
class Group:
    """Ops of one future kernel, in reverse program order, with the values that leave it."""

    number: int
    domain: Domain
    ops: dict[Operation, None] = field(default_factory=dict[Operation, None])
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])
    space: Space | None = None
    anchor: Operation | None = None
    amplified: set[Operation] = field(default_factory=set[Operation])
    """Ops that are computed again for elements of a broadcast."""
    upstream: set[Operation] = field(default_factory=set[Operation])
    """Layouts of the anchor's operands."""

    @property
    def kind(self) -> str:
        if self.anchor is not None:
            return "contract" if role_of(self.anchor) is Role.CONTRACT else "attend"
        return "loop" if self.space is None else "reduce"


@dataclass(frozen=True)
class Edge:
    """A value that goes through memory, and why."""

    producer: Operation
    consumer: Operation
    reason: str


@dataclass
class Decision:
    """The side table that fusion leaves: groups, and reasons for the edges between them."""

    groups: list[Group] = field(default_factory=list[Group])
    homes: dict[Operation, list[Group]] = field(default_factory=dict[Operation, list[Group]])
    edges: list[Edge] = field(default_factory=list[Edge])

    def homes_of(self, op: Operation) -> list[Group]:
        return self.homes.get(op, [])


def decide_fusion(func: FuncOp) -> Decision:
    """Groups for every op of `func` that is neither a weight nor a view, all ops expanded beforehand."""
    decision = Decision()
    for op in reversed(list(func.body.block.ops)):
        if not op.results or role_of(op) in (Role.RESIDENT, Role.VIEW):
            continue
        _place(op, decision)
    return decision


def _place(op: Operation, decision: Decision) -> None:
    users = _users(op)
    homes = list(dict.fromkeys(group for user in users for group in decision.homes_of(user)))
    outside = [user for user in users if not decision.homes_of(user)]
    if _can_repeat(op) and not outside and homes:
        refused = [group for group in homes if (why := _why_not(op, group, users, decision)) is not None]
        if not refused:
            for group in homes:
                _join(op, group, decision)
            return
    for group in homes:
        reason = _why_not(op, group, users, decision)
        if reason is None:
            _join(op, group, decision)
            if outside or len(homes) > 1:
                group.outputs.extend(op.results)
            return
        decision.edges.extend(Edge(op, user, reason) for user in users if group in decision.homes_of(user))
    group = Group(len(decision.groups), domain_of(op.results[0]), outputs=list(op.results))
    decision.groups.append(group)
    _join(op, group, decision)


def _users(op: Operation) -> list[Operation]:
    return list(dict.fromkeys(use.operation for result in op.results for use in result.uses))


def _can_repeat(op: Operation) -> bool:
    """Whether several groups may each have their own copy of this op, since it is only index arithmetic."""
    return isinstance(op, Constant | SizeOf | Iota | BroadcastInDim) or (is_layout(op) and not isinstance(op, Transpose))


def _join(op: Operation, group: Group, decision: Decision) -> None:
    group.ops[op] = None
    decision.homes.setdefault(op, []).append(group)
    match role_of(op):
        case Role.REDUCE:
            assert isinstance(op, Reduce)
            group.space = space_of(op)
        case Role.CONTRACT | Role.ATTEND:
            group.anchor = op
        case _:
            pass
    users = [user for user in _users(op) if user in group.ops]
    if any(user is group.anchor or user in group.upstream for user in users):
        group.upstream.add(op)
    if any(user in group.amplified or (repeats(user) and not _broadcasts_rows(user)) for user in users):
        group.amplified.add(op)


def _broadcasts_rows(op: Operation) -> bool:
    """Whether a broadcast only adds axes behind those of its operand, so that the operand is computed once a row."""
    if not isinstance(op, BroadcastInDim):
        return False
    kept = [axis for axis, size in zip(op.attribute("dimensions"), op.operand_sizes(), strict=True) if size != Size.const(1)]
    leading = [axis for axis, size in enumerate(op.result_sizes) if size != Size.const(1)][: len(kept)]
    return kept == leading


def space_of(op: Reduce) -> Space:
    """The space of one reduction, axes of size 1 left out."""
    sizes = op.operand_sizes()
    real = [axis for axis, size in enumerate(sizes) if size != Size.const(1)]
    gone = set(op.attribute("axes"))
    return Space(
        domain=without_ones(sizes),
        kept=tuple(sizes[axis] for axis in real if axis not in gone),
        axes=tuple(position for position, axis in enumerate(real) if axis in gone),
    )


def _why_not(op: Operation, group: Group, users: Sequence[Operation], decision: Decision) -> str | None:
    """None when `op` may join `group`, else the reason why not."""
    inside = [user for user in users if user in group.ops]
    others = [user for user in users if user not in group.ops]
    if _inputs_after(op, group) > MAX_INPUTS:
        return f"the kernel would read more than {MAX_INPUTS} buffers"
    for user in inside:
        if any(reads_anywhere(user, position) for position, value in enumerate(user.operands) if value.owner is op):
            return f"{user.name} reads it at points known only at run time"
    match role_of(op):
        case Role.POINT:
            reason = _why_not_point(op, group, inside)
        case Role.REDUCE:
            assert isinstance(op, Reduce)
            reason = _why_not_reduce(op, group)
        case Role.CONTRACT:
            reason = _why_not_contract(op, group, inside)
        case _:
            reason = _why_not_attend(op, group)
    if reason is None and others and not _can_repeat(op):
        reason = _why_not_output(op, group, others, decision)
    return reason


def _inputs_after(op: Operation, group: Group) -> int:
    members = {*group.ops, op}
    return len({value for member in members for value in member.operands if value.owner not in members})


def _why_not_point(op: Operation, group: Group, inside: Sequence[Operation]) -> str | None:
    if group.anchor is not None and any(user is group.anchor or user in group.upstream for user in inside):
        return _why_not_factor(op, group.anchor, group)
    if group.kind == "attend":
        return "attention takes nothing but layouts around it"
    amplified = any(user in group.amplified or (repeats(user) and not _broadcasts_rows(user)) for user in inside)
    if amplified and cost_of(op) > CHEAP:
        return "a broadcast would compute it again for every element"
    return None


def _why_not_factor(op: Operation, anchor: Operation, group: Group) -> str | None:
    if not is_layout(op):
        return f"{anchor.name} reads it many times"
    if isinstance(anchor, DotGeneral):
        return can_multiply(anchor, inside={*group.ops, op})
    return None


def _why_not_reduce(op: Reduce, group: Group) -> str | None:
    space = space_of(op)
    if group.anchor is not None:
        return f"a reduction cannot be part of a {group.kind} kernel"
    if group.space is not None:
        return None if group.space == space else "the kernel already reduces over another space"
    if group.domain == space.kept:
        return None
    if group.domain != space.domain:
        return "its consumer runs over other points"
    return None if space.innermost else "its axis is not innermost, so every row would need the whole tensor first"


def _why_not_contract(op: Operation, group: Group, inside: Sequence[Operation]) -> str | None:
    if group.kind != "loop":
        return f"a product does not end in a {group.kind} kernel"
    if len(group.outputs) != 1:
        return "the consumer has several results"
    if domain_of(op.results[0]) != group.domain:
        return "its consumer runs over other points"
    moved = [user for user in _closure(inside, group) if not is_elementwise(user)]
    if moved:
        return f"{moved[0].name} moves its elements"
    return None


def _why_not_attend(op: Operation, group: Group) -> str | None:
    if group.kind != "loop" or not all(isinstance(member, Transpose) for member in group.ops):
        return "attention ends in nothing but a transpose"
    return None


def _closure(start: Iterable[Operation], group: Group) -> list[Operation]:
    """The ops of `group` that depend on `start`, itself included."""
    found: dict[Operation, None] = {}
    work = list(start)
    while work:
        op = work.pop()
        if op in found or op not in group.ops:
            continue
        found[op] = None
        work.extend(_users(op))
    return list(found)


def _why_not_output(op: Operation, group: Group, others: Sequence[Operation], decision: Decision) -> str | None:
    """Whether the value may leave the group as one more result while others use it too."""
    if group.anchor is not None:
        return "it has other users, and a product or attention has one result"
    domain = domain_of(op.results[0])
    fits = {group.domain} if group.space is None else {group.domain, group.space.domain, group.space.kept}
    if domain not in fits:
        return "it has other users and runs over other points"
    if op in group.amplified:
        return "it has other users"
    if _reaches(others, group, decision):
        return "another user of it comes before this kernel"
    return None


def _reaches(start: Sequence[Operation], group: Group, decision: Decision) -> bool:
    """Whether the group depends on any of `start`, groups taken as one step."""
    seen: set[Operation] = set()
    work = list(start)
    while work:
        op = work.pop()
        if op in seen:
            continue
        seen.add(op)
        if op in group.ops:
            return True
        for home in decision.homes_of(op):
            work.extend(user for member in home.ops for user in _users(member) if user not in seen)
        work.extend(_users(op))
    return False
