"""How many points are emitted together: lanes of a vector, vectors side by side, rows jammed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue

from anyshape.codegen.points.scalar import HEAVY, value_bits
from anyshape.dialects.tile import DotOp, LanesOp, LoadOp, LoopOp, ParallelOp, ScratchOp, StoreOp, YieldOp
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

    def width(self, block: Block) -> int:
        """Lanes: as many as the widest value of the block has in a vector register, four bytes at least."""
        bits = [32]
        for op in nested_ops(block):
            types: list[Attribute] = [value.type for value in (*op.operands, *op.results)]
            bits.extend(value_bits(type_) for type_ in types)
        return self.machine.lanes(max(bits))

    def vectors(self, block: Block, extent: Size, width: int, *, reduces: bool) -> int:
        """Vectors side by side: enough to hide the latency of a sum, or of a few loads; fewer where registers are short."""
        ops = list(nested_ops(block))
        heavy = sum(op.name in HEAVY for op in ops)
        wanted = 4 if reduces or any(isinstance(op, LoopOp | DotOp) for op in ops) else 2
        if heavy:
            wanted = min(wanted, 2 if heavy == 1 else 1)
        if self.machine.registers < 32 and wanted > 1:
            wanted //= 2
        known = extent.constant_or(None)
        while known is not None and wanted > 1 and wanted * width > known:
            wanted //= 2
        return wanted

    def rows(self, op: ParallelOp) -> int:
        """Rows of the innermost parallel axis that share what they load: for products only, 4 vectors × 6 rows of sums."""
        dots = [inner for lanes in op.body.block.ops if isinstance(lanes, LanesOp) for inner in nested(lanes)]
        if sum(isinstance(inner, DotOp) for inner in dots) != 1:
            return 1
        return 6 if self.machine.registers >= 32 else 4


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
    return not isinstance(op, StoreOp | LanesOp | ParallelOp | ScratchOp)


def may_fault(op: Operation) -> bool:
    """True for an op that must not run where its axis has no points: it reads, reports or divides."""
    faults = {"tile.load", "tile.check", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui"}
    return any(each.name in faults for each in op.walk())

