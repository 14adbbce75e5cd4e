"""One row of scores to unnormalised probabilities, with the running maximum and sum of an online softmax.

`as_softmax_<element>_<kind>` for the mask kinds `none`, `bool` and `float`:

    x[j] = scale·scores[j] + mask[j]   (−∞ where a bool mask is false, and from `valid` on)
    m' = max(m, max x),  α = exp(m − m'),  scores[j] = exp(x[j] − m'),  l' = α·l + Σ scores

Masked scores become exactly 0. While every score so far is −∞, m' stays −∞ and all results are 0. Source: Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.shape import TileShape
from anyshape.codegen.vector_math.exponential import exp_normal

MaskKind = Literal["none", "bool", "float"]
MASK_KINDS: tuple[MaskKind, ...] = get_args(MaskKind)
_SMALLEST_EXPONENT = {"f32": -87.0, "f64": -708.0}
"""Below this eˣ is denormal or zero, and taken as zero: 1e-38 of the largest probability."""


def softmax_name(element: str, kind: MaskKind) -> str:
    """The symbol of the row function."""
    return f"as_softmax_{element}_{kind}"


def softmax_arguments(b: Builder, element: str) -> list[Type]:
    """(scores, mask, stride of mask, scale, valid, total, state); returns α.

    Scores are readable and writable up to the next multiple of 64; those in [valid, total) become 0. `state` is (m, l).
    """
    return [b.ptr, b.ptr, b.i64, b.type(element), b.i64, b.i64, b.ptr]


def emit_softmax(module: ModuleBuilder, shape: TileShape, kind: MaskKind) -> None:
    """Define `softmax_name(element, kind)`."""
    b = Builder()
    element = b.type(shape.element)
    arguments = softmax_arguments(b, shape.element)
    with module.function(softmax_name(shape.element, kind), arguments, [element]) as f:
        scores, mask, stride, scale, valid, total, state = f.args
        row = _Row(b, shape, kind, scores, mask, stride, scale)
        largest = row.emit_scores(valid)
        before, sum_before = b.load(state, element), b.load(state, element, 1)
        after = b.maximum(before, largest_lane(b, largest), nan="either")
        # −∞ − −∞ is NaN, so a row without a finite score is measured from 0.
        origin = b.select(b.cmp("oeq", after, float("-inf")), 0.0, after)
        sum_ = b.reduce("add", row.emit_probabilities(valid, origin))
        row.emit_zeros(valid, total)
        later = b.if_(b.cmp("une", before, float("-inf")), [element])
        with later.then():
            later.yield_(exp_nonpositive(b, b.sub(before, origin), shape.element))
        with later.otherwise():
            later.yield_(b.const(element, 0))
        alpha = later.results[0]
        b.store(after, state)
        b.store(b.fma(alpha, sum_before, sum_), state, 1)
        f.return_(alpha)


def exp_nonpositive(b: Builder, x: Value, element: str) -> Value:
    """eˣ for x ≤ 0 and NaN; results below the normal range are exactly 0."""
    smallest = _SMALLEST_EXPONENT[element]
    vanishes = b.cmp("olt", x, smallest)
    return b.select(vanishes, 0.0, exp_normal(b, b.select(vanishes, smallest, x)))


def largest_lane(b: Builder, x: Value) -> Value:
    """The largest lane. NaN lanes may count or not: the sum of probabilities will be NaN anyhow."""
    lanes = b.width(x) or 1
    step = lanes // 2
    while step:
        x = b.maximum(x, b.shuffle(x, x, [lane ^ step for lane in range(lanes)]), nan="either")
        step //= 2
    return b.extract(x, 0)


@dataclass(frozen=True)
class _Row:
    b: Builder
    shape: TileShape
    kind: MaskKind
    scores: Value
    mask: Value
    stride: Value
    scale: Value

    def emit_scores(self, valid: Value) -> Value:
        """Replace the scores by x, −∞ in the lanes after `valid`; returns the largest in each lane."""
        b = self.b
        lowest = b.splat(float("-inf"), b.type(self.shape.element), self.shape.lanes)
        if self.kind == "none":
            return self._emit_score_loop(valid, lowest, lambda index, lanes: None)
        adjacent = b.if_(b.cmp("eq", self.stride, 1), [lowest.type])
        with adjacent.then():
            adjacent.yield_(self._emit_score_loop(valid, lowest, self._load_adjacent))
        with adjacent.otherwise():
            adjacent.yield_(self._emit_score_loop(valid, lowest, self._load_strided))
        return adjacent.results[0]

    def _emit_score_loop(
        self, valid: Value, lowest: Value, load_mask: Callable[[Value, Value | None], Value | None]
    ) -> Value:
        b, lanes = self.b, self.shape.lanes
        whole = b.sub(valid, b.rem(valid, lanes))
        with b.for_(0, whole, lanes, [lowest]) as loop:
            x = self._masked(self._scaled(loop.index), load_mask(loop.index, None))
            b.store(x, self.scores, loop.index)
            loop.yield_(b.maximum(x, loop.args[0], nan="either"))
        tail = b.if_(b.cmp("slt", whole, valid), [lowest.type])
        with tail.then():
            exists = b.tail_mask(b.sub(valid, whole), lanes)
            x = b.select(exists, self._masked(self._scaled(whole), load_mask(whole, exists)), float("-inf"))
            b.store(x, self.scores, whole)
            tail.yield_(b.maximum(x, loop.results[0], nan="either"))
        with tail.otherwise():
            tail.yield_(loop.results[0])
        return tail.results[0]

    def _scaled(self, index: Value) -> Value:
        b = self.b
        scores = b.load(self.scores, b.type(self.shape.element), index, width=self.shape.lanes)
        return b.mul(scores, b.broadcast(self.scale, self.shape.lanes))

    def _masked(self, x: Value, mask: Value | None) -> Value:
        if mask is None:
            return x
        if self.kind == "float":
            return self.b.add(x, mask)
        return self.b.select(self.b.cmp("ne", mask, 0), x, float("-inf"))

    def _mask_type(self) -> Type:
        return self.b.i8 if self.kind == "bool" else self.b.type(self.shape.element)

    def _load_adjacent(self, index: Value, exists: Value | None) -> Value:
        return self.b.load(self.mask, self._mask_type(), index, width=self.shape.lanes, mask=exists)

    def _load_strided(self, index: Value, exists: Value | None) -> Value:
        b, lanes = self.b, self.shape.lanes
        positions = b.mul(b.add(b.lane_numbers(lanes), index), self.stride)
        return b.gather(self.mask, self._mask_type(), positions, mask=exists)

    def emit_probabilities(self, valid: Value, origin: Value) -> Value:
        """Replace x by exp(x − origin); returns the sum in each lane."""
        b, lanes = self.b, self.shape.lanes
        element = b.type(self.shape.element)
        start = b.broadcast(origin, lanes)
        with b.for_(0, valid, lanes, [b.splat(0, element, lanes)]) as loop:
            x = b.load(self.scores, element, loop.index, width=lanes)
            p = exp_nonpositive(b, b.sub(x, start), self.shape.element)
            b.store(p, self.scores, loop.index)
            loop.yield_(b.add(loop.args[0], p))
        return loop.results[0]

    def emit_zeros(self, valid: Value, total: Value) -> None:
        """Clear the scores between the last valid vector and `total`."""
        b, lanes = self.b, self.shape.lanes
        zeros = b.splat(0, b.type(self.shape.element), lanes)
        with b.for_(b.mul(b.ceildiv(valid, lanes), lanes), total, lanes) as loop:
            b.store(zeros, self.scores, loop.index)
