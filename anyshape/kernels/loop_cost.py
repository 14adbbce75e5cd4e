"""The cost model of memory-bound kernels, read off their plans: operations on vectors, vectors loaded and stored, bytes moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FixedBitwidthType, IndexType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import KernelOp, LanesOp, LoadOp, ParallelOp, PrefixOp, StoreOp
from anyshape.dialects.tile.ops import AxisOp, DotOp, buffer_of
from anyshape.kernels.cost import TICKS, grain_of, transfer_time
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

SIMPLE: Mapping[str, int] = {
    "arith.constant": 0,
    # NaN-propagating: a comparison and a choice beside the instruction.
    "arith.maximumf": 3,
    "arith.minimumf": 3,
    "arith.divsi": 20,
    "arith.divui": 20,
    "arith.remsi": 24,
    "arith.remui": 24,
    "arith.floordivsi": 24,
}
"""Vector operations that an op takes; 1 where it is not listed, here or in `TRANSCENDENTAL`."""
TRANSCENDENTAL: Mapping[str, float] = {
    "arith.divf": 0.6,
    "arith.remf": 6.0,
    "math.sqrt": 0.8,
    "math.rsqrt": 1.4,
    "math.exp": 1.0,
    "math.exp2": 0.9,
    "math.expm1": 1.3,
    "math.log": 1.2,
    "math.log2": 1.2,
    "math.log10": 1.2,
    "math.log1p": 1.6,
    "math.sin": 2.0,
    "math.cos": 2.0,
    "math.tan": 3.0,
    "math.asin": 2.0,
    "math.acos": 2.0,
    "math.atan": 2.0,
    "math.atan2": 2.6,
    "math.sinh": 2.0,
    "math.cosh": 1.6,
    "math.tanh": 1.6,
    "math.asinh": 3.6,
    "math.acosh": 3.0,
    "math.atanh": 2.4,
    "math.erf": 1.2,
    "math.powf": 4.0,
}
"""Time of an op in exponentials of as many lanes."""
_FOLD = 2
"""Operations for each halving of a vector whose lanes are reduced."""
_SHORT_ROW = 8
FLAT_POINTS = 64
"""Elements of a flat kernel that are taken as one point: threads share no cache line that they write."""
_SCALE = 16
"""Parts of a tick in which `_Time` counts, so that no fraction of a cheap operation is lost."""


@dataclass(frozen=True)
class LoopWork:
    """What a memory-bound kernel does.

    Args:
        points: points of a launch, `FLAT_POINTS` elements each where the kernel is flat.
        compute: ticks of one point, its data in the first-level cache.
        moved: bytes that one point alone reads or writes.
        shared: bytes that all points read.
        multiple: elements of a point, as a launch counts.
    """

    points: Size
    compute: Size
    moved: Size
    shared: Size
    multiple: int = 1


def loop_work(kernel: KernelOp, machine: Machine) -> LoopWork:
    """The work of a kernel whose outermost op is `tile.parallel` or `tile.lanes`."""
    outermost = kernel.body.block.last_op
    assert isinstance(outermost, ParallelOp | LanesOp)
    one = Size.const(1)
    if isinstance(outermost, LanesOp):
        walk = _Walk(machine, [outermost.index], outermost.index)
        time = walk.block(outermost.body.block, Size.const(FLAT_POINTS)).times(walk.vectors(FLAT_POINTS))
        points = (outermost.size + (FLAT_POINTS - 1)) // FLAT_POINTS
        return LoopWork(points, time.ticks, *walk.bytes_of_a_point(), FLAT_POINTS)
    points, indices = numel(outermost.extents.data), outermost.indices
    if _rows_are_short(outermost):
        # Neighbouring rows side by side: what a row takes is done for a vector of them.
        walk = _Walk(machine, indices, indices[-1] if indices else None)
        time = walk.block(outermost.body.block, one)
        return LoopWork(points, size_max(1, time.ticks // walk.lanes), *walk.bytes_of_a_point())
    walk = _Walk(machine, indices, None)
    time = walk.block(outermost.body.block, one)
    return LoopWork(points, time.ticks, *walk.bytes_of_a_point())


def loop_time(work: LoopWork, machine: Machine) -> Size:
    """Ticks of a launch on one core."""
    moved = work.moved * work.points + work.shared
    return size_max(work.compute * work.points, transfer_time(moved, moved, machine))


def loop_grain(kernel: KernelOp, machine: Machine) -> Size:
    """Points, as a launch counts, that are worth a thread."""
    work = loop_work(kernel, machine)
    point = size_max(work.compute, transfer_time(work.moved, machine.l2, machine))
    return grain_of(point, machine, multiple=work.multiple)


@dataclass(frozen=True)
class _Time:
    """Operations and accesses, in parts of a tick: a core does both at once."""

    operations: Size = field(default_factory=lambda: Size.const(0))
    accesses: Size = field(default_factory=lambda: Size.const(0))

    def __add__(self, other: _Time) -> _Time:
        return _Time(self.operations + other.operations, self.accesses + other.accesses)

    def times(self, count: Size | int) -> _Time:
        return _Time(self.operations * count, self.accesses * count)

    @property
    def ticks(self) -> Size:
        return size_max(self.operations, self.accesses) // _SCALE


class _Walk:
    """Adds up what one point does. `lane` is the index that runs along vectors where there is no `tile.lanes` inside.

    In lanes only what depends on the lane is counted: an emitter computes the rest once.
    """

    def __init__(self, machine: Machine, point: Sequence[SSAValue], lane: SSAValue | None) -> None:
        self._machine = machine
        self._point = frozenset(point)
        self._lane = lane
        self._touched: dict[tuple[BlockArgument, bool], Size] = {}
        self.lanes = machine.f32_lanes

    def vectors(self, extent: Size | int) -> Size:
        return (Size.of(extent) + (self.lanes - 1)) // self.lanes

    def bytes_of_a_point(self) -> tuple[Size, Size]:
        """(bytes of this point alone, bytes of all points)."""
        moved, shared = Size.const(0), Size.const(0)
        for (buffer, is_own), elements in self._touched.items():
            type_ = buffer_of(buffer)
            bytes_ = elements * _bytes(type_.element_type)
            if is_own:
                moved += bytes_
            else:
                shared += size_min(bytes_, numel(type_.sizes.data) * _bytes(type_.element_type))
        return moved, shared

    def block(self, block: Block, elements: Size) -> _Time:
        """The time of a block that runs once, for a vector where it is in lanes; `elements`: how many of a point it is for in all."""
        total = _Time()
        if self._lane is not None:
            self.lanes = min(self.lanes, self._machine.lanes(self._widest(block)))
        for op in block.ops:
            match op:
                case AxisOp():
                    total += self._axis(op, elements)
                case DotOp():
                    total += (self.block(op.body.block, elements * op.size) + self._simple(1)).times(op.size)
                case LoadOp() | StoreOp():
                    total += self._access(op, elements)
                case PrefixOp() if block.args and block.args[0] is self._lane:
                    total += self._fold(op).times(self.lanes.bit_length())
                case PrefixOp() if op.kind.data == "logaddexp":
                    total += self._fold(op)
                case _:
                    total += self._operation(op)
        return total

    def _fold(self, op: PrefixOp) -> _Time:
        """One combination of a prefix with what lies before it."""
        if op.kind.data != "logaddexp":
            return self._simple(_FOLD)
        heavy = TRANSCENDENTAL["math.exp"] + TRANSCENDENTAL["math.log1p"]
        return self._simple(_FOLD) + self._heavy(heavy)

    def _axis(self, op: AxisOp, elements: Size) -> _Time:
        """All of an axis: in vectors where it is lanes of its own."""
        folds = len(op.kinds.data)
        if not isinstance(op, LanesOp) or self._lane is not None:
            return (self.block(op.body.block, elements * op.size) + self._simple(folds)).times(op.size)
        self._lane, self.lanes = op.index, self._machine.f32_lanes
        body = self.block(op.body.block, elements * op.size) + self._simple(folds)
        time = body.times(self.vectors(op.size)) + self._simple(_FOLD * (self.lanes.bit_length() - 1) * folds)
        self._lane, self.lanes = None, self._machine.f32_lanes
        return time

    def _access(self, op: LoadOp | StoreOp, elements: Size) -> _Time:
        places = list(op.indices)
        if isinstance(op.buffer, BlockArgument):
            key = op.buffer, any(self._depends(place, self._point) for place in places)
            self._touched[key] = size_max(self._touched.get(key, 0), elements)
        if self._lane is None:
            return self._accesses(1)
        lane = frozenset([self._lane])
        strides = [
            stride
            for place, stride in zip(places, buffer_of(op.buffer).strides.data, strict=True)
            if self._depends(place, lane)
        ]
        if not strides and isinstance(op, LoadOp):
            return _Time()
        adjacent = len(strides) <= 1 and all(stride.constant_or(None) == 1 for stride in strides)
        return self._accesses(1 if adjacent else self.lanes)

    def _operation(self, op: Operation) -> _Time:
        counts = [value for value in op.results if not isinstance(value.type, IndexType)]
        if not counts or (self._lane is not None and not self._depends(counts[0], frozenset([self._lane]))):
            return _Time()
        heavy = TRANSCENDENTAL.get(op.name)
        if heavy is not None:
            return self._heavy(heavy)
        return self._simple(SIMPLE.get(op.name, 1))

    def _heavy(self, share: float) -> _Time:
        return _Time(Size.const(self._parts(share * self._machine.rates.transcendental)))

    def _simple(self, count: int) -> _Time:
        return _Time(Size.const(count * self._parts(self._machine.rates.simple)))

    def _accesses(self, count: int) -> _Time:
        vector = self._machine.vector_bits / 8
        return _Time(accesses=Size.const(count * self._parts(vector / self._machine.rates.l1)))

    @staticmethod
    def _parts(nanoseconds: float) -> int:
        return max(1, round(_SCALE * TICKS * nanoseconds))

    def _depends(self, value: SSAValue, on: frozenset[SSAValue]) -> bool:
        """True if a value changes with one of the indices, as far as its operands tell."""
        owner = value.owner
        if value in on or not isinstance(owner, Operation):
            return value in on
        return bool(owner.regions) or any(self._depends(operand, on) for operand in owner.operands)

    def _widest(self, block: Block) -> int:
        """Bits of the widest value that changes with the lane."""
        assert self._lane is not None
        lane = frozenset([self._lane])
        types = [value.type for op in block.walk() for value in op.results if self._depends(value, lane)]
        return max([32, *(8 * _bytes(type_) for type_ in types if isinstance(type_, FixedBitwidthType))])


def _rows_are_short(op: ParallelOp) -> bool:
    """Rows of which several fill a vector; a scheduler lays them side by side."""
    return all(lanes.size.constant_or(_SHORT_ROW + 1) <= _SHORT_ROW for lanes in _lanes_within(op))


def _lanes_within(op: Operation) -> Iterator[LanesOp]:
    return (inner for inner in op.walk() if isinstance(inner, LanesOp))


def _bytes(type_: Attribute) -> int:
    """Of an element in memory; a bool takes one."""
    assert isinstance(type_, FixedBitwidthType)
    return max(1, type_.bitwidth // 8)
