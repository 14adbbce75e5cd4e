"""Random graphs of `dhlo` ops, from a seed: the programs on which reference, plans and machine code must agree.

A graph grows from a pool of values. Every step draws a rule and applies it to values of the pool; a rule that does not
fit what it drew gives nothing. Values stay moderate (products take a tanh first), so that a difference is a fault and not the
noise of a long chain. Sizes are the symbols m, n, k, the open symbols om (1 or m) and on (1 or n), and small numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Attention,
    BroadcastInDim,
    Compare,
    Concatenate,
    ConstantStore,
    Convert,
    Divide,
    DotGeneral,
    Exponential,
    Gather,
    Gelu,
    LayerNorm,
    LogSoftmax,
    Maximum,
    Multiply,
    Negate,
    Pad,
    Reduce,
    Relu,
    Reshape,
    RmsNorm,
    Scan,
    Select,
    Slice,
    Softmax,
    Subtract,
    Tanh,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BOOL, F32, I64
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.symbolic import Size

ONE = Size.const(1)
EXTENTS = (0, 1, 2, 3, 7, 8, 17)
MOST_RANK = 4


def is_square(seed: int) -> bool:
    """Whether this seed's graph has one symbol for m, n and k."""
    return seed % 3 == 2


def environments(seed: int, count: int, extents: Sequence[int] = EXTENTS) -> Iterator[Mapping[str, int]]:
    """Values of the symbols: the first has large sizes, the rest are drawn from `extents`, each open size 1 or full."""
    random = Random(seed)
    square = is_square(seed)
    for number in range(count):
        m, n, k = (17, 8, 7) if number == 0 else (random.choice(extents) for _ in range(3))
        m = n if square else m
        yield {"m": m, "n": n, "k": k, "om": random.choice((1, m)), "on": random.choice((1, n))}


@dataclass
class RandomGraph:
    """Grows a function; `store` holds its weights."""

    random: Random
    square: bool = False
    """Whether m, n and k are one symbol, so that an axis is easily taken for another."""
    store: ConstantStore = field(default_factory=ConstantStore)
    builder: FunctionBuilder = field(default_factory=FunctionBuilder)
    pool: list[SSAValue] = field(default_factory=list[SSAValue])
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])

    def __post_init__(self) -> None:
        g = self.builder
        self.m, self.n, self.k = [Size.symbol("n")] * 3 if self.square else (Size.symbol(name) for name in "mnk")
        self.om, self.on = Size.symbol("om"), Size.symbol("on")
        self.full = {self.om: self.m, self.on: self.n}
        self.sizes = (self.m, self.n, self.k, self.m, self.n, ONE, Size.const(3), Size.const(4))
        m, n, k = self.m, self.n, self.k
        shapes = ((m,), (n, k), (m, n), (m, n, k), (self.om, n), (m, self.on), (k, 3, 4), (m, 1, n), (1,), ())
        self.inputs = [g.input(*shape) for shape in shapes]
        self.indices, self.flags = g.input(m, n, dtype=I64), g.input(m, n, dtype=BOOL)

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> SSAValue:
        """A value, mostly one of the latest."""
        recent = self.pool[-4:]
        return self.random.choice(recent if self.random.random() < 0.6 and recent else [*self.pool, *self.inputs])

    def subset(self, count: int, least: int = 1) -> tuple[int, ...]:
        """Some of the axes 0 … count − 1, in order."""
        size = self.random.randint(min(least, count), count)
        return tuple(sorted(self.random.sample(range(count), size)))

    def permuted(self, value: SSAValue) -> SSAValue:
        order = list(range(len(sizes_of(value.type))))
        self.random.shuffle(order)
        return self.builder(Transpose, value, permutation=tuple(order)) if order else value

    def like(self, value: SSAValue) -> SSAValue:
        """Another value of the same sizes: one of the pool, or a smaller one spread over them."""
        sizes = sizes_of(value.type)
        equal = [other for other in (*self.pool, *self.inputs) if sizes_of(other.type) == sizes and other is not value]
        if equal and self.random.random() < 0.4:
            return self.random.choice(equal)
        fits = [
            (other, axes)
            for other in (*self.inputs, *self.pool[-6:])
            if (axes := self._fitting(other, sizes)) is not None
        ]
        if not fits:
            return value
        other, axes = self.random.choice(fits)
        return self.builder(BroadcastInDim, other, dimensions=axes, sizes=sizes)

    # -- rules ----------------------------------------------------------------------------------------------------

    def unary(self) -> SSAValue:
        cls = self.random.choice((Tanh, Negate, Abs, Relu, Gelu))
        return self.builder(cls, self.draw())

    def exponential(self) -> SSAValue:
        return self.builder(Exponential, self.builder(Tanh, self.draw()))

    def binary(self) -> SSAValue:
        x = self.draw()
        return self.builder(self.random.choice((Add, Subtract, Maximum)), x, self.like(x))

    def scaled(self) -> SSAValue:
        x = self.draw()
        return self.builder(Multiply, x, self.builder(Tanh, self.like(x)))

    def masked(self) -> SSAValue:
        """Where a comparison of positions or a flag holds x, elsewhere a constant."""
        g, x = self.builder, self.draw()
        sizes = sizes_of(x.type)
        if sizes == (self.m, self.n) and self.random.random() < 0.5:
            mask = self.flags
        elif len(sizes) >= 2:
            first, second = self.random.sample(range(len(sizes)), 2)
            direction = self.random.choice(("le", "lt", "ne"))
            mask = g(Compare, g.iota(first, *sizes), g.iota(second, *sizes), direction=direction)
        else:
            return x
        return g(Select, mask, x, g.full(self.random.choice((0.0, -5.0)), *sizes))

    def positions(self) -> SSAValue | None:
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        steps = self.builder.iota(self.random.randrange(rank), *sizes_of(x.type))
        return self.builder(Add, x, self.builder(Convert, steps, dtype=F32))

    def broadcast(self) -> SSAValue | None:
        """New axes anywhere, and axes of size 1 that grow."""
        x = self.draw()
        sizes = [
            self.random.choice(self.sizes[:3]) if s == ONE and self.random.random() < 0.5 else s
            for s in sizes_of(x.type)
        ]
        sizes = [self.full.get(size, size) for size in sizes]
        axes = list(range(len(sizes)))
        for _ in range(self.random.randint(0, MOST_RANK - len(sizes)) if len(sizes) < MOST_RANK else 0):
            at = self.random.randint(0, len(sizes))
            sizes.insert(at, self.random.choice(self.sizes))
            axes = [axis + (axis >= at) for axis in axes]
        return self.builder(BroadcastInDim, x, dimensions=tuple(axes), sizes=tuple(sizes))

    def transpose(self) -> SSAValue:
        return self.permuted(self.draw())

    def unit_reshape(self) -> SSAValue:
        """Axes of size 1 are dropped, and one may be added."""
        x = self.draw()
        sizes = [size for size in sizes_of(x.type) if size != ONE or self.random.random() < 0.3]
        if len(sizes) < MOST_RANK and self.random.random() < 0.6:
            sizes.insert(self.random.randint(0, len(sizes)), ONE)
        return self.builder(Reshape, x, sizes=tuple(sizes))

    def reshape(self) -> SSAValue | None:
        """Two neighbouring axes become one, or the factors of one become two."""
        x = self.draw()
        sizes = list(sizes_of(x.type))
        if len(sizes) < 2:
            return None
        at = self.random.randrange(len(sizes) - 1)
        merged = sizes[at] * sizes[at + 1]
        flat = (*sizes[:at], merged, *sizes[at + 2 :])
        if self.random.random() < 0.5:
            return self.builder(Reshape, x, sizes=flat)
        moved = self.builder(Tanh, self.builder(Reshape, x, sizes=flat))
        return self.builder(Reshape, moved, sizes=(*sizes[:at], sizes[at + 1], sizes[at], *sizes[at + 2 :]))

    def reduce(self) -> SSAValue | None:
        x = self.draw()
        axes = self.subset(len(sizes_of(x.type)))
        if not axes:
            return None
        kind = self.random.choice(("sum", "sum", "max", "min"))
        return self.builder(Tanh if kind == "sum" else Negate, self.builder(Reduce, x, axes=axes, kind=kind))

    def centred(self) -> SSAValue | None:
        """x minus a reduction of x over any axes, spread over x again."""
        x = self.draw()
        sizes = sizes_of(x.type)
        axes = self.subset(len(sizes))
        if not axes:
            return None
        kept = tuple(axis for axis in range(len(sizes)) if axis not in axes)
        row = self.builder(Tanh, self.builder(Reduce, x, axes=axes, kind=self.random.choice(("sum", "max"))))
        return self.builder(Subtract, x, self.builder(BroadcastInDim, row, dimensions=kept, sizes=sizes))

    def scan(self) -> SSAValue | None:
        """Prefixes along any axis: sums take a tanh first and last."""
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        axis, kind = self.random.randrange(rank), self.random.choice(("sum", "max", "min"))
        if kind != "sum":
            return self.builder(Scan, x, axis=axis, kind=kind)
        return self.builder(Tanh, self.builder(Scan, self.builder(Tanh, x), axis=axis, kind=kind))

    def softmax(self) -> SSAValue | None:
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        axis = self.random.choice((rank - 1, rank - 1, self.random.randrange(rank)))
        return self.builder(self.random.choice((Softmax, Softmax, LogSoftmax)), x, axis=axis)

    def norm(self) -> SSAValue | None:
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        axes = tuple(range(self.random.randrange(rank), rank))
        return self.builder(self.random.choice((LayerNorm, RmsNorm)), x, axes=axes, epsilon=1e-2)

    def concatenate(self) -> SSAValue | None:
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        others = [x] if self.random.random() < 0.3 else [self.builder(Negate, self.like(x))]
        return self.builder(Concatenate, x, *others, axis=self.random.randrange(rank))

    def pad(self) -> SSAValue | None:
        x = self.draw()
        rank = len(sizes_of(x.type))
        if rank == 0:
            return None
        amounts = [tuple(self.random.choice((0, 0, 1, 2)) for _ in range(rank)) for _ in range(2)]
        padded = self.builder(Pad, x, self.builder.full(0.5), low=amounts[0], high=amounts[1])
        return self.cut(padded, amounts[0], sizes_of(x.type))

    def cut(self, value: SSAValue, most: tuple[int, ...], sizes: tuple[Size, ...]) -> SSAValue:
        """Back to `sizes`, from starts up to `most`."""
        starts = tuple(self.random.randint(0, low) for low in most)
        return self.builder(Slice, value, starts=starts, sizes=sizes, strides=(1,) * len(sizes))

    def flip(self) -> SSAValue | None:
        x = self.draw()
        sizes = sizes_of(x.type)
        flipped = [self.random.random() < 0.5 for _ in sizes]
        starts = tuple(size - 1 if flip else Size.const(0) for size, flip in zip(sizes, flipped, strict=True))
        strides = tuple(-1 if flip else 1 for flip in flipped)
        return self.builder(Slice, x, starts=starts, sizes=sizes, strides=strides) if sizes else None

    def gather(self) -> SSAValue:
        """Rows of a table with more rows than the largest index."""
        g, x = self.builder, self.draw()
        rank = len(sizes_of(x.type))
        if not 1 <= rank <= 2:
            x, rank = self.inputs[1], 2
        low = (3, *[0] * (rank - 1))
        table = g(Pad, x, g.full(0.0), low=low, high=(0,) * rank)
        window = sizes_of(x.type)[1:]
        return g(
            Gather, table, self.indices,
            offset_dims=tuple(range(2, 2 + len(window))), collapsed_slice_dims=(0,), start_index_map=(0,),
            index_vector_dim=2, slice_sizes=(ONE, *window),
        )  # fmt: skip

    def product(self) -> SSAValue:
        """A product over some axes of x with a weight, an input or a value, any axes in any order."""
        g, x = self.builder, self.draw()
        sizes = sizes_of(x.type)
        roles = [self.random.choice(("free", "batch", "contract", "contract")) for _ in sizes]
        batch = [axis for axis, role in enumerate(roles) if role == "batch"]
        contract = [axis for axis, role in enumerate(roles) if role == "contract"]
        y, where = self._factor([sizes[axis] for axis in (*batch, *contract)])
        value = g(
            DotGeneral, x, g(Tanh, y) if not isinstance(y.owner, Weight) else y,
            lhs_batch=tuple(batch), lhs_contract=tuple(contract),
            rhs_batch=tuple(where[: len(batch)]), rhs_contract=tuple(where[len(batch) :]),
        )  # fmt: skip
        if len(sizes_of(value.type)) > MOST_RANK:
            value = g(Reshape, value, sizes=(numel(sizes_of(value.type)),))
        if self.random.random() < 0.3:
            self.pool.append(value)
        return g(Tanh, value) if self.random.random() < 0.5 else g(Divide, value, g.full(8.0, *sizes_of(value.type)))

    def _factor(self, shared: list[Size]) -> tuple[SSAValue, list[int]]:
        """A value with these sizes on some axes (and perhaps one more), and where each of them is."""
        free = [self.random.choice((self.n, Size.const(3), Size.const(70)))] if self.random.random() < 0.8 else []
        sizes = [*shared, *free]
        order = list(range(len(sizes)))
        self.random.shuffle(order)
        laid = [sizes[axis] for axis in order]
        where = [order.index(axis) for axis in range(len(shared))]
        if all(size.is_constant for size in sizes):
            numbers = np.random.default_rng(len(self.pool)).standard_normal([size.value for size in laid])
            weight = Weight.of_array(numbers.astype(np.float32) / 2, self.store)
            return self.builder.add(weight).result, where
        source = self.builder(BroadcastInDim, self.draw_scalar(), dimensions=(), sizes=tuple(laid))
        for axis, size in enumerate(laid):
            along = next((value for value in self.inputs if sizes_of(value.type) == (size,)), None)
            if along is not None:
                spread = self.builder(BroadcastInDim, along, dimensions=(axis,), sizes=tuple(laid))
                source = self.builder(Add, source, spread)
        return source, where

    def draw_scalar(self) -> SSAValue:
        return self.inputs[-1]

    def weighted(self) -> SSAValue:
        """x · W + b over the last axis of a (m, n, 12) view, then gelu: a layer."""
        g = self.builder
        x = g(Reshape, self.inputs[6], sizes=(self.k, 12))
        array = np.random.default_rng(len(self.pool)).standard_normal((12, 12)).astype(np.float32) / 3
        weight = g.add(Weight.of_array(array, self.store)).result
        side = self.random.choice((0, 1))
        product = g(DotGeneral, x, weight, lhs_contract=(1,), rhs_contract=(side,))
        bias = g.add(Weight.of_array(array[0], self.store)).result
        total = g(Add, product, g(BroadcastInDim, bias, dimensions=(1,), sizes=(self.k, 12)))
        return g(Gelu, total) if self.random.random() < 0.5 else g(Add, total, x)

    def attention(self) -> SSAValue:
        """Attention of k × 3 heads as projections leave them, [k, m, 12] -> [1, 3, k, 4], through transposes."""
        g = self.builder
        heads = self.inputs[6]  # [k, 3, 4]
        q, k, v = (g(Multiply, heads, g.full(factor, self.k, 3, 4)) for factor in (1.0, 0.5, -1.0))
        by_head = [g(Reshape, g(Transpose, each, permutation=(1, 0, 2)), sizes=(1, 3, self.k, 4)) for each in (q, k, v)]
        value = g(Attention, *by_head, scale=0.5, causal=self.random.random() < 0.3)
        if self.random.random() < 0.7:
            value = g(Transpose, value, permutation=(0, 2, 1, 3))
            return g(Reshape, value, sizes=(1, self.k, 12))
        return value

    def rules(self) -> list[tuple[int, Callable[[], SSAValue | None]]]:
        """Every rule with its weight."""
        return [
            (3, self.unary), (1, self.exponential), (5, self.binary), (3, self.scaled), (2, self.masked), (1, self.positions),
            (4, self.broadcast), (3, self.transpose), (2, self.unit_reshape), (2, self.reshape), (4, self.reduce),
            (3, self.centred), (3, self.softmax), (2, self.norm), (1, self.concatenate), (1, self.pad), (1, self.flip),
            (1, self.gather), (2, self.product), (1, self.weighted), (1, self.attention), (3, self.scan),
        ]  # fmt: skip

    def grow(self, steps: int) -> list[SSAValue]:
        """Grow a fresh pool by some steps; returns its last value and a few others (perhaps an input, perhaps one twice)."""
        self.pool = []
        weights, rules = zip(*self.rules(), strict=True)
        while len(self.pool) < steps:
            value = self.random.choices(rules, weights)[0]()
            if value is not None and dtype_of(value.type) == F32 and len(sizes_of(value.type)) <= MOST_RANK:
                self.pool.append(value)
        others = self.random.sample(self.pool, min(len(self.pool), self.random.randint(0, 2)))
        extra = [self.draw()] if self.random.random() < 0.2 else []
        return [self.pool[-1], *others, *extra]

    def _fitting(self, value: SSAValue, sizes: tuple[Size, ...]) -> tuple[int, ...] | None:
        """Axes of `sizes` to which those of `value` broadcast, None where there are none."""
        axes: list[int] = []
        for size in sizes_of(value.type):
            full = self.full.get(size, size)
            start = axes[-1] + 1 if axes else 0
            found = next((axis for axis in range(start, len(sizes)) if sizes[axis] == full or size == ONE), None)
            if found is None:
                return None
            axes.append(found)
        return tuple(axes) if dtype_of(value.type) == F32 else None


def random_function(seed: int, *, graphs: int = 1, steps: int = 8) -> tuple[FuncOp, ConstantStore]:
    """A function with the results of several graphs that share its inputs, and the store of its weights."""
    graph = RandomGraph(Random(seed), square=is_square(seed))
    results = [value for _ in range(graphs) for value in graph.grow(steps)]
    return graph.builder.finish(*results), graph.store
