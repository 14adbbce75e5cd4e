"""At which points a group would evaluate an op: how often, and whether a reduction is met once a row.

A group runs over points. An elementwise op reads its operands at its own point; a transpose, slice or broadcast reads at
another one, a function of its own. The *routes* of an op are the different such functions between it and the
group's points: an op with three routes is computed three times at every point.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from xdsl.ir import Operation

from anyshape.dialects.dhlo import BroadcastInDim, Reduce, Scan, Slice, Transpose
from anyshape.dialects.dhlo.windows import Sampling
from anyshape.fusion.roles import domain_of, is_elementwise, is_unit_reshape, real_axes, repeats
from anyshape.fusion.space import Space, space_of
from anyshape.symbolic import Size

Route = tuple[Hashable, ...]
HERE: Route = ()
"""The group's own point."""


def routes_of(
    op: Operation, users: Iterable[Operation], routes: Mapping[Operation, frozenset[Route]]
) -> frozenset[Route]:
    """The routes of `op` through those of its `users` that are in the group, whose own `routes` are known."""
    found: set[Route] = set()
    for user in users:
        for position, value in enumerate(user.operands):
            if value.owner is op:
                for step in steps_of(user, position):
                    found.update(routes[user] if step is None else ((*route, step) for route in routes[user]))
    return frozenset(found)


def steps_of(user: Operation, operand: int) -> list[Hashable]:
    """One `step_of` for each point at which `user` reads an operand for one point of its own."""
    step = step_of(user, operand)
    count = user.points_read() if isinstance(user, Sampling) and operand == 0 else 1
    return [step] if count == 1 else [(step, number) for number in range(count)]


def step_of(user: Operation, operand: int) -> Hashable:
    """What tells the point at which `user` reads an operand from its own point; None where it is the same, or a prefix."""
    match user:
        case Reduce() | Scan():
            return None
        case _ if is_elementwise(user) or is_unit_reshape(user) or broadcasts_rows(user):
            return None
        case Transpose():
            order = [axis for axis in user.attribute("permutation") if user.operand_sizes()[axis] != Size.const(1)]
            return None if order == sorted(order) else ("transpose", tuple(order))
        case _:
            return (user, operand)


def broadcasts_rows(op: Operation) -> bool:
    """Whether a broadcast only adds axes behind those of its operand, so that the operand is computed once a row."""
    return isinstance(op, BroadcastInDim) and (axes := spread_axes(op)) == tuple(range(len(axes)))


def keeps_rows(route: Route) -> bool:
    """Whether a row at the end of the route is still a row of the group's points: slices shift rows, other steps mix them."""
    return all(isinstance(step, tuple) and isinstance(step[0], Slice) for step in route)


def spread_axes(op: BroadcastInDim) -> tuple[int, ...]:
    """Where the operand's axes lie among the result's, axes of size 1 not counted on either side."""
    real = real_axes(op.result_sizes)
    pairs = zip(op.attribute("dimensions"), op.operand_sizes(), strict=True)
    return tuple(real.index(axis) for axis, size in pairs if size != Size.const(1) and axis in real)


def why_not_aligned(op: Reduce, members: Mapping[Operation, object]) -> str | None:
    """None when every op of the group that depends on the reduction meets it once a row, else which does not.

    From the reduction to the next one, or to the group's results, there may be elementwise ops, and broadcasts that undo
    the reduction. Anything else would reduce the same row again for every point that reads it.
    """
    space = space_of(op)
    seen: set[Operation] = set()
    work: list[Operation] = [op]
    while work:
        for user in (use.operation for result in work.pop().results for use in result.uses):
            if user in seen or user not in members:
                continue
            seen.add(user)
            if isinstance(user, BroadcastInDim) and repeats(user):
                if not _undoes(user, space):
                    return f"{user.name} would reduce the same row again for every element"
            elif isinstance(user, Reduce) and space_of(user).axes:
                continue
            elif step_of(user, 0) is not None:
                return f"{user.name} moves its elements"
            work.append(user)
    return None


def _undoes(op: BroadcastInDim, space: Space) -> bool:
    return domain_of(op.result) == space.domain and spread_axes(op) == space.kept_axes
