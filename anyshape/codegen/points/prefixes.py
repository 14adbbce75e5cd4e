"""Prefixes: what the points of an axis so far fold to, carried from one group of points to the next.

Along an axis in order the carry is the last prefix, one for each row and vector. Across lanes it is a vector with the last prefix in
every lane: within a vector the prefixes take log₂ W steps, each of which folds in the lane that lies d = 1, 2, 4, … before; then the
carry is folded in. The next carry waits for one fold only, since what the vector adds to it does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.points.reduce import Fold, identity
from anyshape.codegen.points.scalar import compute_type
from anyshape.codegen.points.values import Frame, Points, Uniform, Varying, vectors_of
from anyshape.dialects.tile import PrefixOp


@dataclass(frozen=True)
class Carry:
    """The carries of the prefixes in one axis while it is emitted.

    Args:
        ops: the prefixes directly in the axis.
        count: carries of each: one a row across lanes, else one for each row and vector.
        width: lanes of a carry, None where it is a scalar.
        across: whether the axis itself is in lanes.
    """

    builder: Builder
    ops: Sequence[PrefixOp]
    count: int
    width: int | None
    across: bool
    values: dict[PrefixOp, list[Value]] = field(default_factory=dict[PrefixOp, list[Value]])

    def __len__(self) -> int:
        """Machine values that a turn hands to the next."""
        return self.count * len(self.ops)

    def start(self) -> list[Value]:
        """The carries before the first point."""
        b = self.builder
        starts = [b.splat(_before_all(fold_of(op)), compute_type(b, op.value.type), self.width) for op in self.ops]
        return [start for start in starts for _ in range(self.count)]

    def enter(self, state: Sequence[Value]) -> None:
        """Begin a turn with these carries."""
        for number, op in enumerate(self.ops):
            self.values[op] = list(state[number * self.count : (number + 1) * self.count])

    def leave(self) -> list[Value]:
        """The carries after a turn."""
        return [value for op in self.ops for value in self.values[op]]

    def prefixes(self, op: PrefixOp, points: Points, frame: Frame) -> Points:
        """The prefixes at the points of a frame; the carries move on to its last one."""
        rows: list[tuple[Value, ...]] = []
        for row in range(frame.rows):
            values = vectors_of(self.builder, points, row, frame)
            rows.append(
                tuple(self._next(op, value, number + row * len(values), frame) for number, value in enumerate(values))
            )
        return Uniform(tuple(row[0] for row in rows)) if frame.width is None else Varying(tuple(rows))

    def _next(self, op: PrefixOp, value: Value, number: int, frame: Frame) -> Value:
        b, fold, carries = self.builder, fold_of(op), self.values[op]
        if not self.across:
            carries[number] = fold.combine(b, value, carries[number])
            return carries[number]
        assert self.width is not None
        row = number // frame.vectors
        within = self._within(fold, value)
        last = b.shuffle(within, within, [self.width - 1] * self.width)
        before, carries[row] = carries[row], fold.combine(b, last, carries[row])
        return fold.combine(b, within, before)

    def _within(self, fold: Fold, vector: Value) -> Value:
        """The prefixes within a vector. Lanes that do not exist, of a tail, lie behind all others and reach none of them."""
        b, width = self.builder, self.width
        assert width is not None
        nothing = b.splat(_before_all(fold), compute_type(b, fold.element), width)
        distance = 1
        while distance < width:
            lanes = [lane if lane < distance else width + lane - distance for lane in range(width)]
            vector = fold.combine(b, vector, b.shuffle(nothing, vector, lanes))
            distance *= 2
        return vector


def fold_of(op: PrefixOp) -> Fold:
    return Fold(op.kind.data, op.value.type)


def _before_all(fold: Fold) -> float | int:
    """e with e ∘ x = x for every x: −0 + −0 is −0, 0 + −0 is not."""
    return -0.0 if fold.is_float_sum else identity(fold.kind, fold.element)


def prefixes_in(block: Block) -> list[PrefixOp]:
    """The prefixes directly in the body of an axis."""
    return [op for op in block.ops if isinstance(op, PrefixOp)]


__all__ = ["Carry", "fold_of", "prefixes_in"]
