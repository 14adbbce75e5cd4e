"""Versions of lanes: code for the usual case in which a condition is the same at all points, and code for the rest.

Conditions are of two kinds: an index that is the lane or not, whatever the lane (an axis of size 1 or n), and a bound that all points of
an axis keep but for the last ones of a row (a chunk of it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.points.values import Points

_BELOW = 6
"""`ult` among the predicates of `arith.cmpi`."""


@dataclass(frozen=True)
class OpenAxis:
    """An index that is the lane or not, as a condition says that is the same for all lanes: `select(c, 0, lane)`."""

    select: arith.SelectOp
    lane_if_true: bool

    @property
    def lane(self) -> SSAValue:
        return self.select.lhs if self.lane_if_true else self.select.rhs

    @property
    def other(self) -> SSAValue:
        return self.select.rhs if self.lane_if_true else self.select.lhs


def _dependent(block: Block, lane: SSAValue, invariant: set[Operation]) -> Iterator[tuple[Operation, set[SSAValue]]]:
    """The ops of a lane body that depend on the lane, each with all values so far that do."""
    depends: set[SSAValue] = {lane}
    for op in block.ops:
        if op not in invariant and not depends.isdisjoint(op.operands):
            depends.update(op.results)
            yield op, depends


def open_axes(block: Block, lane: SSAValue, invariant: set[Operation]) -> list[OpenAxis]:
    """The selects of a lane body between an index that depends on the lane and one that does not."""
    found: list[OpenAxis] = []
    for op, depends in _dependent(block, lane, invariant):
        if isinstance(op, arith.SelectOp) and op.result.type == IndexType() and op.cond not in depends:
            first, second = op.lhs in depends, op.rhs in depends
            if first != second:
                found.append(OpenAxis(op, first))
    return found


@dataclass(frozen=True)
class Bound:
    """The condition `start + lane < limit` on unsigned numbers: it holds at all points of an axis where it holds at both ends."""

    condition: arith.CmpiOp
    start: SSAValue | None
    """None for 0."""

    @property
    def limit(self) -> SSAValue:
        return self.condition.rhs


def bounds_in(block: Block, lane: SSAValue, invariant: set[Operation]) -> list[Bound]:
    """The bounds among the ops of a lane body."""
    found: list[Bound] = []
    for op, depends in _dependent(block, lane, invariant):
        if not isinstance(op, arith.CmpiOp) or op.predicate.value.data != _BELOW or op.rhs in depends:
            continue
        sum_ = op.lhs.owner
        if op.lhs is lane:
            found.append(Bound(op, None))
        elif isinstance(sum_, arith.AddiOp) and sum_.rhs is lane and sum_.lhs not in depends:
            found.append(Bound(op, sum_.lhs))
    return found


@dataclass
class Versions:
    """What is known of conditions in the version that is being emitted; `values` has what was emitted around it."""

    builder: Builder
    values: Mapping[SSAValue, Points]
    decided: dict[Operation, SSAValue] = field(default_factory=dict[Operation, SSAValue])
    """Index selects whose choice is known."""
    holding: frozenset[SSAValue] = frozenset()
    """Conditions that hold at all points."""

    def choice(self, op: Operation) -> SSAValue | None:
        """The operand that a select is known to give, None where it is not known."""
        if not isinstance(op, arith.SelectOp):
            return None
        return op.lhs if op.cond in self.holding else self.decided.get(op)

    def of_axes(
        self, axes: Sequence[OpenAxis], emit: Callable[[], list[Value]], empty: Callable[[], list[Value]]
    ) -> list[Value]:
        """Two versions of lanes with open axes: one where all of them are the lane, and one for the rest."""
        # A condition that differs from row to row is asked at the loads.
        axes = [axis for axis in axes if len(self.values[axis.select.cond].rows) == 1]
        if not axes:
            return emit()
        b = self.builder
        holds: Value | None = None
        for axis in axes:
            (condition,) = self.values[axis.select.cond].rows
            own = condition if axis.lane_if_true else b.not_(condition)
            holds = own if holds is None else b.and_(holds, own)
        branch = b.if_(holds, [value.type for value in empty()], has_else=True)
        with branch.then():
            self.decided = {axis.select: axis.lane for axis in axes}
            branch.yield_(*emit())
        with branch.otherwise():
            # Of one axis, the other choice is known too; of several, each is asked at its loads.
            self.decided = {axis.select: axis.other for axis in axes[:1] if len(axes) == 1}
            branch.yield_(*emit())
        self.decided = {}
        return branch.results

    def of_bounds(
        self, bounds: Sequence[Bound], extent: Value, emit: Callable[[bool], list[Value]], empty: Callable[[], list[Value]]
    ) -> list[Value]:  # fmt: skip
        """Two versions of lanes with bounds: one where all `extent` points are inside, and one for the rest; `emit` is told which."""
        if not bounds:
            return emit(True)
        holds = reduce(self.builder.and_, (fits for bound in bounds for fits in self._fit(bound, extent)))
        branch = self.builder.if_(holds, [value.type for value in empty()], has_else=True)
        with branch.then():
            self.holding = frozenset(bound.condition.result for bound in bounds)
            branch.yield_(*emit(True))
            self.holding = frozenset()
        with branch.otherwise():
            branch.yield_(*emit(False))
        return branch.results

    def _fit(self, bound: Bound, extent: Value) -> Iterator[Value]:
        """Whether the first and the last of `extent` points keep a bound, in each row."""
        b = self.builder
        last, limits = b.sub(extent, 1), self.values[bound.limit].rows
        starts = (b.const(b.i64, 0),) if bound.start is None else self.values[bound.start].rows
        for row in range(max(len(starts), len(limits))):
            start, limit = (rows[row if len(rows) > 1 else 0] for rows in (starts, limits))
            yield b.cmp("ult", start, limit)
            yield b.cmp("ult", b.add(start, last), limit)


__all__ = ["Bound", "OpenAxis", "Versions", "bounds_in", "open_axes"]
