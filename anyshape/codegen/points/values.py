"""What one SSA value of a plan is at all the points that are emitted together.

A *frame* is a set of points: `rows` neighbouring points of the innermost parallel axis × `vectors` vectors of `width` lanes of
the lane axis (or one point of it, outside `lanes`). A value is then

| form | machine values | stands for |
|---|---|---|
| `Uniform` | one scalar a row | the same in every lane, or linear in the lane: `scalar + step · lane` |
| `Varying` | one vector for each row and vector | anything |

and has one row where it does not depend on the row. Linear forms exist for indices only. They are how accesses are
understood: the step of an address says whether it is a broadcast (0), contiguous (1) or a gather.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value


@dataclass(frozen=True)
class Frame:
    """The points that are emitted together; `width` is None outside lanes, where there is one point a row.

    `mask` has the lanes that exist in the one vector of a tail, None where all do; `lanes` is then their number. Where `streams`
    holds, vectors are stored past the caches if their buffer allows it (`streams.py`).
    """

    rows: int = 1
    vectors: int = 1
    width: int | None = None
    mask: Value | None = None
    lanes: Value | None = None
    streams: bool = False


@dataclass(frozen=True)
class Uniform:
    """`rows[r] + step · lane`.

    `step` is an int, or an i64 known at run time only; it is then one of `steps` where those are known. `known` is the number of
    a constant index.
    """

    rows: tuple[Value, ...]
    step: Operand = 0
    known: int | None = None
    steps: frozenset[int] | None = None

    @property
    def possible_steps(self) -> frozenset[int] | None:
        """All values that the step may have; None where they are not known."""
        step: object = self.step
        return frozenset({step}) if isinstance(step, int) else self.steps


@dataclass(frozen=True)
class Varying:
    """`rows[r][u]`: the vector u of row r."""

    rows: tuple[tuple[Value, ...], ...]


Points: TypeAlias = Uniform | Varying
_FIXED = frozenset({0})


def is_uniform(points: Points) -> bool:
    """True if the value is the same in every lane, whatever the sizes."""
    return isinstance(points, Uniform) and points.possible_steps == _FIXED


def row_of(points: Points, row: int) -> Points:
    """The value at one row."""
    position = row if len(points.rows) > 1 else 0
    if isinstance(points, Uniform):
        return Uniform((points.rows[position],), points.step)
    return Varying((points.rows[position],))


def vectors_of(b: Builder, points: Points, row: int, frame: Frame) -> tuple[Value, ...]:
    """The machine values of one row, one for each vector of the frame (the scalar itself outside lanes)."""
    position = row if len(points.rows) > 1 else 0
    if isinstance(points, Varying):
        return points.rows[position]
    scalar, width = points.rows[position], frame.width
    if width is None:
        return (scalar,)
    if is_uniform(points):
        return (b.broadcast(scalar, width),) * frame.vectors
    lanes = b.mul(b.lane_numbers(width, b.element_type(scalar)), points.step)
    starts = [lane_start(b, points, row, vector, frame) for vector in range(frame.vectors)]
    return tuple(b.add(start, lanes) for start in starts)


def lane_start(b: Builder, points: Uniform, row: int, vector: int, frame: Frame) -> Value:
    """The value in the first lane of a vector of the frame, as a scalar."""
    scalar = points.rows[row if len(points.rows) > 1 else 0]
    if vector == 0 or frame.width is None:
        return scalar
    return b.add(scalar, scaled(b, points.step, vector * frame.width))


def scaled(b: Builder, value: Operand, factor: int) -> Operand:
    """value · factor, computed here where it is a constant."""
    return value * factor if isinstance(value, int) else b.mul(value, factor)


def map_points(b: Builder, frame: Frame, operation: Callable[..., Value], *operands: Points) -> Points:
    """`operation` on machine values at every point; scalars stay scalars where all operands are uniform."""
    rows = range(max((len(operand.rows) for operand in operands), default=1))
    if all(is_uniform(operand) for operand in operands):
        return Uniform(tuple(operation(*(row_of(operand, row).rows[0] for operand in operands)) for row in rows))
    results: list[tuple[Value, ...]] = []
    for row in rows:
        columns = [vectors_of(b, operand, row, frame) for operand in operands]
        results.append(tuple(operation(*column) for column in zip(*columns, strict=True)))
    return Varying(tuple(results))


# ---- linear index arithmetic ---------------------------------------------------------------------------------------


def add_indices(b: Builder, frame: Frame, x: Points, y: Points) -> Points:
    """x + y, linear where both are."""
    if isinstance(x, Uniform) and isinstance(y, Uniform):
        total = map_points(b, frame, b.add, Uniform(x.rows), Uniform(y.rows))
        return _with_step(total, _combine(b, x.step, y.step, 1), _all_steps(int.__add__, x, y))
    return map_points(b, frame, b.add, x, y)


def subtract_indices(b: Builder, frame: Frame, x: Points, y: Points) -> Points:
    """x − y, linear where both are."""
    if isinstance(x, Uniform) and isinstance(y, Uniform):
        total = map_points(b, frame, b.sub, Uniform(x.rows), Uniform(y.rows))
        return _with_step(total, _combine(b, x.step, y.step, -1), _all_steps(int.__sub__, x, y))
    return map_points(b, frame, b.sub, x, y)


def multiply_indices(b: Builder, frame: Frame, x: Points, y: Points) -> Points:
    """x · y, linear where one is linear and the other the same at every point of the frame."""
    if is_uniform(x):
        x, y = y, x
    if isinstance(x, Uniform) and isinstance(y, Uniform) and is_uniform(y):
        if is_uniform(x):
            return map_points(b, frame, b.mul, x, y)
        if len(y.rows) == 1:
            product = map_points(b, frame, b.mul, Uniform(x.rows), y)
            factor = None if y.known is None else Uniform((), y.known)
            return _with_step(product, _scale_step(b, x.step, y), _all_steps(int.__mul__, x, factor))
    return map_points(b, frame, b.mul, x, y)


def select_indices(b: Builder, frame: Frame, condition: Points, x: Points, y: Points) -> Points:
    """condition ? x : y, linear where the condition is the same at every point and both choices are linear."""
    if isinstance(x, Uniform) and isinstance(y, Uniform) and is_uniform(condition) and len(condition.rows) == 1:
        chosen = map_points(b, frame, b.select, condition, Uniform(x.rows), Uniform(y.rows))
        if isinstance(x.step, int) and x.step == y.step:
            return _with_step(chosen, x.step, None)
        steps = [b.const(b.i64, step) if isinstance(step, int) else step for step in (x.step, y.step)]
        known = None
        if x.possible_steps is not None and y.possible_steps is not None:
            known = x.possible_steps | y.possible_steps
        return _with_step(chosen, b.select(condition.rows[0], *steps), known)
    return map_points(b, frame, b.select, condition, x, y)


def _scale_step(b: Builder, step: Operand, factor: Uniform) -> Operand:
    """step · factor, a number where both are."""
    if factor.known is not None:
        return scaled(b, step, factor.known)
    scalar = factor.rows[0]
    return scalar if isinstance(step, int) and step == 1 else b.mul(step, scalar)


def _with_step(points: Points, step: Operand, steps: frozenset[int] | None) -> Points:
    assert isinstance(points, Uniform)
    return Uniform(points.rows, step, steps=None if isinstance(step, int) else steps)


def _all_steps(combine: Callable[[int, int], int], x: Uniform, y: Uniform | None) -> frozenset[int] | None:
    """The steps that a combination of two steps may have."""
    if y is None or x.possible_steps is None or y.possible_steps is None:
        return None
    return frozenset(combine(first, second) for first in x.possible_steps for second in y.possible_steps)


def _combine(b: Builder, x: Operand, y: Operand, sign: int) -> Operand:
    if isinstance(x, int) and isinstance(y, int):
        return x + sign * y
    return b.add(x, y) if sign > 0 else b.sub(x, y)
