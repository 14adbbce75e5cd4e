"""How many points are emitted together: lanes of a vector, vectors side by side, rows jammed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue

from anyshape.codegen.points.scalar import HEAVY, value_bits
from anyshape.dialects.tile import DotOp, LanesOp, LoadOp, LoopOp, ParallelOp, PrefixOp, ScratchOp, StoreOp, YieldOp
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def nested(op: Operation) -> Iterator[Operation]:
    """The ops inside the regions of an op."""
    for region in op.regions:
        yield from region.walk()


def nested_ops(block: Block) -> Iterator[Operation]:
    """The ops of a block and of all regions inside."""
    for op in block.ops:
        yield from op.walk()


@dataclass(frozen=True)
class Schedule:
    """Choices by the numbers of a machine; results do not depend on them but for the order in which sums are folded."""

    machine: Machine

    @property
    def has_fma(self) -> bool:
        return self.machine.architecture != "x86_64" or "fma" in self.machine.features

    def width(self, ops: Sequence[Operation]) -> int:
        """Lanes: as many as the widest value of these ops has in a vector register, four bytes at least."""
        bits = [32]
        for op in ops:
            types: list[Attribute] = [value.type for value in (*op.operands, *op.results)]
            bits.extend(value_bits(type_) for type_ in types)
        return self.machine.lanes(max(bits))

    def vectors(self, ops: Sequence[Operation], extent: Size | None, width: int, *, reduces: bool) -> int:
        """Vectors side by side: enough to hide the latency of a sum, or of a few loads; fewer where registers are short."""
        heavy = sum(op.name in HEAVY for op in ops)
        products = any(isinstance(op, DotOp) for op in ops)
        walks = not products and any(isinstance(op, LoopOp) for op in ops)
        # A column is walked across rows: the wider the strip, the more of a row is read at once.
        wanted = 8 if walks and not reduces else 4 if reduces or products else 2
        if heavy and not products:
            wanted = min(wanted, 2 if heavy == 1 else 1)
        if self.machine.registers < 32 and wanted > 1:
            wanted //= 2
        known = None if extent is None else extent.constant_or(None)
        while known is not None and wanted > 1 and wanted * width > known:
            wanted //= 2
        return wanted

    def rows_in_lanes(self, op: ParallelOp) -> bool:
        """True where neighbouring rows fill vectors better than a row's own points: rows are very short, or single points.

        A row of 3 points wastes 13 of 16 lanes and is reduced across lanes at each row; 16 rows side by side waste none, but are
        gathered and scattered. That pays for reductions of up to 3 points, and never for a map, which is bound by its accesses.
        """
        inner = list(nested(op))
        if any(isinstance(each, ScratchOp | DotOp | ParallelOp) for each in inner):
            return False
        lanes = [each for each in inner if isinstance(each, LanesOp)]
        if not lanes:
            return not _is_short(op.extents.data[-1])
        # A column that is walked far in order is walked with its neighbours: they are contiguous, rows are not.
        short = all(_is_short(each.size) and not _walks_far(each) for each in lanes)
        return short and any(each.results for each in lanes) and not _is_short(op.extents.data[-1])

    def rows(self, op: ParallelOp) -> int:
        """Rows of the innermost parallel axis that are computed side by side.

        Of a product 6, which share what they load: 4 vectors × 6 rows of sums. Of rows that are reduced 2, so that the lanes of one
        are folded while the other is read; not where functions of many instructions fill that time.
        """
        dots = [inner for lanes in op.body.block.ops if isinstance(lanes, LanesOp) for inner in nested(lanes)]
        products = [inner for inner in dots if isinstance(inner, DotOp)]
        if not products:
            return 2 if self._folds_rows(op) else 1
        if len(products) != 1:
            return 1
        if not isinstance(products[0].parent_op(), LanesOp):
            # The loops around the product keep as many sums again.
            return 2
        return 6 if self.machine.registers >= 32 else 4

    def jam_bytes(self, op: ParallelOp) -> int | None:
        """The longest row of those that `rows` jams, in bytes of `LEAST_ELEMENT` each; None where all are jammed."""
        return self.machine.l1 if self._folds_rows(op) else None

    def _folds_rows(self, op: ParallelOp) -> bool:
        axes, inner, extents = lanes_of_row(op), list(nested(op)), op.extents.data
        if not extents or extents[-1].constant_or(2) < 2 or not any(axis.results for axis in axes):
            return False
        if any(isinstance(each, LoopOp | DotOp | ParallelOp | PrefixOp) or each.name in HEAVY for each in inner):
            return False
        # Chunks of a longer row are read with a guard: the next one is fetched while one is computed, and two take turns in the cache.
        if any(isinstance(each, LoadOp) and each.guard is not None for each in inner):
            return False
        return all(LEAST_ELEMENT * axis.size.constant_or(0) <= self.machine.l1 for axis in axes)


SHORT_ROW = 3
LEAST_ELEMENT = 4
"""Bytes of an element in a vector, at least."""


def lanes_of_row(op: ParallelOp) -> list[LanesOp]:
    """The passes over a row, one after another."""
    return [each for each in op.body.block.ops if isinstance(each, LanesOp)]


def _is_short(extent: Size) -> bool:
    known = extent.constant_or(None)
    return known is not None and known <= SHORT_ROW


def _walks_far(op: LanesOp) -> bool:
    return any(isinstance(each, LoopOp) and not _is_short(each.size) for each in nested(op))


def invariant_ops(block: Block, varying: tuple[SSAValue, ...]) -> set[Operation]:
    """Ops of a block that give the same at every value of `varying` (arguments of the block) and may run once, before.

    Loads are among them unless the block stores to their buffer; ops with regions are where all that they use is.
    """
    depends: set[SSAValue] = set(varying)
    stored = {op.buffer for op in nested_ops(block) if isinstance(op, StoreOp)}
    invariant: set[Operation] = set()
    for op in block.ops:
        inside = list(op.walk())
        used = {operand for each in inside for operand in each.operands}
        if used.isdisjoint(depends) and all(_may_move(each, stored) for each in inside) and not isinstance(op, YieldOp):
            invariant.add(op)
        else:
            depends.update(op.results)
    return invariant


def _may_move(op: Operation, stored: set[SSAValue]) -> bool:
    if isinstance(op, LoadOp):
        return op.buffer not in stored
    if isinstance(op, YieldOp):
        return isinstance(op.parent_op(), LoopOp | DotOp)
    return not isinstance(op, StoreOp | PrefixOp | LanesOp | ParallelOp | ScratchOp)


def lane_ops(block: Block, *varying: SSAValue) -> list[Operation]:
    """The ops of a lane body, with those inside, that run for every vector."""
    invariant = invariant_ops(block, varying)
    return [inner for op in block.ops if op not in invariant for inner in op.walk()]


def reads_by_arithmetic(op: LoadOp) -> bool:
    """Whether the indices of a load are computed from those of the nest, not read from memory: they move slowly, as a resize's do."""
    work, seen = list(op.indices), set[SSAValue]()
    while work:
        value = work.pop()
        owner = value.owner
        if value in seen or not isinstance(owner, Operation):
            continue
        seen.add(value)
        if isinstance(owner, LoadOp) or owner.regions:
            return False
        work.extend(owner.operands)
    return True


def may_fault(op: Operation) -> bool:
    """True for an op that must not run where its axis has no points: it reads, reports or divides."""
    faults = {"tile.load", "tile.check", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui"}
    return any(each.name in faults for each in op.walk())
