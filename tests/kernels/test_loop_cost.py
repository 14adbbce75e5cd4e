"""The cost of memory-bound kernels: counted by hand on small plans, and grains of what the planner makes."""

import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute

from anyshape.dialects.tile import KernelOp, LanesOp, LoadOp, ParallelOp, StoreOp, YieldOp, buffer
from anyshape.kernels.cost import TICKS, WORTH, nanoseconds
from anyshape.kernels.loop_cost import loop_grain, loop_time, loop_work
from anyshape.support.machine import Machine, Rates
from anyshape.symbolic import Size

RATES = Rates(fma=128, l1=128, l2=64, l3=32, memory=8, simple=0.25, transcendental=4, region=1000)
MACHINE = Machine("x86_64", 512, 32, 1 << 15, 1 << 20, 1 << 25, cores=2, threads=2, measured=RATES)
N, S = Size.symbol("n"), Size.symbol("s")
F32, F64 = Float32Type(), Float64Type()
ACCESS = 64 / 128
"""Nanoseconds of loading or storing one vector."""


def flat(element: Attribute = F32, *, exponentials: int = 0) -> KernelOp:
    """y[j] = exp(… exp(x[j]))."""
    kernel = KernelOp("flat", ["n"], [buffer(element, [N]), buffer(element, [N])])
    source, target = kernel.body.block.args
    lanes = LanesOp(N)
    kernel.body.block.add_op(lanes)
    block = lanes.body.block
    load = LoadOp(source, [lanes.index])
    block.add_op(load)
    value = load.result
    for _ in range(exponentials):
        op = math.ExpOp(value)
        block.add_op(op)
        value = op.result
    block.add_ops([StoreOp(value, target, [lanes.index]), YieldOp()])
    return kernel


def scaled_rows(columns: Size, *, transposed: bool = False) -> KernelOp:
    """y[i, j] = x[i, j] · c[j], or x[j, i] · c[j]."""
    shape = [columns, S] if transposed else [S, columns]
    kernel = KernelOp("rows", ["s", "n"], [buffer(F32, shape), buffer(F32, [columns]), buffer(F32, [S, columns])])
    source, scale, target = kernel.body.block.args
    parallel = ParallelOp([S])
    kernel.body.block.add_op(parallel)
    (row,) = parallel.indices
    lanes = LanesOp(columns)
    parallel.body.block.add_op(lanes)
    place = [lanes.index, row] if transposed else [row, lanes.index]
    loads = LoadOp(source, place), LoadOp(scale, [lanes.index])
    scaled = arith.MulfOp(loads[0].result, loads[1].result)
    lanes.body.block.add_ops([*loads, scaled, StoreOp(scaled.result, target, [row, lanes.index]), YieldOp()])
    return kernel


def test_a_copy_is_loads_and_stores() -> None:
    work = loop_work(flat(), MACHINE)
    # A point is 64 elements: four vectors, each loaded and stored.
    assert nanoseconds(work.compute) == 4 * 2 * ACCESS
    assert (work.moved.value, work.shared.value, work.multiple) == (64 * 8, 0, 64)
    assert nanoseconds(loop_time(work, MACHINE), {"n": 1024}) == max(16 * 4 * 2 * ACCESS, 8 * 1024 / 128)
    assert nanoseconds(loop_time(work, MACHINE), {"n": 1 << 24}) == 8 * (1 << 24) / 8


def test_exponentials_take_their_time_beside_the_loads() -> None:
    work = loop_work(flat(exponentials=2), MACHINE)
    assert nanoseconds(work.compute) == 4 * 2 * 4.0


def test_wider_elements_take_more_vectors() -> None:
    narrow, wide = (nanoseconds(loop_work(flat(element), MACHINE).compute) for element in (F32, F64))
    assert wide == 2 * narrow


def test_what_all_rows_read_is_counted_once() -> None:
    work = loop_work(scaled_rows(Size.const(384)), MACHINE)
    assert (work.moved.value, work.shared.value) == (2 * 4 * 384, 4 * 384)
    assert nanoseconds(work.compute) == 24 * 3 * ACCESS


def test_elements_that_lie_apart_are_loaded_one_by_one() -> None:
    assert (
        nanoseconds(loop_work(scaled_rows(Size.const(384), transposed=True), MACHINE).compute) == 24 * (16 + 2) * ACCESS
    )


@pytest.mark.parametrize("columns", [Size.const(384), Size.const(3), N])
def test_grains_at_every_size(columns: Size) -> None:
    kernel = scaled_rows(columns)
    grain, time = loop_grain(kernel, MACHINE), loop_time(loop_work(kernel, MACHINE), MACHINE)
    for rows in (0, 1, 2, 1000, 1 << 30):
        for n in (0, 1, 2, 1000, 1 << 20):
            env = {"s": rows, "n": n}
            points = grain.evaluate(env)
            assert points >= 1
            if rows <= 1000 and 0 < nanoseconds(time, env) <= RATES.region / 2:
                assert points >= rows, f"small work stays on one thread: {env}"
            if rows == 1 << 30:
                assert 2 * points <= rows


def test_a_grain_of_elements_is_whole_cache_lines() -> None:
    grain = loop_grain(flat(), MACHINE).value
    assert grain % 64 == 0
    # A point moves 512 bytes at 64 bytes a nanosecond.
    assert grain == 64 * -(-int(WORTH * RATES.region * TICKS) // (8 * TICKS))
