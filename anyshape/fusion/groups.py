"""Groups of ops, and the side table in which fusion writes them down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.sizes import DimsAttr, symbols_of
from anyshape.fusion.alignment import Route
from anyshape.fusion.roles import Role, role_of
from anyshape.fusion.space import Domain, Space

MAX_INPUTS = 32
"""Buffers that one kernel may take; more would spill its pointers."""


@dataclass(eq=False)
class Group:
    """Ops of one future kernel, in reverse program order, with the values that leave it."""

    number: int
    domain: Domain
    ops: dict[Operation, None] = field(default_factory=dict[Operation, None])
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])
    inputs: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that its ops read and none of them computes."""
    space: Space | None = None
    scanned: Space | None = None
    """What its scans share: they walk along one axis of the group's points."""
    anchor: Operation | None = None
    amplified: set[Operation] = field(default_factory=set[Operation])
    """Ops that are computed again for elements of a broadcast."""
    upstream: set[Operation] = field(default_factory=set[Operation])
    """Layouts of the anchor's operands."""
    routes: dict[Operation, frozenset[Route]] = field(default_factory=dict[Operation, frozenset[Route]])
    """The points at which each op is computed, as steps from the group's own point."""

    is_update: bool = False
    """Whether its results are parts of tensors, written where those lie."""
    is_whole: bool = False
    """Whether it is one op that is a kernel by itself."""

    @property
    def kind(self) -> str:
        if self.is_update:
            return "update"
        if self.is_whole:
            return "whole"
        if self.anchor is not None:
            return "contract" if role_of(self.anchor) is Role.CONTRACT else "attend"
        if self.scanned is not None:
            return "scan"
        return "loop" if self.space is None else "reduce"


@dataclass(frozen=True)
class Edge:
    """A value that goes through memory, and why."""

    producer: Operation
    consumer: Operation
    reason: str

    def __str__(self) -> str:
        return f"{self.producer.name} -> {self.consumer.name}: {self.reason}"


@dataclass
class Decision:
    """The side table that fusion leaves: groups, reasons for the edges between them, and what groups were outlined as."""

    groups: list[Group] = field(default_factory=list[Group])
    homes: dict[Operation, list[Group]] = field(default_factory=dict[Operation, list[Group]])
    edges: list[Edge] = field(default_factory=list[Edge])
    fusions: dict[Group, FusionOp] = field(default_factory=dict[Group, FusionOp])

    def homes_of(self, op: Operation) -> list[Group]:
        return self.homes.get(op, [])

    def absorb(self, group: Group, home: Group) -> None:
        """Every op of `group` becomes one of `home`; which values leave `home` is the caller's affair."""
        home.ops.update(group.ops)
        home.inputs = {value for value in home.inputs | group.inputs if value.owner not in home.ops}
        for op in group.ops:
            self.homes[op] = list(dict.fromkeys(home if each is group else each for each in self.homes[op]))
        self.groups.remove(group)


def users_of_op(op: Operation) -> list[Operation]:
    """The ops that read a result of `op`, each once."""
    return list(dict.fromkeys(user for result in op.results for user in users_of(result)))


def users_of(value: SSAValue) -> list[Operation]:
    """The ops that read a value, once for each operand."""
    return [use.operation for use in value.uses]


def symbols_used(op: Operation) -> frozenset[str]:
    """The size symbols in an op's result types and attributes."""
    attributes = (size.symbols for each in op.attributes.values() if isinstance(each, DimsAttr) for size in each.data)
    return symbols_of(result.type for result in op.results).union(*attributes)


def ops_of_size(read: ReadSize) -> list[Operation]:
    """The ops of the graph that use the symbol which an op gives its value."""
    block = read.parent
    assert block is not None
    return [op for op in block.ops if op is not read and isinstance(op, DhloOp) and read.symbol in symbols_used(op)]


def reaches(start: Sequence[Operation], group: Group, decision: Decision, *, itself: bool = False) -> bool:
    """Whether `group` depends on any op of `start` in other groups or none, groups taken as one step.

    With `itself`, ops of `start` in the group count too.
    """

    def steps(ops: Iterable[Operation]) -> Iterator[Operation | Group]:
        for op in ops:
            yield from decision.homes_of(op) or [op]

    work = [step for step in steps(start) if itself or step is not group]
    seen: set[Operation | Group] = set()
    while work:
        step = work.pop()
        if step is group:
            return True
        if step not in seen:
            seen.add(step)
            values = step.outputs if isinstance(step, Group) else step.results
            work.extend(steps(user for value in values for user in users_of(value)))
            if isinstance(step, ReadSize):
                work.extend(steps(ops_of_size(step)))
    return False
