"""Each invariant of plans: a kernel that breaks it is refused, with a text that says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.scalars import Scalars
from anyshape.dialects.tile import (
    ContractOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    ParallelOp,
    PrefixOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.dialects.tile.verify import verify_kernel
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Size

F32 = Float32Type()
B, N = Size.symbol("b"), Size.symbol("n")


class Parts:
    """parallel(b) { lanes(n) { out[i, j] = x[i, j] } }, open for changes: `outer` and `inner` append."""

    def __init__(self) -> None:
        self.kernel = KernelOp("k", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, N])])
        self.x, self.out = self.kernel.body.block.args
        self.top = Builder(InsertPoint.at_end(self.kernel.body.block))
        self.parallel = self.top.insert(ParallelOp([B]))
        self.outer = Builder(InsertPoint.at_end(self.parallel.body.block))
        self.lanes = self.outer.insert(LanesOp(N))
        self.inner = Builder(InsertPoint.at_end(self.lanes.body.block))
        self.i, self.j = self.parallel.indices[0], self.lanes.index

    def close(self, value: SSAValue | None = None, *indices: SSAValue) -> KernelOp:
        value = value if value is not None else self.inner.insert(LoadOp(self.x, [self.i, self.j])).result
        self.inner.insert(StoreOp(value, self.out, list(indices) or [self.i, self.j]))
        self.inner.insert(YieldOp())
        return self.kernel


def test_a_good_kernel_passes() -> None:
    verify_kernel(Parts().close())


def in_place() -> KernelOp:
    parts = Parts()
    return parts.close(parts.inner.insert(LoadOp(parts.out, [parts.i, parts.j])).result)


def lane_unused() -> KernelOp:
    parts = Parts()
    return parts.close(None, parts.i, parts.i)


def row_unused() -> KernelOp:
    parts = Parts()
    return parts.close(None, parts.j, parts.j)


def nested_lanes() -> KernelOp:
    parts = Parts()
    lanes = parts.inner.insert(LanesOp(N))
    Builder(InsertPoint.at_end(lanes.body.block)).insert(YieldOp())
    return parts.close()


def foreign_symbol() -> KernelOp:
    parts = Parts()
    parts.inner.insert(SizeOp(Size.symbol("z") * 2))
    return parts.close()


def foreign_symbol_in_a_stride() -> KernelOp:
    kernel = KernelOp("k", ["n"], [buffer(F32, [N], [Size.symbol("z")])])
    lanes = Builder(InsertPoint.at_end(kernel.body.block)).insert(LanesOp(N))
    inner = Builder(InsertPoint.at_end(lanes.body.block))
    inner.insert(StoreOp(Scalars(inner).constant(1.0, F32), kernel.body.block.args[0], [lanes.index]))
    inner.insert(YieldOp())
    return kernel


def two_outermost() -> KernelOp:
    parts = Parts()
    parts.top.insert(ParallelOp([B]))
    return parts.close()


def reduction_outermost() -> KernelOp:
    kernel = KernelOp("k", ["n"], [buffer(F32, [N])])
    lanes = Builder(InsertPoint.at_end(kernel.body.block)).insert(LanesOp(N, ["sum"], [F32]))
    inner = Builder(InsertPoint.at_end(lanes.body.block))
    inner.insert(YieldOp(inner.insert(LoadOp(kernel.body.block.args[0], [lanes.index])).result))
    return kernel


def scratch_written_twice() -> KernelOp:
    parts = Parts()
    early = Builder(InsertPoint.at_start(parts.parallel.body.block))
    row = early.insert(ScratchOp(F32, [N])).result
    one = Scalars(parts.inner).constant(1.0, F32)
    for _ in range(2):
        parts.inner.insert(StoreOp(one, row, [parts.j]))
    return parts.close()


def scratch_in_lanes() -> KernelOp:
    parts = Parts()
    row = parts.inner.insert(ScratchOp(F32, [N])).result
    parts.inner.insert(StoreOp(Scalars(parts.inner).constant(1.0, F32), row, [parts.j]))
    return parts.close()


def used_before_definition() -> KernelOp:
    parts = Parts()
    kernel = parts.close()
    load = next(op for op in parts.lanes.body.block.ops if isinstance(op, LoadOp))
    load.detach()
    parts.lanes.body.block.insert_op_before(load, parts.lanes.body.block.last_op)  # pyright: ignore[reportArgumentType]
    return kernel


def store_in_dot() -> KernelOp:
    parts = Parts()
    dot = parts.inner.insert(DotOp(N, F32))
    inside = Builder(InsertPoint.at_end(dot.body.block))
    one = Scalars(inside).constant(1.0, F32)
    inside.insert(StoreOp(one, parts.out, [parts.i, parts.j]))
    inside.insert(YieldOp(one, one))
    parts.inner.insert(YieldOp())
    return parts.kernel


def too_few_yields() -> KernelOp:
    parts = Parts()
    bad = parts.outer.insert(LanesOp(N, ["sum"], [F32]))
    Builder(InsertPoint.at_end(bad.body.block)).insert(YieldOp())
    return parts.close()


def unknown_kind() -> KernelOp:
    parts = Parts()
    bad = parts.outer.insert(LanesOp(N, ["mean"], [F32]))
    inside = Builder(InsertPoint.at_end(bad.body.block))
    inside.insert(YieldOp(Scalars(inside).constant(1.0, F32)))
    return parts.close()


def prefix_outside_an_axis() -> KernelOp:
    parts = Parts()
    parts.outer.insert(PrefixOp("sum", Scalars(parts.outer).constant(1.0, F32)))
    return parts.close()


def prefix_in_divided_lanes() -> KernelOp:
    kernel = KernelOp("k", ["n"], [buffer(F32, [N]), buffer(F32, [N])])
    x, out = kernel.body.block.args
    lanes = Builder(InsertPoint.at_end(kernel.body.block)).insert(LanesOp(N))
    inner = Builder(InsertPoint.at_end(lanes.body.block))
    total = inner.insert(PrefixOp("sum", inner.insert(LoadOp(x, [lanes.index])).result))
    inner.insert(StoreOp(total.result, out, [lanes.index]))
    inner.insert(YieldOp())
    return kernel


def prefix_of_unknown_kind() -> KernelOp:
    parts = Parts()
    value = parts.inner.insert(LoadOp(parts.x, [parts.i, parts.j])).result
    return parts.close(parts.inner.insert(PrefixOp("mean", value)).result)


class Prologue:
    """out = rows · x, rows[i, k] = x[i, k] computed in a prologue: `row` appends to a row, `inner` to its lanes."""

    def __init__(self, *, prologue: bool = True) -> None:
        self.kernel = KernelOp("k", ["b"], [buffer(F32, [B, B]), buffer(F32, [B, B])])
        self.x, self.out = self.kernel.body.block.args
        top = Builder(InsertPoint.at_end(self.kernel.body.block))
        self.rows = top.insert(ScratchOp(F32, [B, B])).result
        self.product = top.insert(ContractOp(self.rows, self.x, self.out, [], (B, B, B), F32, prologue=prologue))
        after = self.product.epilogue.block
        Builder(InsertPoint.at_end(after)).insert(YieldOp(after.args[-1]))

    def lanes(self) -> tuple[Builder, SSAValue, SSAValue]:
        """Inside the lanes of a row: a builder, i and k."""
        assert self.product.prologue is not None
        block = self.product.prologue.block
        lanes = Builder(InsertPoint.at_end(block)).insert(LanesOp(B))
        return Builder(InsertPoint.at_end(lanes.body.block)), block.args[0], lanes.index

    def close(self, target: SSAValue | None = None, *, swapped: bool = False) -> KernelOp:
        inner, i, k = self.lanes()
        value = inner.insert(LoadOp(self.x, [i, k])).result
        inner.insert(StoreOp(value, self.rows if target is None else target, [k, k] if swapped else [i, k]))
        inner.insert(YieldOp())
        return self.kernel


def test_a_good_prologue_passes() -> None:
    verify_kernel(Prologue().close())


def rows_without_a_prologue() -> KernelOp:
    return Prologue(prologue=False).kernel


def prologue_that_stores_a_result() -> KernelOp:
    parts = Prologue()
    parts.close()
    return parts.close(parts.out)


def prologue_that_stores_one_row() -> KernelOp:
    return Prologue().close(swapped=True)


def prologue_that_stores_twice() -> KernelOp:
    parts = Prologue()
    parts.close()
    return parts.close()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (in_place, "both loaded and stored"),
        (lane_unused, "argument 0 of tile.lanes"),
        (row_unused, "argument 0 of tile.parallel"),
        (nested_lanes, "lanes are nested"),
        (foreign_symbol, "symbol that its kernel does not take"),
        (foreign_symbol_in_a_stride, "symbol that its kernel does not take"),
        (two_outermost, "one outermost op"),
        (reduction_outermost, "one outermost op"),
        (scratch_written_twice, "exactly one store"),
        (scratch_in_lanes, "belongs to no parallel point"),
        (used_before_definition, "not defined where it is used"),
        (store_in_dot, "a store is inside a product"),
        (too_few_yields, "must agree"),
        (unknown_kind, "unknown reductions"),
        (prefix_outside_an_axis, "directly inside no"),
        (prefix_in_divided_lanes, "lanes that a launch divides"),
        (prefix_of_unknown_kind, "unknown reduction mean"),
        (rows_without_a_prologue, "no prologue computes it"),
        (prologue_that_stores_a_result, "stores to a buffer of the kernel"),
        (prologue_that_stores_one_row, "argument 0 of tile.contract"),
        (prologue_that_stores_twice, "exactly one store"),
    ],
)
def test_a_broken_kernel_is_refused(broken: Callable[[], KernelOp], message: str) -> None:
    with pytest.raises(VerifyError, match=message) as caught:
        verify_kernel(broken())
    assert "@k" in str(caught.value)
