"""Plans written by hand, and the means to write them: one function for each plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder, InsertPoint
from xdsl.dialects.builtin import Float32Type, IndexType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from anyshape.dialects.scalars import Scalars
from anyshape.dialects.tile import (
    BufferType,
    CheckOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.symbolic import Size, SizeLike

F32 = Float32Type()
B, S, N, M, K = (Size.symbol(name) for name in "bsnmk")


class Plan:
    """A kernel under construction; `math` appends scalar ops where the innermost `with` is."""

    def __init__(self, name: str, symbols: Sequence[str], buffers: Sequence[BufferType]) -> None:
        self.kernel = KernelOp(name, symbols, buffers)
        self.buffers = list(self.kernel.body.block.args)
        self._builders = [Builder(InsertPoint.at_end(self.kernel.body.block))]

    @property
    def builder(self) -> Builder:
        return self._builders[-1]

    @property
    def math(self) -> Scalars:
        return Scalars(self.builder)

    def add(self, op: Operation) -> SSAValue | None:
        self.builder.insert(op)
        return op.results[0] if op.results else None

    @contextmanager
    def inside(self, region: Region) -> Iterator[tuple[SSAValue, ...]]:
        self._builders.append(Builder(InsertPoint.at_end(region.block)))
        yield tuple(region.block.args)
        block: Block = region.block
        if not isinstance(block.last_op, YieldOp) and not isinstance(region.parent_op(), ParallelOp | KernelOp):
            self.yield_()
        self._builders.pop()

    def parallel(self, *extents: SizeLike):
        op = ParallelOp(extents)
        self.add(op)
        return self.inside(op.body)

    @contextmanager
    def lanes(self, extent: SizeLike, kinds: Sequence[str] = (), types: Sequence[Attribute] = ()):
        op = LanesOp(extent, kinds, types)
        self.add(op)
        with self.inside(op.body) as (index,):
            yield index, op

    @contextmanager
    def loop(self, extent: SizeLike, kinds: Sequence[str] = (), types: Sequence[Attribute] = ()):
        op = LoopOp(extent, kinds, types)
        self.add(op)
        with self.inside(op.body) as (index,):
            yield index, op

    @contextmanager
    def dot(self, extent: SizeLike, type_: Attribute = F32):
        op = DotOp(extent, type_)
        self.add(op)
        with self.inside(op.body) as (index,):
            yield index, op

    def yield_(self, *values: SSAValue) -> None:
        self.add(YieldOp(*values))

    def load(self, source: SSAValue, *indices: SSAValue, guard: SSAValue | None = None) -> SSAValue:
        op = LoadOp(source, indices, guard)
        self.add(op)
        return op.result

    def store(self, value: SSAValue, target: SSAValue, *indices: SSAValue) -> None:
        self.add(StoreOp(value, target, indices))

    def size(self, size: SizeLike) -> SSAValue:
        op = SizeOp(size)
        self.add(op)
        return op.result

    def index(self, number: int) -> SSAValue:
        return self.math.constant(number, IndexType())

    def scratch(self, *sizes: SizeLike, element: Attribute = F32) -> SSAValue:
        op = ScratchOp(element, sizes)
        self.add(op)
        return op.result

    def check(self, index: SSAValue, bound: SizeLike, site: int) -> SSAValue:
        op = CheckOp(index, bound, site)
        self.add(op)
        return op.result

    def number(self, value: float, type_: Attribute = F32) -> SSAValue:
        return self.math.constant(value, type_)


def bias_relu() -> KernelOp:
    """out[i, j] = max(x[i, j] + bias[j], 0)"""
    plan = Plan("bias_relu", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [N]), buffer(F32, [B, N])])
    x, bias, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        y = plan.math.add(plan.load(x, i, j), plan.load(bias, j))
        plan.store(plan.math.maximum(y, plan.number(0.0)), out, i, j)
    return plan.kernel


def bias_gelu() -> KernelOp:
    """out[i, j] = y/2 · (1 + erf(y/√2)), y = x[i, j] + bias[j]"""
    plan = Plan("bias_gelu", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [N]), buffer(F32, [B, N])])
    x, bias, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        y = plan.math.add(plan.load(x, i, j), plan.load(bias, j))
        e = plan.math.function("erf", plan.math.mul(y, plan.number(0.7071067811865476)))
        half = plan.math.mul(y, plan.number(0.5))
        plan.store(plan.math.mul(half, plan.math.add(e, plan.number(1.0))), out, i, j)
    return plan.kernel


def masked_softmax() -> KernelOp:
    """out[g, i, :] = softmax(scale · x[g, i, :] + mask[i, :]), the row kept in scratch."""
    plan = Plan(
        "masked_softmax", ["b", "s", "n"], [buffer(F32, [B, S, N]), buffer(F32, [S, N]), buffer(F32, [B, S, N])]
    )
    x, mask, out = plan.buffers
    with plan.parallel(B, S) as (g, i):
        row = plan.scratch(N)
        with plan.lanes(N, ["max"], [F32]) as (j, top):
            score = plan.math.add(plan.math.mul(plan.load(x, g, i, j), plan.number(0.125)), plan.load(mask, i, j))
            plan.yield_(score)
        with plan.lanes(N, ["sum"], [F32]) as (j, total):
            score = plan.math.add(plan.math.mul(plan.load(x, g, i, j), plan.number(0.125)), plan.load(mask, i, j))
            e = plan.math.function("exp", plan.math.sub(score, top.results[0]))
            plan.store(e, row, j)
            plan.yield_(e)
        inverse = plan.math.div(plan.number(1.0), total.results[0])
        with plan.lanes(N) as (j, _):
            plan.store(plan.math.mul(plan.load(row, j), inverse), out, g, i, j)
    return plan.kernel


def layer_norm() -> KernelOp:
    """out[i, :] = (x − mean) / √(var + ε) · gamma + beta over rows."""
    plan = Plan("layer_norm", ["b", "n"],
                [buffer(F32, [B, N]), buffer(F32, [N]), buffer(F32, [N]), buffer(F32, [B, N])])  # fmt: skip
    x, gamma, beta, out = plan.buffers
    with plan.parallel(B) as (i,):
        with plan.lanes(N, ["sum"], [F32]) as (j, total):
            plan.yield_(plan.load(x, i, j))
        count = plan.add(_to_float(plan.size(N), plan))
        mean = plan.math.div(total.results[0], count)
        with plan.lanes(N, ["sum"], [F32]) as (j, squares):
            d = plan.math.sub(plan.load(x, i, j), mean)
            plan.yield_(plan.math.mul(d, d))
        variance = plan.math.div(squares.results[0], count)
        scale = plan.math.function("rsqrt", plan.math.add(variance, plan.number(1e-5)))
        with plan.lanes(N) as (j, _):
            d = plan.math.mul(plan.math.sub(plan.load(x, i, j), mean), scale)
            plan.store(plan.math.add(plan.math.mul(d, plan.load(gamma, j)), plan.load(beta, j)), out, i, j)
    return plan.kernel


def _to_float(index: SSAValue, plan: Plan):
    from xdsl.dialects import arith

    return arith.SIToFPOp(plan.math.from_index(index, i64), F32)
