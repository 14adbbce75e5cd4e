"""Decide which ops become one kernel.

The graph is walked from results to arguments; each op joins the group of its users where that is possible, else it
starts a group. Nothing is rewritten here: the result is a side table of groups and, for every edge between two
groups, the reason why it was not fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Constant,
    Convolution,
    DotGeneral,
    Iota,
    QuantisedDot,
    Reduce,
    Reshape,
    Scan,
    SizeOf,
    Transpose,
)
from anyshape.fusion.alignment import HERE, broadcasts_rows, keeps_rows, routes_of, spread_axes, why_not_aligned
from anyshape.fusion.groups import MAX_INPUTS, Decision, Edge, Group, reaches, users_of_op
from anyshape.fusion.horizontal import merge_independent
from anyshape.fusion.layout import can_multiply, layout_of
from anyshape.fusion.prologues import Judge, fuse_prologues
from anyshape.fusion.roles import (
    Role,
    checks_indices,
    cost_of,
    domain_of,
    is_elementwise,
    is_layout,
    is_unit_reshape,
    reads_anywhere,
    repeats,
    role_of,
)
from anyshape.fusion.space import scanned_space, space_of

CHEAP = 2
"""An op up to this cost may be computed again for every element that a broadcast makes of it."""
RECOMPUTED = 8
"""Simple operations that may be repeated at a point, rather than write a value to memory and read it back."""
MAX_ROUTES = 16
"""Points at which one kernel may read an op that costs nothing, and moves on the way to one; plans stay as small as graphs."""
TAKEN = "another kernel computes it, and this one reads what that wrote"
ENDS_PRODUCT = "it has other users, and the product before it computes it in its epilogue"
IN_EPILOGUE = "the product before it computes it once, in its epilogue, and the kernel would at several points"
SEPARATE = "the reshape between gives the same memory other axes"


def decide_fusion(func: FuncOp, why_no_prologue: Judge | None = None) -> Decision:
    """Groups for every op of `func` that is neither a weight nor a view, all ops expanded beforehand.

    Args:
        why_no_prologue: whether a product should compute its left factor itself; none does where it is not given.
    """
    decision = Decision()
    for op in reversed(list(func.body.block.ops)):
        if not op.results or role_of(op) is Role.RESIDENT:
            continue
        if role_of(op) is Role.VIEW and not _is_factor_view(op, decision):
            continue
        if is_unit_reshape(op) and _is_read_whole(op, decision):
            continue
        _place(op, decision)
    if why_no_prologue is not None:
        fuse_prologues(decision, why_no_prologue)
    merge_independent(decision, func.body.block.ops)
    return decision


def _place(op: Operation, decision: Decision) -> None:
    users = users_of_op(op)
    homes = list(dict.fromkeys(group for user in users for group in decision.homes_of(user)))
    outside = any(not decision.homes_of(user) for user in users)
    if _can_repeat(op) and homes and not outside and all(_why_not_member(op, group) is None for group in homes):
        for group in homes:
            _join(op, group, decision)
        return
    home: Group | None = None
    for group in homes:
        reason = TAKEN if home else _why_not(op, group, users, decision)
        if reason is None:
            home = group
            continue
        decision.edges.extend(Edge(op, user, reason) for user in users if group in decision.homes_of(user))
    decision.edges.extend(
        Edge(op, user, SEPARATE) for user in users if isinstance(user, Reshape) and not decision.homes_of(user)
    )
    if home is None:
        home = Group(len(decision.groups), domain_of(op.operands[1] if role_of(op) is Role.UPDATE else op.results[0]))
        decision.groups.append(home)
    if outside or homes != [home]:
        home.outputs.extend(op.results)
    _join(op, home, decision)


def _is_factor_view(op: Operation, decision: Decision) -> bool:
    """Whether a view is read by one product or attention only, whose kernel can take it as strides of what it views."""
    users = users_of_op(op)
    homes = [decision.homes_of(user) for user in users]
    if not homes or any(home != homes[0] or len(home) != 1 for home in homes):
        return False
    (group,) = homes[0]
    is_factor = all(user is group.anchor or user in group.upstream for user in users)
    return is_factor and group.anchor is not None and _why_not_factor(op, group.anchor, group) is None


def _is_read_whole(op: Operation, decision: Decision) -> bool:
    """Whether only kernels of one op read a value: they take what it is in memory."""
    homes = [decision.homes_of(user) for user in users_of_op(op)]
    return bool(homes) and all(len(home) == 1 and home[0].is_whole for home in homes)


def _can_repeat(op: Operation) -> bool:
    """Whether several groups may each have their own copy of this op, since it is only index arithmetic."""
    return isinstance(op, Constant | SizeOf | Iota | BroadcastInDim) or (
        is_layout(op) and not isinstance(op, Transpose)
    )


def _join(op: Operation, group: Group, decision: Decision) -> None:
    group.ops[op] = None
    group.inputs.difference_update(op.results)
    group.inputs.update(value for value in op.operands if value.owner not in group.ops)
    decision.homes.setdefault(op, []).append(group)
    match role_of(op):
        case Role.REDUCE:
            assert isinstance(op, Reduce)
            group.space = space_of(op)
        case Role.SCAN:
            assert isinstance(op, Scan)
            group.scanned = scanned_space(op)
        case Role.CONTRACT | Role.ATTEND:
            group.anchor = op
        case Role.UPDATE:
            group.is_update = True
        case Role.WHOLE:
            group.is_whole = True
        case _:
            pass
    users = [user for user in users_of_op(op) if user in group.ops]
    if any(user is group.anchor or user in group.upstream for user in users):
        group.upstream.add(op)
    if any(_is_amplified(user, group) for user in users):
        group.amplified.add(op)
    routes = routes_of(op, users, group.routes)
    group.routes[op] = routes | {HERE} if not users else routes


def _why_not(op: Operation, group: Group, users: Sequence[Operation], decision: Decision) -> str | None:
    """None when `op` may join `group` as the only one that computes it, else the reason why not."""
    reason = _why_not_member(op, group)
    others = [user for user in users if decision.homes_of(user) != [group]]
    if reason is None and others:
        return ENDS_PRODUCT if _ends_product(op) else _why_not_output(op, group, others, decision)
    return reason


def _ends_product(op: Operation) -> bool:
    """Whether a product can compute an op as its epilogue: there are elementwise ops between, which nobody else reads."""
    between, work = {op}, [op]
    while work:
        last = work.pop()
        if not is_elementwise(last) and not is_unit_reshape(last):
            continue
        for value in last.operands:
            owner = value.owner
            if not isinstance(owner, Operation) or owner in between or domain_of(value) != domain_of(op.results[0]):
                continue
            if all(
                use.operation in between for use in value.uses
            ):  # met again where another of its readers is found later
                if role_of(owner) is Role.CONTRACT:
                    return True
                between.add(owner)
                work.append(owner)
    return False


def _why_not_member(op: Operation, group: Group) -> str | None:
    """None when `group` may compute `op` for its own ops, else the reason why not."""
    if group.is_whole or role_of(op) is Role.WHOLE:
        return f"{next(iter(group.ops)).name if group.is_whole else op.name} is a kernel by itself"
    inside = [user for user in users_of_op(op) if user in group.ops]
    if _inputs_after(op, group) > MAX_INPUTS:
        return f"the kernel would read more than {MAX_INPUTS} buffers"
    for user in inside:
        if role_of(user) is Role.UPDATE and user.operands[0].owner is op:
            return "it is updated where it lies"
        if any(reads_anywhere(user, position) for position, value in enumerate(user.operands) if value.owner is op):
            return f"{user.name} reads it at points known only at run time"
    match role_of(op):
        case Role.POINT | Role.VIEW:
            return _why_not_point(op, group, inside)
        case Role.REDUCE:
            assert isinstance(op, Reduce)
            return _why_not_reduce(op, group)
        case Role.SCAN:
            assert isinstance(op, Scan)
            return _why_not_scan(op, group, inside)
        case Role.CONTRACT:
            return _why_not_contract(op, group, inside)
        case Role.UPDATE:
            return "its result lies in memory that others write too"
        case _:
            return _why_not_attend(group)


def _inputs_after(op: Operation, group: Group) -> int:
    """How many buffers the kernel would read if `op` joined the group."""
    computed = sum(value in group.inputs for value in op.results)
    new = {value for value in op.operands if value not in group.inputs and value.owner not in group.ops}
    return len(group.inputs) - computed + len(new)


def _why_not_point(op: Operation, group: Group, inside: Sequence[Operation]) -> str | None:
    if group.anchor is not None and any(user is group.anchor or user in group.upstream for user in inside):
        return _why_not_factor(op, group.anchor, group)
    if group.kind == "attend":
        return "attention takes nothing but layouts around it"
    if group.anchor is not None and checks_indices(op):
        return f"it checks indices, which the epilogue of {group.anchor.name} cannot report"
    if cost_of(op) > CHEAP and any(_is_amplified(user, group) for user in inside):
        return "a broadcast would compute it again for every element"
    routes = routes_of(op, inside, group.routes)
    if len(routes) > 1 and _ends_product(op):
        return IN_EPILOGUE
    if cost_of(op) * (len(routes) - 1) > RECOMPUTED or len(routes) > MAX_ROUTES:
        return f"the kernel would compute it at {len(routes)} points for each of its own"
    if any(len(route) > MAX_ROUTES for route in routes):
        return f"there would be more than {MAX_ROUTES} ops between that move elements"
    return None


def _is_amplified(user: Operation, group: Group) -> bool:
    """Whether an operand of `user` is computed again for each of several elements."""
    if user in group.amplified:
        return True
    if not isinstance(user, BroadcastInDim) or not repeats(user):
        return False
    space = group.space
    if space is not None and not space.innermost and domain_of(user.result) == space.domain:
        return not set(spread_axes(user)) <= set(space.kept_axes)  # the kept axes are the outer loops
    return not broadcasts_rows(user) or not all(keeps_rows(route) for route in group.routes[user])


def _why_not_factor(op: Operation, anchor: Operation, group: Group) -> str | None:
    """None when `op` only says how a factor of the anchor lies in memory, and strides can say it."""
    inside = {*group.ops, op}
    try:
        for operand in anchor.operands:
            layout_of(operand, inside)
    except ValueError as error:
        return f"{anchor.name} reads it many times, and {error}"
    return can_multiply(anchor, inside) if isinstance(anchor, Convolution | DotGeneral | QuantisedDot) else None


def _why_not_reduce(op: Reduce, group: Group) -> str | None:
    space = space_of(op)
    if group.anchor is not None or group.scanned is not None or group.is_update:
        return f"a reduction cannot be part of a {group.kind} kernel"
    if group.space is not None:
        return (
            why_not_aligned(op, group.ops) if group.space == space else "the kernel already reduces over another space"
        )
    if group.domain not in (space.kept, space.domain):
        return "its consumer runs over other points"
    if group.domain == space.domain and not space.innermost:
        return "its axis is not innermost, so every row would need the whole tensor first"
    return why_not_aligned(op, group.ops)


def _why_not_scan(op: Scan, group: Group, inside: Sequence[Operation]) -> str | None:
    """A scan is met at the points of the group themselves, in the order of its axis."""
    space = scanned_space(op)
    if group.kind not in ("loop", "scan"):
        return f"a scan cannot be part of a {group.kind} kernel"
    if group.scanned not in (None, space):
        return "the kernel already scans along another axis"
    if group.domain != space.domain:
        return "its consumer runs over other points"
    if routes_of(op, inside, group.routes) != frozenset([HERE]):
        return "its consumer reads it at other points than its own"
    return None


def _why_not_contract(op: Operation, group: Group, inside: Sequence[Operation]) -> str | None:
    if group.kind != "loop":
        return f"a product does not end in a {group.kind} kernel"
    if len(group.outputs) != 1:
        return "the consumer has several results"
    if domain_of(op.results[0]) != group.domain:
        return "its consumer runs over other points"
    checking = next((member for member in group.ops if checks_indices(member)), None)
    if checking is not None:
        return f"{checking.name} checks indices, which the epilogue of a product cannot report"
    moved = [user for user in _closure(inside, group) if not is_elementwise(user) and not is_unit_reshape(user)]
    if moved:
        return f"{moved[0].name} moves its elements"
    return None


def _why_not_attend(group: Group) -> str | None:
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
        work.extend(users_of_op(op))
    return list(found)


def _why_not_output(op: Operation, group: Group, others: Sequence[Operation], decision: Decision) -> str | None:
    """Whether the value may leave the group as one more result, where others use it too."""
    if group.is_update:
        return "it has other users, and the kernel writes nothing but parts"
    if group.anchor is not None or role_of(op) in (Role.CONTRACT, Role.ATTEND):
        return "it has other users, and a kernel of a product or attention has one result"
    fits = {group.domain}
    if group.space is not None:
        fits.add(group.space.kept)
        if group.space.innermost:
            fits.add(group.space.domain)
    if domain_of(op.results[0]) not in fits:
        return "it has other users and runs over other points"
    inside = [user for user in users_of_op(op) if user in group.ops]
    if any(_is_amplified(user, group) for user in inside) or routes_of(op, inside, group.routes) != frozenset([HERE]):
        return "it has other users, and the kernel computes it at other points"
    if reaches(others, group, decision):
        return "another user of it comes before this kernel"
    return None
