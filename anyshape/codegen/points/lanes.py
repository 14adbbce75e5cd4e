"""One lane axis as loops: a main loop over several vectors side by side, a loop over single vectors, one masked vector.
Where results may be stored past the caches, there are two main loops, and a masked vector before them (`streams.py`).

Which of the pieces exist for a constant extent is known here. The state of a reduction is, row after row, that of its `LaneFold`;
the carries of prefixes come after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value
from anyshape.codegen.points.blocks import blocked_for
from anyshape.codegen.points.prefixes import Carry
from anyshape.codegen.points.reduce import Contribution, LaneFold
from anyshape.codegen.points.streams import Stream
from anyshape.codegen.points.values import Frame
from anyshape.codegen.sizes import multiple_of
from anyshape.symbolic import Size

Body = Callable[[Value, Frame], list[list[Contribution]]]
"""Emits the points of a frame from an index on; gives for each fold what every row and vector contributes, row after row."""


@dataclass(frozen=True)
class LaneAxis:
    """The points [lower, upper) of an axis, in vectors of `width` lanes.

    Args:
        extent: the number of points, where they start at 0; None where lower and upper are known at run time only.
        frame: the rows around the axis.
        carry: that of the prefixes along the axis, None where it has none.
        stream: how an axis without folds may store past the caches.
    """

    builder: Builder
    body: Body
    extent: Size | None
    frame: Frame
    folds: Sequence[LaneFold]
    width: int
    carry: Carry | None = None
    stream: Stream | None = None

    def empty(self) -> list[Value]:
        """The results over no points."""
        return [value for lane in self.folds for value in [lane.fold.start(self.builder, None)] * self.frame.rows]

    def emit(self, lower: Operand, upper: Value, vectors: int) -> list[Value]:
        """Emit all pieces; gives for each fold its result at each row."""
        known = None if self.extent is None else self.extent.constant_or(None)
        if self.stream is not None:
            self._streamed(self.stream, lower, upper, known, vectors)
            return []
        state, position = self._start(vectors), lower
        if vectors > 1:
            state, position = self._whole_vectors(position, upper, known, vectors, state, is_first=True)
            state = self._narrow(state, vectors)
        state, position = self._whole_vectors(position, upper, known, 1, state, is_first=vectors == 1)
        if self.extent is None or not multiple_of(self.extent, self.width):
            state = self._tail(position, upper, state)
        return [lane.finish(self.builder, row) for lane, rows in self._split(state, 1) for row in rows]

    # ---- state -------------------------------------------------------------------------------------------------------

    def _start(self, vectors: int) -> list[Value]:
        rows = range(self.frame.rows)
        folds = [value for lane in self.folds for _ in rows for value in lane.start(self.builder, vectors)]
        return folds if self.carry is None else [*folds, *self.carry.start()]

    def _carried(self, state: Sequence[Value]) -> Sequence[Value]:
        """The part of a state that prefixes carry."""
        return [] if self.carry is None else state[len(state) - len(self.carry) :]

    def _split(self, state: Sequence[Value], vectors: int) -> list[tuple[LaneFold, list[list[Value]]]]:
        """For each fold the states of its rows."""
        parts: list[tuple[LaneFold, list[list[Value]]]] = []
        at = 0
        for lane in self.folds:
            count = lane.count(vectors)
            starts = range(at, at + count * self.frame.rows, count)
            parts.append((lane, [list(state[start : start + count]) for start in starts]))
            at += count * self.frame.rows
        return parts

    def _narrow(self, state: Sequence[Value], vectors: int) -> list[Value]:
        parts = self._split(state, vectors)
        folds = [value for lane, rows in parts for row in rows for value in lane.narrow(self.builder, row, vectors)]
        return [*folds, *self._carried(state)]

    def _points(self, index: Value, frame: Frame, state: Sequence[Value]) -> list[Value]:
        """The body at the points of a frame, and the state after it."""
        if self.carry is not None:
            self.carry.enter(self._carried(state))
        contributions = self.body(index, frame)
        after: list[Value] = []
        for (lane, rows), values in zip(self._split(state, frame.vectors), contributions, strict=True):
            for number, row in enumerate(rows):
                own = values[number * frame.vectors : (number + 1) * frame.vectors]
                after += lane.add(self.builder, row, own, frame.mask)
        return after if self.carry is None else [*after, *self.carry.leave()]

    # ---- pieces ------------------------------------------------------------------------------------------------------

    def _whole_vectors(
        self,
        lower: Operand,
        upper: Value,
        known: int | None,
        vectors: int,
        state: list[Value],
        *,
        is_first: bool,
        streams: bool = False,
    ) -> tuple[list[Value], Operand]:
        """A loop over whole groups of vectors; gives the state after it and where it stopped.

        Only the first loop of an axis is blocked: one after another has few turns.
        """
        b, step = self.builder, vectors * self.width
        end = self._end(lower, upper, known, step)
        if known is not None and end == lower:
            return state, lower
        frame = replace(self.frame, vectors=vectors, width=self.width, streams=streams)
        sums = [lane.fold.is_float_sum for lane in self.folds for _ in range(self.frame.rows * lane.count(vectors))]

        def body(index: Value, state: Sequence[Value]) -> list[Value]:
            return self._points(index, frame, state)

        sums += [False] * (len(state) - len(sums))
        blocked = sums if is_first else [False] * len(sums)
        return blocked_for(b, (lower, end, step), state, blocked, body), end

    def _end(self, lower: Operand, upper: Value, known: int | None, step: int) -> Operand:
        """Where the last whole group of `step` points ends, a power of two."""
        if known is not None:
            return known - known % step
        b = self.builder
        count = upper if isinstance(lower, int) and lower == 0 else b.sub(upper, lower)
        return b.sub(upper, b.and_(count, step - 1))

    def _streamed(self, stream: Stream, lower: Operand, upper: Value, known: int | None, vectors: int) -> None:
        """All pieces of an axis that may stream: the points before a whole line first, and two versions of the main loop."""
        b, whole = self.builder, self.extent is not None and multiple_of(self.extent, self.width)
        if stream.head is not None:
            head = b.minimum(stream.head, b.sub(upper, lower))
            start = b.const(b.i64, lower) if isinstance(lower, int) else lower
            branch = b.if_(b.cmp("sgt", head, 0))
            with branch.then():
                self._points(start, self._masked(head), [])
            lower, known, whole = b.add(start, head), None, False
        end = self._end(lower, upper, known, vectors * self.width)
        branch = b.if_(stream.is_on, has_else=True)
        for side, streams in ((branch.then, True), (branch.otherwise, False)):
            with side():
                self._whole_vectors(lower, upper, known, vectors, [], is_first=True, streams=streams)
        if vectors > 1:
            _, end = self._whole_vectors(end, upper, known, 1, [], is_first=False)
        if not whole:
            self._tail(end, upper, [])

    def _masked(self, lanes: Value) -> Frame:
        """One vector, of which the first `lanes` exist."""
        mask = self.builder.tail_mask(lanes, self.width)
        return replace(self.frame, vectors=1, width=self.width, mask=mask, lanes=lanes)

    def _tail(self, position: Operand, upper: Value, state: list[Value]) -> list[Value]:
        """The lanes that are left, fewer than a vector."""
        b = self.builder
        start = b.const(b.i64, position) if isinstance(position, int) else position
        branch = b.if_(b.cmp("slt", start, upper), [value.type for value in state], has_else=bool(state))
        with branch.then():
            branch.yield_(*self._points(start, self._masked(b.sub(upper, start)), state))
        if not state:
            return []
        with branch.otherwise():
            branch.yield_(*state)
        return branch.results
