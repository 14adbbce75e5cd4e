"""Loop nests: `parallel`, `lanes`, `loop` and `dot` as loops over machine values.

What does not depend on an axis is emitted before its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value
from anyshape.codegen.points.ahead import ReadAhead, read_ahead
from anyshape.codegen.points.blocks import blocked_for
from anyshape.codegen.points.lanes import LaneAxis
from anyshape.codegen.points.memory import Memory
from anyshape.codegen.points.prefixes import Carry, prefixes_in
from anyshape.codegen.points.reduce import Contribution, LaneFold
from anyshape.codegen.points.scalar import compute_type, constant_number, emitter_of
from anyshape.codegen.points.schedule import (
    LEAST_ELEMENT,
    Schedule,
    invariant_ops,
    lane_ops,
    lanes_of_row,
    may_fault,
    reads_by_arithmetic,
)
from anyshape.codegen.points.streams import stream_of
from anyshape.codegen.points.transposes import STRIP, transposed_loads
from anyshape.codegen.points.values import (
    Frame,
    Points,
    Uniform,
    Varying,
    add_indices,
    map_points,
    multiply_indices,
    select_indices,
    subtract_indices,
    vectors_of,
)
from anyshape.codegen.points.versions import Versions, bounds_in, open_axes
from anyshape.codegen.points.woven import woven_stores
from anyshape.codegen.points.yields import yields_of
from anyshape.dialects.tile import (
    AxisOp,
    CheckOp,
    DotOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    PrefixOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
)
from anyshape.dialects.tile.ops import INDEX
from anyshape.symbolic import Size

Span = tuple[Operand, Value]
"""The points [lower, upper) of an axis."""
SumLoader = Callable[[Value, Frame], Points]
"""The sums at the points of a frame from a column on."""
Storer = Callable[[Points, Frame], None]


@dataclass
class NestEmitter:
    """Emits the ops of one kernel function; `values` has what was emitted for each SSA value, at the present frame."""

    builder: Builder
    memory: Memory
    schedule: Schedule
    values: dict[SSAValue, Points] = field(default_factory=dict[SSAValue, Points])
    carries: dict[Block, Carry] = field(default_factory=dict[Block, Carry])
    """What the prefixes of an axis carry, by its body."""
    strip: Span | None = None
    """The part of the lanes that is being emitted, None where it is all of them."""
    ahead: tuple[ReadAhead, Value] | None = None
    """What is fetched of the next row, and how many rows on that is."""
    tiled: frozenset[LoadOp] = frozenset()
    """Loads that are contiguous from row to row: turned in registers where a frame is as many rows as lanes."""

    def __post_init__(self) -> None:
        self.versions = Versions(self.builder, self.values)

    # ---- straight-line code ------------------------------------------------------------------------------------------

    def block(self, block: Block, frame: Frame, skip: frozenset[Operation] | set[Operation] = frozenset()) -> None:
        """Emit the ops of a block, but for those in `skip` and for its yield."""
        for op in block.ops:
            if op not in skip:
                self.operation(op, frame)

    def operation(self, op: Operation, frame: Frame) -> None:
        """Emit one op at all points of a frame."""
        match op:
            case YieldOp() | ScratchOp():
                pass
            case ParallelOp():
                self.parallel(op, self._whole_box(op))
            case LanesOp() | DotOp() if frame.width is None:
                self.lanes(op, self.strip or (0, self.memory.sizes(op.size)), frame)
            case LanesOp() | LoopOp() | DotOp():
                self.loop(op, frame)
            case StoreOp() if frame.width is not None and len(stores := woven_stores(op)) > 1:
                if op is stores[-1]:
                    values = [self.values[each.value] for each in stores]
                    self.memory.store_woven(values, op.buffer, [self._points(each.indices) for each in stores], frame)
            case StoreOp():
                self.memory.store(self.values[op.value], op.buffer, self._points(op.indices), frame)
            case _:
                self.values[op.results[0]] = self._value(op, frame)

    def _points(self, operands: Sequence[SSAValue]) -> list[Points]:
        return [self.values[operand] for operand in operands]

    def _guard_of(self, op: LoadOp | CheckOp) -> Points | None:
        """What says whether there is anything to read or check, where that does not hold at all points."""
        return None if op.guard is None or op.guard in self.versions.holding else self.values[op.guard]

    def _value(self, op: Operation, frame: Frame) -> Points:
        b = self.builder
        match op:
            case SizeOp():
                return self.memory.size_points(op.expression)
            case LoadOp() if op in self.tiled and frame.rows == frame.width:
                return self.memory.load_tile(op.buffer, self._points(op.indices), frame)
            case LoadOp():
                guard = self._guard_of(op)
                return self.memory.load(op.buffer, self._points(op.indices), guard, frame, near=reads_by_arithmetic(op))
            case CheckOp():
                place = op.bound.data[0], op.site.value.data
                return self.memory.check(self.values[op.index], *place, self._guard_of(op), frame)
            case PrefixOp():
                block = op.parent
                assert block is not None
                return self.carries[block].prefixes(op, self.values[op.value], frame)
            case arith.ConstantOp():
                number = constant_number(op)
                known = int(number) if op.results[0].type == INDEX else None
                return Uniform((b.const(compute_type(b, op.results[0].type), number),), known=known)
            case _:
                pass
        choice = self.versions.choice(op)
        if choice is not None:
            return self.values[choice]
        operands = self._points(op.operands)
        if op.results[0].type == INDEX:
            linear = _LINEAR.get(type(op))
            if linear is not None:
                return linear(b, frame, *operands)
            if isinstance(op, arith.IndexCastOp) and op.operands[0].type == INDEX:
                return operands[0]
        emit = emitter_of(op, frame.mask)
        return map_points(b, frame, lambda *machine: emit(b, *machine), *operands)

    # ---- axes --------------------------------------------------------------------------------------------------------

    def _before(self, block: Block, varying: Sequence[SSAValue], frame: Frame) -> set[Operation]:
        """Emit what does not depend on `varying`, and return it."""
        invariant = invariant_ops(block, tuple(varying))
        for op in block.ops:
            if op in invariant:
                self.operation(op, frame)
        return invariant

    def _guarded(
        self, op: AxisOp | DotOp, span: Span, frame: Frame, body: Callable[[], list[Value]], empty: Callable[[], list[Value]]
    ) -> list[Value]:  # fmt: skip
        """`body` where the axis has points and `empty` elsewhere, if `body` starts with ops that need a point."""
        b = self.builder
        size = op.size.constant_or(None)
        invariant = invariant_ops(op.body.block, (op.index,))
        if (size is not None and size > 0 and isinstance(span[0], int)) or not any(
            may_fault(each) for each in invariant
        ):
            return body()
        nothing = empty()
        branch = b.if_(b.cmp("slt", span[0], span[1]), [value.type for value in nothing], has_else=bool(nothing))
        with branch.then():
            branch.yield_(*body())
        if nothing:
            with branch.otherwise():
                branch.yield_(*nothing)
        return branch.results

    def loop(self, op: AxisOp | DotOp, frame: Frame) -> None:
        """An axis in order, its accumulators carried: a scalar for each row, or a vector for each row and vector."""
        b = self.builder
        yields = yields_of(op, fuse=self.schedule.has_fma)
        count = frame.rows * frame.vectors
        carry = self.carries[op.body.block] = Carry(b, prefixes_in(op.body.block), count, frame.width, across=False)
        initial = [value for fold in yields.folds for value in [fold.start(b, frame.width)] * count] + carry.start()
        upper = self.memory.sizes(op.size)

        def turn(skip: set[Operation], index: Value, state: Sequence[Value]) -> list[Value]:
            self.values[op.index] = Uniform((index,))
            carry.enter(state[len(state) - len(carry) :])
            self.block(op.body.block, frame, skip)
            carried: list[Value] = []
            for number, fold in enumerate(yields.folds):
                points = self._contributions(yields.values[number], frame)
                accumulators = state[number * count : (number + 1) * count]
                carried += [fold.combine(b, each, old) for each, old in zip(points, accumulators, strict=True)]
            return [*carried, *carry.leave()]

        def body() -> list[Value]:
            skip = self._before(op.body.block, (op.index,), frame) | yields.skipped
            # The tile of sums of a dot fills the registers: it has none left for the sums of a block.
            sums = [fold.is_float_sum and not isinstance(op, DotOp) for fold in yields.folds for _ in range(count)]
            sums += [False] * len(carry)
            known = op.size.constant_or(None)
            bounds = (0, upper if known is None else known, 1)
            return blocked_for(b, bounds, initial, sums, partial(turn, skip))

        final = self._guarded(op, (0, upper), frame, body, lambda: initial)
        for number, (fold, result) in enumerate(zip(yields.folds, op.results, strict=True)):
            values = [fold.result(b, value) for value in final[number * count : (number + 1) * count]]
            rows = [tuple(values[at : at + frame.vectors]) for at in range(0, count, frame.vectors)]
            self.values[result] = (
                Uniform(tuple(row[0] for row in rows)) if frame.width is None else Varying(tuple(rows))
            )

    def _contributions(self, values: Sequence[SSAValue], frame: Frame) -> list[Contribution]:
        """What every row and vector of the frame contributes: a value, or two factors."""
        columns = [
            [each for row in range(frame.rows) for each in vectors_of(self.builder, self.values[value], row, frame)]
            for value in values
        ]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def lanes(self, op: LanesOp | DotOp, span: Span, frame: Frame) -> None:
        """An axis in vector lanes; reductions are folded lane by lane first, then across the lanes."""
        yields = yields_of(op, fuse=self.schedule.has_fma)
        block = op.body.block
        ops = lane_ops(block, op.index)
        width = self.schedule.width(ops)
        vectors = self.schedule.vectors(ops, op.size, width, reduces=bool(yields.folds))
        if self.tiled:
            vectors = 1
        skip = set(yields.skipped)

        def points(index: Value, inner: Frame) -> list[list[Contribution]]:
            self.values[op.index] = Uniform((index,), step=1)
            if self.ahead is not None and self.ahead[0].during is op:
                ahead, distance = self.ahead
                ahead.emit(self.builder, self.memory, self.values, index, distance, inner)
            self.block(block, inner, skip)
            return [self._contributions(values, inner) for values in yields.values]

        def body() -> list[Value]:
            invariant = self._before(block, (op.index,), frame)
            skip.update(invariant)
            bounds = bounds_in(block, op.index, invariant) if yields.folds else []
            inside = partial(self.versions.of_bounds, bounds, self.memory.sizes(op.size), emit, axis.empty)
            return self.versions.of_axes(open_axes(block, op.index, invariant), inside, axis.empty)

        def emit(is_usual: bool) -> list[Value]:
            if not is_usual:
                return axis.emit(*span, 1)
            if yields.folds or frame.rows > 1 or self.strip is not None or len(carry):
                return axis.emit(*span, vectors)
            stream = stream_of(self.builder, self.memory, block, op.index, self.values, width, span[0])
            return replace(axis, stream=stream).emit(*span, vectors)

        folds = [LaneFold(fold, width) for fold in yields.folds]
        carry = self.carries[block] = Carry(self.builder, prefixes_in(block), frame.rows, width, across=True)
        extent = op.size if isinstance(span[0], int) else None
        axis = LaneAxis(self.builder, points, extent, frame, folds, width, carry)
        results = self._guarded(op, span, frame, body, axis.empty)
        for number, result in enumerate(op.results):
            self.values[result] = Uniform(tuple(results[number * frame.rows : (number + 1) * frame.rows]))

    def columns(self, block: Block, column: SSAValue, span: Span, load_sum: SumLoader, store: Storer) -> None:
        """The columns [lower, upper) of one row of an epilogue: block arguments `column` and, last, the sum."""
        sum_ = block.args[-1]
        ops = lane_ops(block, column, sum_)
        width = self.schedule.width(ops)
        vectors = self.schedule.vectors(ops, None, width, reduces=False)
        skip = self._before(block, (column, sum_), Frame())
        last = block.last_op
        assert isinstance(last, YieldOp)

        def points(index: Value, frame: Frame) -> list[list[Contribution]]:
            self.values[column] = Uniform((index,), step=1)
            self.values[sum_] = load_sum(index, frame)
            self.block(block, frame, skip)
            store(self.values[last.values[0]], frame)
            return []

        LaneAxis(self.builder, points, None, Frame(), (), width).emit(*span, vectors)

    # ---- parallel points ---------------------------------------------------------------------------------------------

    def _whole_box(self, op: ParallelOp) -> Span:
        total = Size.const(1)
        for extent in op.extents.data:
            total = total * extent
        return (0, self.memory.sizes(total))

    def parallel(self, op: ParallelOp, span: Span) -> None:
        """The points [begin, end) of the row-major box: outer indices are counters, the innermost is a plain loop."""
        b = self.builder
        begin, end = span
        axes = [(index, extent) for index, extent in zip(op.indices, op.extents.data, strict=True)]
        for index, extent in axes:
            if extent == Size.const(1):
                self.values[index] = Uniform((b.const(b.i64, 0),), known=0)
        axes = [(index, extent) for index, extent in axes if extent != Size.const(1)]
        branch = b.if_(b.cmp("slt", begin, end))
        with branch.then():
            if not axes:
                self.block(op.body.block, Frame())
            elif len(axes) == 1:
                self._rows(op, axes[0][0], begin, end)
            else:
                self._segments(op, axes, begin, end)

    def _segments(self, op: ParallelOp, axes: Sequence[tuple[SSAValue, Size]], begin: Operand, end: Operand) -> None:
        """Every run of points that share their outer indices."""
        b = self.builder
        outer, (inner, inner_extent) = axes[:-1], axes[-1]
        extent = self.memory.sizes(inner_extent)
        first = b.div(begin, extent)
        last = b.div(b.sub(end, 1), extent)
        with b.for_(first, b.add(last, 1), 1, self._counters(first, [size for _, size in outer])) as loop:
            for (index, _), counter in zip(outer, loop.args, strict=True):
                self.values[index] = Uniform((counter,))
            start = b.mul(loop.index, extent)
            lower = b.maximum(b.sub(begin, start), 0)
            upper = b.minimum(b.sub(end, start), extent)
            self._rows(op, inner, lower, upper)
            loop.yield_(*self._next(loop.args, [size for _, size in outer]))

    def _counters(self, position: Value, extents: Sequence[Size]) -> list[Value]:
        """The indices of a row-major position."""
        b = self.builder
        counters: list[Value] = []
        for extent in reversed(extents[1:]):
            size = self.memory.sizes(extent)
            counters.insert(0, b.rem(position, size))
            position = b.div(position, size)
        return [position, *counters]

    def _next(self, counters: Sequence[Value], extents: Sequence[Size]) -> list[Value]:
        """The indices after these in row-major order."""
        b = self.builder
        carry: Operand = 1
        following: list[Value] = []
        for counter, extent in reversed(list(zip(counters[1:], extents[1:], strict=True))):
            grown = b.add(counter, carry)
            wraps = b.cmp("eq", grown, self.memory.sizes(extent))
            following.insert(0, b.select(wraps, 0, grown))
            carry = b.convert(wraps, b.i64, signed=False)
        return [b.add(counters[0], carry), *following]

    def _rows(self, op: ParallelOp, index: SSAValue, lower: Operand, upper: Operand) -> None:
        """The points of one run: several rows at a time where the schedule jams them, then one by one."""
        b = self.builder
        skip = self._before(op.body.block, (index,), Frame())
        if self.schedule.rows_in_lanes(op):
            self._rows_in_lanes(op, index, (lower, upper), skip)
            return
        tiles = transposed_loads(op, index)
        if tiles is not None and self._tiles(op, index, *tiles, (lower, upper), skip):
            return
        jam = self.schedule.rows(op)
        start = lower
        if jam > 1:
            count = b.sub(upper, lower)
            start = self._jammed_until(op, lower, b.sub(upper, b.rem(count, jam)))
            with b.for_(lower, start, jam) as loop:
                self.values[index] = Uniform(tuple(b.add(loop.index, row) if row else loop.index for row in range(jam)))
                self.block(op.body.block, Frame(rows=jam), skip)
        ahead = read_ahead(b, op, index, self.schedule.machine)
        self.ahead = None if ahead is None else (ahead, ahead.distance(b, self.memory, self.schedule.machine))
        with b.for_(start, upper, 1) as loop:
            self.values[index] = Uniform((loop.index,))
            self.block(op.body.block, Frame(), skip)
        self.ahead = None

    def _jammed_until(self, op: ParallelOp, lower: Operand, end: Value) -> Value:
        """`end`, or `lower` where this launch's rows are better taken one by one: they are long, or results stream."""
        b, limit = self.builder, self.schedule.jam_bytes(op)
        if limit is None:
            return end
        alone = list(self.memory.streams.values())
        for extent in dict.fromkeys(axis.size for axis in lanes_of_row(op) if not axis.size.is_constant):
            alone.append(b.cmp("sgt", self.memory.sizes(extent), limit // LEAST_ELEMENT))
        for reason in alone:
            end = b.select(reason, lower, end)
        return end

    def _tiles(
        self, op: ParallelOp, index: SSAValue, axis: LanesOp, loads: frozenset[LoadOp], span: tuple[Operand, Operand],
        skip: set[Operation],
    ) -> bool:  # fmt: skip
        """The points of one run in square tiles, strip by strip of the lanes; False where the axis has no whole tile."""
        b, (lower, upper) = self.builder, span
        width = self.schedule.width(lane_ops(axis.body.block, axis.index))
        known = axis.size.constant_or(None)
        if known is not None and known < width:
            return False
        extent = self.memory.sizes(axis.size)
        end = b.sub(upper, b.and_(b.sub(upper, lower), width - 1))
        self.tiled = loads
        with b.for_(0, extent, STRIP) as strips:
            self.strip = (strips.index, b.minimum(b.add(strips.index, STRIP), extent))
            with b.for_(lower, end, width) as loop:
                rows = [b.add(loop.index, row) if row else loop.index for row in range(width)]
                self.values[index] = Uniform(tuple(rows))
                self.block(op.body.block, Frame(rows=width), skip)
            self.tiled = frozenset()
            with b.for_(end, upper, 1) as loop:
                self.values[index] = Uniform((loop.index,))
                self.block(op.body.block, Frame(), skip)
            self.strip = None
        return True

    def _rows_in_lanes(self, op: ParallelOp, index: SSAValue, span: Span, skip: set[Operation]) -> None:
        """The points of one run side by side in lanes; the lane axes inside are walked in order."""
        block = op.body.block
        ops = lane_ops(block, index)
        width = self.schedule.width(ops)
        walks = any(isinstance(each, AxisOp) for each in ops)
        vectors = 1 if walks else self.schedule.vectors(ops, None, width, reduces=False)

        def points(position: Value, frame: Frame) -> list[list[Contribution]]:
            self.values[index] = Uniform((position,), step=1)
            self.block(block, frame, skip)
            return []

        stream = stream_of(self.builder, self.memory, block, index, self.values, width, span[0])
        LaneAxis(self.builder, points, None, Frame(), (), width, stream=stream).emit(*span, vectors)


_LINEAR: dict[type[Operation], Callable[..., Points]] = {
    arith.AddiOp: add_indices,
    arith.SubiOp: subtract_indices,
    arith.MuliOp: multiply_indices,
    arith.SelectOp: select_indices,
}
