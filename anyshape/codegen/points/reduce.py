"""Reductions: how values are folded point by point, in vectors and across lanes.

Maximum and minimum of floats give NaN when any value is NaN. `select(x > acc, x, acc)` is one instruction but drops NaN; in lanes the
NaNs are therefore collected on the side, in one mask, two vectors a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

from anyshape.codegen.builder import Builder, Reduction
from anyshape.codegen.mlir import Value
from anyshape.codegen.points.narrow import round_to
from anyshape.codegen.points.scalar import compute_type
from anyshape.codegen.vector_math import exp, log1p
from anyshape.dialects.tile.folds import identity, kind_on

Contribution = Value | tuple[Value, Value]
"""What a point adds to a fold: a value, or two factors of a product."""


_HORIZONTAL: dict[str, Reduction] = {
    "sum": "add", "prod": "mul", "max": "maxsi", "min": "minsi", "umax": "maxui", "umin": "minui",
    "and": "and", "or": "or",
}  # fmt: skip


@dataclass(frozen=True)
class Fold:
    """One reduction of values of an element type; `product` folds the product of two factors instead of one value."""

    kind: str
    element: Attribute
    product: bool = False

    @property
    def is_float(self) -> bool:
        return isinstance(self.element, AnyFloat)

    @property
    def is_float_sum(self) -> bool:
        return self.is_float and self.kind == "sum"

    @property
    def collects_nan(self) -> bool:
        return self.is_float and self.kind in ("max", "min")

    def start(self, b: Builder, width: int | None) -> Value:
        """The accumulator before the first point."""
        return b.splat(identity(self.kind, self.element), compute_type(b, self.element), width)

    def combine(self, b: Builder, value: Contribution, accumulator: Value) -> Value:
        """The accumulator after one more value; NaN wins."""
        if isinstance(value, tuple):
            x, y = cast("tuple[Value, Value]", value)
            return b.fma(x, y, accumulator) if self.is_float else b.add(b.mul(x, y), accumulator)
        if self.collects_nan:
            return b.select(b.is_nan(value), value, self.combine_numbers(b, value, accumulator))
        return self.combine_numbers(b, value, accumulator)

    def combine_numbers(self, b: Builder, value: Value, accumulator: Value) -> Value:
        """`combine`, except that a NaN in `value` is dropped by max and min."""
        kind = kind_on(self.kind, self.element)
        match kind:
            case "sum":
                return b.add(accumulator, value)
            case "prod":
                return b.mul(accumulator, value)
            case "max":
                return b.maximum(value, accumulator, nan="either")
            case "min":
                return b.minimum(value, accumulator, nan="either")
            case "umax":
                return b.maximum(value, accumulator, signed=False)
            case "umin":
                return b.minimum(value, accumulator, signed=False)
            case "and":
                return b.and_(accumulator, value)
            case "logaddexp":
                return _log_add_exp(b, value, accumulator)
            case _:
                return b.or_(accumulator, value)

    def result(self, b: Builder, accumulator: Value) -> Value:
        """The result of the reduction: the accumulator, rounded to the element type."""
        return round_to(b, accumulator, self.element)


def _log_add_exp(b: Builder, x: Value, y: Value) -> Value:
    """ln(eˣ + eʸ) = max + ln(1 + exp(−|x − y|)); equal infinities differ by nothing, and a NaN is in the difference."""
    distance = b.select(b.cmp("oeq", x, y), 0.0, b.neg(b.absolute(b.sub(x, y))))
    return b.add(b.maximum(x, y, nan="either"), log1p(b, exp(b, distance)))


@dataclass(frozen=True)
class LaneFold:
    """A `Fold` over lanes: `vectors` accumulators side by side, and a mask of NaNs where the fold collects them."""

    fold: Fold
    width: int

    def count(self, vectors: int) -> int:
        """Machine values of the state."""
        return vectors + int(self.fold.collects_nan)

    def start(self, b: Builder, vectors: int) -> list[Value]:
        state = [self.fold.start(b, self.width)] * vectors
        return [*state, b.splat(0, b.i1, self.width)] if self.fold.collects_nan else state

    def add(
        self, b: Builder, state: Sequence[Value], values: Sequence[Contribution], mask: Value | None
    ) -> list[Value]:
        """The state after one vector more for each accumulator; lanes outside the mask keep theirs."""
        combined: list[Value] = []
        for value, accumulator in zip(values, state[: len(values)], strict=True):
            step = self.fold.combine_numbers if self.fold.collects_nan else self.fold.combine
            new = step(b, value, accumulator)
            combined.append(new if mask is None else b.select(mask, new, accumulator))
        if self.fold.collects_nan:
            combined.append(self._collect_nan(b, state[-1], values, mask))
        return combined

    def _collect_nan(self, b: Builder, seen: Value, values: Sequence[Contribution], mask: Value | None) -> Value:
        for first in range(0, len(values), 2):
            # An unordered comparison of two different vectors finds the NaNs of both.
            found = b.cmp("uno", values[first], values[min(first + 1, len(values) - 1)])
            seen = b.or_(seen, found if mask is None else b.and_(found, mask))
        return seen

    def narrow(self, b: Builder, state: Sequence[Value], vectors: int) -> list[Value]:
        """The state with one accumulator instead of `vectors`."""
        values = list(state[:vectors])
        fold = Fold(self.fold.kind, self.fold.element)
        while len(values) > 1:
            half = (len(values) + 1) // 2
            pairs = [fold.combine_numbers(b, values[half + n], values[n]) for n in range(len(values) - half)]
            values = [*pairs, *values[len(pairs) : half]]
        return [*values, *state[vectors:]]

    def finish(self, b: Builder, state: Sequence[Value]) -> Value:
        """All lanes of a state with one accumulator, combined and rounded to the element type."""
        accumulator = state[0]
        if not self.fold.collects_nan:
            kind = kind_on(self.fold.kind, self.fold.element)
            return self.fold.result(b, b.reduce(_HORIZONTAL[kind], accumulator))
        width = self.width
        while width > 1:
            half = width // 2
            low, high = (b.shuffle(accumulator, accumulator, range(at, at + half)) for at in (0, half))
            accumulator, width = self.fold.combine_numbers(b, high, low), half
        value = b.extract(accumulator, 0)
        nan = b.const(b.element_type(value), math.nan)
        return self.fold.result(b, b.select(b.reduce("or", state[-1]), nan, value))
