"""One lane axis as loops: a main loop over several vectors side by side, a loop over single vectors, one masked vector.

Which of the pieces exist for a constant extent is known here. The state of a reduction is, row after row, that of its `LaneFold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value
from anyshape.codegen.points.blocks import blocked_for
from anyshape.codegen.points.reduce import Contribution, LaneFold
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
    """

    builder: Builder
    body: Body
    extent: Size | None
    frame: Frame
    folds: Sequence[LaneFold]
    width: int

    def empty(self) -> list[Value]:
        """The results over no points."""
        return [value for lane in self.folds for value in [lane.fold.start(self.builder, None)] * self.frame.rows]

    def emit(self, lower: Operand, upper: Value, vectors: int) -> list[Value]:
        """Emit all pieces; gives for each fold its result at each row."""
        known = None if self.extent is None else self.extent.constant_or(None)
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
        return [value for lane in self.folds for _ in rows for value in lane.start(self.builder, vectors)]

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
        return [value for lane, rows in parts for row in rows for value in lane.narrow(self.builder, row, vectors)]

    def _points(self, index: Value, frame: Frame, state: Sequence[Value]) -> list[Value]:
        """The body at the points of a frame, and the state after it."""
        contributions = self.body(index, frame)
        after: list[Value] = []
        for (lane, rows), values in zip(self._split(state, frame.vectors), contributions, strict=True):
            for number, row in enumerate(rows):
                own = values[number * frame.vectors : (number + 1) * frame.vectors]
                after += lane.add(self.builder, row, own, frame.mask)
        return after

    # ---- pieces ------------------------------------------------------------------------------------------------------

    def _whole_vectors(
        self, lower: Operand, upper: Value, known: int | None, vectors: int, state: list[Value], *, is_first: bool
    ) -> tuple[list[Value], Operand]:
        """A loop over whole groups of vectors; gives the state after it and where it stopped.

        Only the first loop of an axis is blocked: one after another has few turns.
        """
        b, step = self.builder, vectors * self.width
        if known is not None:
            end: Operand = known - known % step
            if end == lower:
                return state, lower
        else:
            count = upper if isinstance(lower, int) and lower == 0 else b.sub(upper, lower)
            # Groups are powers of two.
            end = b.sub(upper, b.and_(count, step - 1))
        frame = replace(self.frame, vectors=vectors, width=self.width)
        sums = [lane.fold.is_float_sum for lane in self.folds for _ in range(self.frame.rows * lane.count(vectors))]

        def body(index: Value, state: Sequence[Value]) -> list[Value]:
            return self._points(index, frame, state)

        blocked = sums if is_first else [False] * len(sums)
        return blocked_for(b, (lower, end, step), state, blocked, body), end

    def _tail(self, position: Operand, upper: Value, state: list[Value]) -> list[Value]:
        """The lanes that are left, fewer than a vector."""
        b = self.builder
        start = b.const(b.i64, position) if isinstance(position, int) else position
        branch = b.if_(b.cmp("slt", start, upper), [value.type for value in state], has_else=bool(state))
        with branch.then():
            left = b.sub(upper, start)
            mask = b.tail_mask(left, self.width)
            frame = replace(self.frame, vectors=1, width=self.width, mask=mask, lanes=left)
            branch.yield_(*self._points(start, frame, state))
        if not state:
            return []
        with branch.otherwise():
            branch.yield_(*state)
        return branch.results
