"""Loads, stores and index checks: an access is a broadcast, a vector or a gather, as the step of its address says.

| step of the address from lane to lane | load | store |
|---|---|---|
| 0 | one scalar | (refused: lanes would collide) |
| 1 | one vector | one vector |
| 2 | two vectors, of which every second lane is taken | a scatter |
| known at run time | a vector if it is 1, else one scalar (0 or 1) or a gather | a vector if it is 1, else a scatter |
| other, or not linear | a gather; near neighbours as one vector whose lanes are permuted | a scatter |

Lanes outside the frame's mask, or where a guard is false, read and write nothing; a guarded scalar load reads a zero
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Operand, Type, Value, byte_size
from anyshape.codegen.partial import store_first
from anyshape.codegen.points.narrow import narrow, widen
from anyshape.codegen.points.scalar import compute_type, memory_type
from anyshape.codegen.points.transposes import transpose_vectors
from anyshape.codegen.points.values import (
    Frame,
    Points,
    Uniform,
    Varying,
    add_indices,
    is_uniform,
    lane_start,
    map_points,
    multiply_indices,
    row_of,
    vectors_of,
)
from anyshape.codegen.points.woven import woven
from anyshape.codegen.sizes import element_bytes
from anyshape.dialects.tile import buffer_of
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size

_I1 = IntegerType(1)
_ZERO = bytes(8)
_ONE = frozenset({1})
_ZERO_OR_ONE = frozenset({0, 1})
_PERMUTED = 16
"""Lanes of f32 that AVX-512 permutes in one instruction."""
_LINE = 64
"""Bytes of a cache line, or half of them."""
REPORT_INDEX = "ral_report_index"


@dataclass(frozen=True)
class Memory:
    """The buffers of one kernel function: where they are, and how elements of them are reached.

    Args:
        pointers: for each buffer its address, or one a row for scratch.
        sizes: i64 values of every size that the plan names, strides included.
        error: the launch's error cell.
        streams: results that whole vectors may be stored to past the caches, and whether this launch does so.
    """

    builder: Builder
    module: ModuleBuilder
    pointers: Mapping[SSAValue, Sequence[Value]]
    sizes: Callable[[Size], Value]
    error: Value
    streams: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])

    # ---- addresses ---------------------------------------------------------------------------------------------------

    def size_points(self, size: Size) -> Uniform:
        """A size as an index."""
        return Uniform((self.sizes(size),), known=size.value if size.is_constant else None)

    def offset(self, buffer: SSAValue, indices: Sequence[Points], frame: Frame) -> Points:
        """Σ index · stride, in elements."""
        total: Points | None = None
        for index, stride in zip(indices, buffer_of(buffer).strides.data, strict=True):
            if stride == Size.const(0):
                continue
            term = index
            if stride != Size.const(1):
                term = multiply_indices(self.builder, frame, index, self.size_points(stride))
            total = term if total is None else add_indices(self.builder, frame, total, term)
        return self.size_points(Size.const(0)) if total is None else total

    def address(self, buffer: SSAValue, indices: Sequence[Points], frame: Frame) -> Value:
        """The address of the first lane of one row, as a number."""
        b = self.builder
        (start,) = vectors_of(b, row_of(self.offset(buffer, indices, frame), 0), 0, Frame())
        element = memory_type(b, buffer_of(buffer).element_type)
        return b.address_number(b.offset(self._pointer(buffer, 0), element, start))

    def prefetch(self, buffer: SSAValue, indices: Sequence[Points], frame: Frame) -> None:
        """Ask for the lines of a frame's vectors, for the second-level cache."""
        b, type_ = self.builder, memory_type(self.builder, buffer_of(buffer).element_type)
        offset = self.offset(buffer, indices, frame)
        assert isinstance(offset, Uniform) and frame.width is not None
        vectors = max(1, _LINE // (frame.width * element_bytes(buffer_of(buffer).element_type)))
        for vector in range(0, frame.vectors, vectors):
            b.prefetch(self._pointer(buffer, 0), type_, lane_start(b, offset, 0, vector, frame), locality=2)

    def _pointer(self, buffer: SSAValue, row: int) -> Value:
        pointers = self.pointers[buffer]
        return pointers[row if len(pointers) > 1 else 0]

    def _rows(self, buffer: SSAValue, frame: Frame, *points: Points | None) -> range:
        """The rows of an access: scratch has one for each row of the frame, which may be fewer than there are addresses."""
        own = min(len(self.pointers[buffer]), frame.rows)
        return range(max(own, *(len(each.rows) for each in points if each is not None)))

    # ---- loads -------------------------------------------------------------------------------------------------------

    def load(
        self, buffer: SSAValue, indices: Sequence[Points], guard: Points | None, frame: Frame, *, near: bool = False
    ) -> Points:
        """buffer[indices], or zero where the guard is false; `near` expects neighbouring lanes to read near each other."""
        element = buffer_of(buffer).element_type
        offset = self.offset(buffer, indices, frame)
        rows = self._rows(buffer, frame, offset, guard)
        if is_uniform(offset):
            loaded = Uniform(tuple(self._load_scalar(buffer, element, offset, guard, row, frame) for row in rows))
            if guard is None or is_uniform(guard):
                return loaded
            zero = Uniform((self.builder.const(compute_type(self.builder, element), 0),))
            return map_points(self.builder, frame, self.builder.select, guard, loaded, zero)
        return Varying(tuple(self._load_vectors(buffer, element, offset, guard, row, frame, near) for row in rows))

    def _load_scalar(
        self, buffer: SSAValue, element: Attribute, offset: Points, guard: Points | None, row: int, frame: Frame
    ) -> Value:
        b, pointer = self.builder, self._pointer(buffer, row)
        (index,) = vectors_of(b, row_of(offset, row), 0, Frame())

        address = b.offset(pointer, memory_type(b, element), index)
        if guard is not None:
            # A zero stands in for an element that must not be read: no branch is needed.
            zero = b.address_of(self.module.constant_bytes(_ZERO))
            address = b.select(self._any(row_of(guard, row), frame), address, zero)
        return self._widen(b.load(address, memory_type(b, element)), element)

    def _any(self, condition: Points, frame: Frame) -> Value:
        """True if the condition holds in some lane that exists."""
        b = self.builder
        if isinstance(condition, Uniform):
            return condition.rows[0]
        lanes = [b.reduce("or", self._both(frame.mask, vector)) for vector in condition.rows[0]]
        found = lanes[0]
        for lane in lanes[1:]:
            found = b.or_(found, lane)
        return found

    def _both(self, mask: Value | None, guard: Value | None) -> Value | None:
        if mask is None or guard is None:
            return guard if mask is None else mask
        return self.builder.and_(mask, guard)

    def _masks(self, guard: Points | None, row: int, frame: Frame) -> list[Value | None]:
        if guard is None:
            return [frame.mask] * frame.vectors
        return [self._both(frame.mask, each) for each in vectors_of(self.builder, guard, row, frame)]

    def _load_vectors(
        self,
        buffer: SSAValue,
        element: Attribute,
        offset: Points,
        guard: Points | None,
        row: int,
        frame: Frame,
        near: bool,
    ) -> tuple[Value, ...]:
        """The vectors of one row; a guard that is the same in all lanes is a branch, since masked loads are slower."""
        b = self.builder
        if guard is None or not is_uniform(guard):
            return self._load_lanes(buffer, element, offset, guard, row, frame, near)
        (holds,) = vectors_of(b, guard, row, Frame())
        result = b.vector_type(compute_type(b, element), frame.width)
        branch = b.if_(holds, [result] * frame.vectors, has_else=True)
        with branch.then():
            branch.yield_(*self._load_lanes(buffer, element, offset, None, row, frame, near))
        with branch.otherwise():
            branch.yield_(*[b.const(result, 0)] * frame.vectors)
        return tuple(branch.results)

    def _load_lanes(
        self,
        buffer: SSAValue,
        element: Attribute,
        offset: Points,
        guard: Points | None,
        row: int,
        frame: Frame,
        near: bool,
    ) -> tuple[Value, ...]:
        b, pointer, type_ = self.builder, self._pointer(buffer, row), memory_type(self.builder, element)
        masks = self._masks(guard, row, frame)

        def contiguous() -> list[Value]:
            assert isinstance(offset, Uniform)
            starts = [lane_start(b, offset, row, vector, frame) for vector in range(frame.vectors)]
            pairs = zip(starts, masks, strict=True)
            loaded = [b.load(pointer, type_, start, width=frame.width, mask=mask) for start, mask in pairs]
            return [self._widen(value, element) for value in loaded]

        def gathered() -> list[Value]:
            pairs = zip(vectors_of(b, offset, row, frame), masks, strict=True)
            smooth = near and isinstance(offset, Varying)
            gather = self._gather_some if guard is not None else self._gather_near if smooth else b.gather
            loaded = [gather(pointer, type_, address, mask=mask) for address, mask in pairs]
            return [self._widen(value, element) for value in loaded]

        def repeated() -> list[Value]:
            assert isinstance(offset, Uniform)
            scalar = self._load_scalar(buffer, element, Uniform(offset.rows), guard, row, frame)
            if guard is None:
                return [b.broadcast(scalar, frame.width)] * frame.vectors
            return [b.select(each, scalar, 0) for each in vectors_of(b, guard, row, frame)]

        def alternating() -> list[Value]:
            assert isinstance(offset, Uniform)
            starts = [lane_start(b, offset, row, vector, frame) for vector in range(frame.vectors)]
            return [
                self._widen(self._load_alternate(pointer, type_, start, mask, frame), element)
                for start, mask in zip(starts, masks, strict=True)
            ]

        if isinstance(offset, Uniform) and isinstance(offset.step, int) and offset.step == 2 and (frame.width or 1) > 1:
            return tuple(alternating())
        other = repeated if isinstance(offset, Uniform) and offset.steps == _ZERO_OR_ONE else gathered
        result = b.vector_type(compute_type(b, element), frame.width)
        return tuple(self._by_step(offset, contiguous, other, [result] * frame.vectors))

    def _load_alternate(self, pointer: Value, type_: Type, start: Value, mask: Value | None, frame: Frame) -> Value:
        """Every second element from `start` on: of two vectors that together end at the last one, which a gather would read
        one by one. Elements of lanes that are off are not read.
        """
        b, width = self.builder, frame.width
        assert width is not None
        low, high = start, b.add(start, width - 1)
        masks: list[Value | None] = [None, None]
        if mask is not None:
            off = b.splat(0, b.i1, width)
            masks[0] = b.shuffle(mask, off, [lane // 2 if lane % 2 == 0 else width for lane in range(width)])
            masks[1] = b.shuffle(mask, off, [(width + lane) // 2 if lane % 2 else width for lane in range(width)])
        first, second = (
            b.load(pointer, type_, at, width=width, mask=own) for at, own in zip((low, high), masks, strict=True)
        )
        return b.shuffle(first, second, [2 * lane if lane < width // 2 else 2 * lane + 1 for lane in range(width)])

    def _gather_some(self, pointer: Value, type_: Type, address: Value, *, mask: Value | None) -> Value:
        """A gather of lanes that a guard has chosen, which often are none: those of a padding, of one part of several."""
        b = self.builder
        assert mask is not None
        branch = b.if_(b.reduce("or", mask), [b.vector_type(type_, b.width(address))], has_else=True)
        with branch.then():
            branch.yield_(b.gather(pointer, type_, address, mask=mask))
        with branch.otherwise():
            branch.yield_(b.const(b.vector_type(type_, b.width(address)), 0))
        (found,) = branch.results
        return found

    def _gather_near(self, pointer: Value, type_: Type, address: Value, *, mask: Value | None) -> Value:
        """A gather whose lanes often lie within as many neighbours: those are then one vector, whose lanes are permuted.

        The vector begins at the lower of the outer lanes' addresses and ends at the higher, and nothing else is read.
        """
        b, width = self.builder, self.builder.width(address)
        if mask is not None or type_ != b.f32 or width != _PERMUTED or "avx512f" not in b.features:
            return b.gather(pointer, type_, address, mask=mask)
        first, last = b.extract(address, 0), b.extract(address, width - 1)
        low, high = b.minimum(first, last), b.maximum(first, last)
        place = b.sub(address, b.broadcast(low, width))
        beyond = b.cmp("ugt", place, b.broadcast(b.minimum(b.sub(high, low), width - 1), width))
        branch = b.if_(b.reduce("or", beyond), [b.vector_type(type_, width)], has_else=True)
        with branch.then():
            branch.yield_(b.gather(pointer, type_, address))
        with branch.otherwise():
            taken = b.load(pointer, type_, low, width=width, mask=b.tail_mask(b.add(b.sub(high, low), 1), width))
            lanes = b.convert(place, b.i32)
            branch.yield_(b.intrinsic("llvm.x86.avx512.permvar.sf.512", b.vector_type(b.f32, width), [taken, lanes]))
        (found,) = branch.results
        return found

    def load_tile(self, buffer: SSAValue, indices: Sequence[Points], frame: Frame) -> Points:
        """buffer[indices] at as many rows as lanes, contiguous from row to row: read along the rows, then turned."""
        b, element = self.builder, buffer_of(buffer).element_type
        offset, width = self.offset(buffer, indices, frame), frame.width
        assert isinstance(offset, Uniform) and width is not None and width == frame.rows and frame.vectors == 1
        columns: list[Value] = []
        for lane in range(width):
            # A lane that does not exist reads the last one that does.
            at: Operand = (
                lane if frame.lanes is None or lane == 0 else b.minimum(b.const(b.i64, lane), b.sub(frame.lanes, 1))
            )
            moved = offset.step * at if isinstance(offset.step, int) and isinstance(at, int) else b.mul(offset.step, at)
            start = b.add(offset.rows[0], moved)
            columns.append(b.load(self._pointer(buffer, 0), memory_type(b, element), start, width=width))
        return Varying(tuple((self._widen(row, element),) for row in transpose_vectors(b, columns)))

    def _by_step(
        self,
        offset: Points,
        contiguous: Callable[[], list[Value]],
        scattered: Callable[[], list[Value]],
        results: Sequence[Type],
    ) -> list[Value]:
        """Chooses the form of a vector access; at run time where the step is known only then."""
        b = self.builder
        step: Operand = offset.step if isinstance(offset, Uniform) else 0
        if isinstance(step, int):
            return contiguous() if step == 1 else scattered()
        branch = b.if_(b.cmp("eq", step, 1), list(results), has_else=True)
        with branch.then():
            branch.yield_(*contiguous())
        with branch.otherwise():
            branch.yield_(*scattered())
        return branch.results

    def _widen(self, value: Value, element: Attribute) -> Value:
        """From its form in memory to that in which it is computed."""
        b = self.builder
        if element == _I1:
            return b.cmp("ne", value, 0)
        return widen(b, value, element)

    # ---- stores ------------------------------------------------------------------------------------------------------

    def store(self, value: Points, buffer: SSAValue, indices: Sequence[Points], frame: Frame) -> None:
        """buffer[indices] = value."""
        element = buffer_of(buffer).element_type
        offset = self.offset(buffer, indices, frame)
        if frame.width is not None and is_uniform(offset):
            raise CodegenError(
                "a store inside lanes does not depend on the lane", got=buffer.type, expected="a lane index"
            )
        for row in self._rows(buffer, frame, offset, value):
            self._store_row(value, buffer, element, offset, row, frame)

    def store_woven(
        self, values: Sequence[Points], buffer: SSAValue, indices: Sequence[Sequence[Points]], frame: Frame
    ) -> None:
        """buffer[indices[n]] = values[n]; the n of one point are neighbours in memory, and so are those of the next lane behind them."""
        b, element = self.builder, buffer_of(buffer).element_type
        offset = self.offset(buffer, indices[0], frame)
        if not isinstance(offset, Uniform) or offset.possible_steps != frozenset({len(values)}):
            for value, each in zip(values, indices, strict=True):
                self.store(value, buffer, each, frame)
            return
        for row in self._rows(buffer, frame, offset, *values):
            pointer = self._pointer(buffer, row)
            columns = [vectors_of(b, value, row, frame) for value in values]
            for number, vectors in enumerate(zip(*columns, strict=True)):
                start = lane_start(b, offset, row, number, frame)
                narrow_ = [self._narrow(vector, element) for vector in vectors]
                for part, (vector, mask) in enumerate(woven(b, narrow_, frame.mask)):
                    b.store(vector, pointer, b.add(start, part * (frame.width or 1)), mask=mask)

    def _store_row(
        self, value: Points, buffer: SSAValue, element: Attribute, offset: Points, row: int, frame: Frame
    ) -> None:
        b, pointer = self.builder, self._pointer(buffer, row)
        vectors = [self._narrow(vector, element) for vector in vectors_of(b, value, row, frame)]

        def contiguous() -> list[Value]:
            assert isinstance(offset, Uniform)
            for number, vector in enumerate(vectors):
                start = lane_start(b, offset, row, number, frame)
                if frame.streams and buffer in self.streams and offset.possible_steps == _ONE:
                    alignment = (frame.width or 1) * byte_size(b.element_type(vector))
                    b.store(vector, pointer, start, alignment=alignment, nontemporal=True)
                elif frame.lanes is not None:
                    store_first(b, [(vector, b.offset(pointer, b.element_type(vector), start))], frame.lanes)
                else:
                    b.store(vector, pointer, start)
            return []

        def scattered() -> list[Value]:
            for vector, address in zip(vectors, vectors_of(b, offset, row, frame), strict=True):
                b.scatter(vector, pointer, address, mask=frame.mask)
            return []

        if frame.width is None:
            contiguous()
        else:
            self._by_step(offset, contiguous, scattered, [])

    def _narrow(self, value: Value, element: Attribute) -> Value:
        b = self.builder
        if element == _I1:
            return b.convert(value, b.i8, signed=False)
        return narrow(b, value, element)

    # ---- checks ------------------------------------------------------------------------------------------------------

    def check(self, index: Points, bound: Size, site: int, guard: Points | None, frame: Frame) -> Points:
        """0 <= index < bound at every point; the first point of a vector where it is not, and `guard` is true, is reported."""
        b = self.builder
        limit = self.size_points(bound)
        # One unsigned comparison: a negative index is a very large one, and a bound is never negative.
        inside = map_points(b, frame, partial(b.cmp, "ult"), index, limit)
        right = inside
        if guard is not None:
            right = map_points(b, frame, self._unless, inside, guard)
        for row in range(len(right.rows)):
            one = row_of(right, row)
            if isinstance(one, Uniform):
                self._report(b.not_(one.rows[0]), lambda row=row: row_of(index, row).rows[0], limit, site)
                continue
            indices = vectors_of(b, index, row, frame)
            for holds, numbers in zip(one.rows[0], indices, strict=True):
                wrong = self._both(frame.mask, b.not_(holds))
                self._report(
                    b.reduce("or", wrong), lambda wrong=wrong, numbers=numbers: self._first(numbers, wrong), limit, site
                )
        return inside

    def _unless(self, holds: Value, asked: Value) -> Value:
        return self.builder.or_(holds, self.builder.not_(asked))

    def _first(self, numbers: Value, wanted: Value) -> Value:
        """The number in the first wanted lane."""
        b = self.builder
        width = b.width(numbers)
        assert width is not None
        lanes = b.lane_numbers(width)
        first = b.reduce("minsi", b.select(wanted, lanes, width))
        return b.reduce("add", b.select(b.cmp("eq", lanes, first), numbers, 0))

    def _report(self, wrong: Value, index: Callable[[], Value], bound: Uniform, site: int) -> None:
        b = self.builder
        self.module.declare(REPORT_INDEX, [b.ptr, b.i64, b.i64, b.i64])
        branch = b.if_(wrong)
        with branch.then():
            b.call(REPORT_INDEX, [self.error, b.const(b.i64, site), index(), bound.rows[0]])
