"""One row of scores to unnormalised probabilities, with the running maximum and sum of an online softmax.

`as_softmax_<element>_<kind>` for the mask kinds `none`, `bool` and `float`:

    x[j] = scores[j] + mask[j]   (−∞ where a bool mask is false, and from `valid` on)
    m' = max(m, max x),  α = exp(m − m'),  scores[j] = exp(x[j] − m'),  l' = α·l + Σ scores

Queries come multiplied by `query_factor`, so scores are in units where exp is 2ˣ; beside a float mask, which may hold the lowest finite
number, it is eˣ. Masked scores become exactly 0. While every score so far is −∞, m' stays −∞ and all results are 0. Source: Milakov
and Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from anyshape.codegen.attend.elements import Elements
from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.vector_math.exponential import exp_reduced
from anyshape.codegen.vector_math.floats import LN_2, LOG2_E, format_of, polynomial, power_of_two_of_rounded

MaskKind = Literal["none", "bool", "float"]
MASK_KINDS: tuple[MaskKind, ...] = get_args(MaskKind)
Step = Callable[[Value, Value, Value | None, Value], Value]
"""(index, x, lanes that exist and are kept or None for all, what the vectors before gave) -> what they give with this one."""
_SMALLEST = {"f32": -126.0, "f64": -1022.0}
"""Below this 2ˣ is denormal, and taken as zero: 1e-38 of the largest probability."""
_EXP2 = (0.6931470036506653, 0.2402224689722061, 0.0555071085691452, 0.0096712913364172, 0.0013269521296024)
"""(2ʳ − 1)/r on |r| ≤ 1/2 for f32; relative error in 2ʳ 2^-23.3, less than the rounding of a score."""


def query_factor(scale: float, kind: MaskKind) -> float:
    """What queries are multiplied by."""
    return scale if kind == "float" else scale * LOG2_E


def softmax_name(element: str, kind: MaskKind) -> str:
    """The symbol of the row function."""
    return f"as_softmax_{element}_{kind}"


def softmax_arguments(b: Builder, elements: Elements) -> list[Type]:
    """(scores, mask, stride of mask, valid, total, state); returns α.

    Scores are readable and writable up to the next multiple of 64; those in [valid, total) become 0. `state` is (m, l).
    """
    return [b.ptr, b.ptr, b.i64, b.i64, b.i64, b.ptr]


def emit_softmax(module: ModuleBuilder, elements: Elements, kind: MaskKind) -> None:
    """Define `softmax_name(elements.name, kind)`."""
    b = Builder()
    element = b.type(elements.shape.element)
    arguments = softmax_arguments(b, elements)
    with module.function(softmax_name(elements.name, kind), arguments, [element]) as f:
        scores, mask, stride, valid, total, state = f.args
        row = _Row(b, elements, kind, scores, mask, stride, valid)
        before, sum_before = b.load(state, element), b.load(state, element, 1)
        after = b.maximum(before, largest_lane(b, row.emit_largest()), nan="either")
        # −∞ − −∞ is NaN, so a row without a finite score is measured from 0.
        origin = b.select(b.cmp("oeq", after, float("-inf")), 0.0, after)
        sum_ = b.reduce("add", row.emit_probabilities(origin))
        row.emit_zeros(total)
        later = b.if_(b.cmp("une", before, float("-inf")), [element])
        with later.then():
            later.yield_(exp_nonpositive(b, b.sub(before, origin), kind))
        with later.otherwise():
            later.yield_(b.const(element, 0))
        alpha = later.results[0]
        b.store(after, state)
        b.store(b.fma(alpha, sum_before, sum_), state, 1)
        f.return_(alpha)


def exp_nonpositive(b: Builder, x: Value, kind: MaskKind, keep: Value | None = None) -> Value:
    """2ˣ, or eˣ beside a float mask, for x ≤ 0 and NaN; results below the normal range are exactly 0, as are those not kept.

    Of eˣ, x = n·ln2 + r by a single FMA: what ln2 lacks, |n|·2^-29 in f32 (|n|·2^-55 in f64), is below the rounding of x itself.
    """
    form = format_of(x)
    is_natural = kind == "float"
    # Not less: NaN passes.
    exists = b.cmp("uge", x, _SMALLEST[form.name] * (LN_2 if is_natural else 1.0))
    shifted = b.fma(x, LOG2_E, form.round_magic) if is_natural else b.add(x, form.round_magic)
    n = b.sub(shifted, form.round_magic)
    if is_natural:
        significand = exp_reduced(b, b.fma(n, -LN_2, x), form)
    elif form.name == "f32":
        r = b.sub(x, n)
        significand = b.fma(r, polynomial(b, r, _EXP2), 1.0)
    else:
        significand = exp_reduced(b, b.mul(b.sub(x, n), LN_2), form)
    result = b.mul(significand, power_of_two_of_rounded(b, shifted, form))
    return b.select(exists if keep is None else b.and_(exists, keep), result, 0.0)


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
    elements: Elements
    kind: MaskKind
    scores: Value
    mask: Value
    stride: Value
    valid: Value

    @property
    def lanes(self) -> int:
        return self.elements.shape.lanes

    def emit_largest(self) -> Value:
        """The largest x in each lane."""
        b = self.b
        lowest = b.splat(float("-inf"), b.type(self.elements.shape.element), self.lanes)

        def step(index: Value, x: Value, keep: Value | None, largest: Value) -> Value:
            x = x if keep is None else b.select(keep, x, lowest)
            return b.maximum(x, largest, nan="either")

        return self._walk(lowest, step)

    def emit_probabilities(self, origin: Value) -> Value:
        """Replace the scores by exp(x − origin); returns the sum in each lane."""
        b = self.b
        start = b.broadcast(origin, self.lanes)

        def step(index: Value, x: Value, keep: Value | None, sum_: Value) -> Value:
            p = exp_nonpositive(b, b.sub(x, start), self.kind, keep)
            b.store(p, self.scores, index)
            return b.add(sum_, p)

        return self._walk(b.splat(0, b.type(self.elements.shape.element), self.lanes), step)

    def _walk(self, initial: Value, step: Step) -> Value:
        """Fold `step` over the vectors of the row; the mask is adjacent in memory, or gathered."""
        if self.kind == "none":
            return self._fold(initial, step, is_adjacent=True)
        b = self.b
        adjacent = b.if_(b.cmp("eq", self.stride, 1), [initial.type])
        with adjacent.then():
            adjacent.yield_(self._fold(initial, step, is_adjacent=True))
        with adjacent.otherwise():
            adjacent.yield_(self._fold(initial, step, is_adjacent=False))
        return adjacent.results[0]

    def _fold(self, initial: Value, step: Step, *, is_adjacent: bool) -> Value:
        b, lanes = self.b, self.lanes
        whole = b.sub(self.valid, b.rem(self.valid, lanes))
        with b.for_(0, whole, lanes, [initial]) as loop:
            x, keep = self._masked(loop.index, None, is_adjacent=is_adjacent)
            loop.yield_(step(loop.index, x, keep, loop.args[0]))
        tail = b.if_(b.cmp("slt", whole, self.valid), [initial.type])
        with tail.then():
            exists = b.tail_mask(b.sub(self.valid, whole), lanes)
            x, keep = self._masked(whole, exists, is_adjacent=is_adjacent)
            tail.yield_(step(whole, x, exists if keep is None else b.and_(keep, exists), loop.results[0]))
        with tail.otherwise():
            tail.yield_(loop.results[0])
        return tail.results[0]

    def _masked(self, index: Value, exists: Value | None, *, is_adjacent: bool) -> tuple[Value, Value | None]:
        """(scores + mask, which lanes a bool mask keeps)."""
        b, lanes = self.b, self.lanes
        scores = b.load(self.scores, b.type(self.elements.shape.element), index, width=lanes)
        if self.kind == "none":
            return scores, None
        positions = None if is_adjacent else b.mul(b.add(b.lane_numbers(lanes), index), self.stride)
        if self.kind == "float":
            if positions is None:
                mask = self.elements.own.load(b, self.mask, index, width=lanes, mask=exists)
            else:
                mask = self.elements.own.gather(b, self.mask, positions, mask=exists)
            return b.add(scores, mask), None
        if positions is None:
            mask = b.load(self.mask, b.i8, index, width=lanes, mask=exists)
        else:
            mask = b.gather(self.mask, b.i8, positions, mask=exists)
        return scores, b.cmp("ne", mask, 0)

    def emit_zeros(self, total: Value) -> None:
        """Clear the scores between the last valid vector and `total`."""
        b, lanes = self.b, self.lanes
        zeros = b.splat(0, b.type(self.elements.shape.element), lanes)
        with b.for_(b.mul(b.ceildiv(self.valid, lanes), lanes), total, lanes) as loop:
            b.store(zeros, self.scores, loop.index)
