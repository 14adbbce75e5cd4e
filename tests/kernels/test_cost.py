"""The cost model: exact on cases that can be counted by hand, monotone, and grains at every size."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import Float32Type

from anyshape.codegen.attend import attend_schedule, attend_time
from anyshape.codegen.contract import contract_schedule, contract_time
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp, YieldOp, buffer
from anyshape.kernels.cost import (
    TICKS,
    WORTH,
    AttentionWork,
    ProductWork,
    RegisterTile,
    attention_time,
    grain_of,
    nanoseconds,
    panel_step_time,
    product_time,
    transfer_time,
)
from anyshape.support.machine import Machine, Rates
from anyshape.symbolic import Size

RATES = Rates(fma=128, l1=128, l2=64, l3=32, memory=8, simple=0.25, transcendental=4, region=1000)
MACHINE = Machine("x86_64", 512, 32, 1 << 15, 1 << 20, 1 << 25, cores=2, threads=2, measured=RATES)
ONE, S = Size.const(1), Size.symbol("s")
F32 = Float32Type()


def product(m: int, n: int, k: int, *, blocks: int = 1, packed: bool = True, speed: float = 1.0) -> ProductWork:
    return ProductWork(ONE, *map(Size.const, (m, n, k, blocks)), packed=packed, speed=speed)


@pytest.mark.parametrize(
    ("footprint", "rate"),
    [
        (0, 128),
        (1 << 15, 128),
        ((1 << 15) + 1, 64),
        (1 << 20, 64),
        ((1 << 20) + 1, 32),
        (1 << 25, 32),
        ((1 << 25) + 1, 8),
    ],
)
def test_bytes_come_from_the_level_that_holds_them(footprint: int, rate: float) -> None:
    assert nanoseconds(transfer_time(4096, footprint, MACHINE)) == 4096 / rate
    assert nanoseconds(transfer_time(4096, S, MACHINE), {"s": footprint}) == 4096 / rate


def test_without_a_third_level_memory_follows_the_second() -> None:
    assert nanoseconds(transfer_time(4096, 1 << 21, replace(MACHINE, l3=0))) == 4096 / 8


def test_a_level_that_seems_faster_than_the_one_before_is_not() -> None:
    odd = replace(MACHINE, measured=replace(RATES, l2=200.0))
    assert nanoseconds(transfer_time(4096, 1 << 16, odd)) == 4096 / 128


def test_a_large_product_is_multiplying() -> None:
    assert nanoseconds(product_time(product(1024, 384, 384), MACHINE)) == 2 * 1024 * 384 * 384 / 128
    assert nanoseconds(product_time(product(1024, 384, 384, speed=4.0), MACHINE)) == 2 * 1024 * 384 * 384 / 512
    # A part of a panel takes what the whole panel takes.
    assert nanoseconds(product_time(product(64, 1, 64), MACHINE)) == 2 * 64 * 64 * 64 / 128


def test_a_product_of_one_row_is_reading() -> None:
    weights, row = 4 * 2048 * 2048, 4 * (2048 + 2048)
    assert nanoseconds(product_time(product(1, 2048, 2048), MACHINE)) == weights / 32 + row / 128
    assert nanoseconds(product_time(product(1, 2048, 2048, packed=False), MACHINE)) == 3 * weights / 32 + row / 128


@pytest.mark.parametrize(
    ("tiles", "rate", "expected"),
    [
        # RATES: a multiply-add of a vector takes 1/4 ns, a load 1/2 ns, 256 bytes of a step 4 ns from the second level.
        ([RegisterTile(1, 4, 1)], math.inf, 4),
        ([RegisterTile(6, 4, 1)], math.inf, 6),
        ([RegisterTile(1, 1, 4)], math.inf, 4),
        ([RegisterTile(14, 1, 4)], math.inf, 30),
        ([RegisterTile(4, 4, 1), RegisterTile(4, 4, 1)], math.inf, 8),
        ([RegisterTile(6, 4, 1)], 16, 16),
        ([RegisterTile(6, 2, 2)], 16, 32),
        ([RegisterTile(4, 4, 1), RegisterTile(4, 2, 2)], 16, 16),
    ],
)
def test_a_step_of_a_panel(tiles: list[RegisterTile], rate: float, expected: float) -> None:
    assert panel_step_time(tiles, 256, MACHINE, rate=rate) == expected


def test_a_second_level_that_seems_slower_than_memory_is_not() -> None:
    odd = replace(MACHINE, measured=replace(RATES, l2=1.0))
    assert panel_step_time([RegisterTile(1, 4, 1)], 256, odd, rate=math.inf) == 256 / 32


def test_every_row_block_reads_all_panels() -> None:
    once, thrice = (nanoseconds(product_time(product(1, 2048, 2048, blocks=n), MACHINE)) for n in (1, 3))
    assert thrice - once == 2 * 4 * 2048 * 2048 / 32


def test_attention_is_multiplying_and_exponentials() -> None:
    work = AttentionWork(ONE, *map(Size.const, (12, 12, 128, 128, 64, 64)))
    scores = 12 * 128 * 128
    each = (4 + 6 * 0.25) / 16
    assert nanoseconds(attention_time(work, MACHINE)) == pytest.approx(2 * scores * 128 / 128 + scores * each, rel=1e-3)


def test_one_query_reads_keys_as_they_lie() -> None:
    packed, direct = (
        nanoseconds(
            attention_time(AttentionWork(ONE, *map(Size.const, (8, 8, 1, 1024, 64, 64)), direct_queries=limit), MACHINE)
        )
        for limit in (0, 1)
    )
    read = 4 * 8 * 1024 * 128 / 32
    assert packed - direct == pytest.approx(2 * read, rel=1e-3)


SIZES = st.integers(0, 5000)


@given(SIZES, st.integers(0, 700), st.integers(0, 700), st.integers(0, 300))
def test_more_work_never_takes_less_time(m: int, n: int, k: int, more: int) -> None:
    def time(m: int, n: int, k: int) -> float:
        return nanoseconds(product_time(product(m, n, k), MACHINE))

    least = time(m, n, k)
    assert 0 <= least <= min(time(m + more, n, k), time(m, n + more, k), time(m, n, k + more))

    def attend(queries: int, keys: int) -> float:
        work = AttentionWork(ONE, *map(Size.const, (4, 4, queries, keys, 32, 32)), direct_queries=2)
        return nanoseconds(attention_time(work, MACHINE))

    assert 0 <= attend(m, k) <= min(attend(m + more, k), attend(m, k + more))


@given(st.integers(0, 1 << 34), st.integers(0, 1 << 30))
def test_more_bytes_never_take_less_time(bytes_: int, more: int) -> None:
    def time(moved: int) -> float:
        return nanoseconds(transfer_time(moved, moved, MACHINE))

    assert time(bytes_) <= time(bytes_ + more)


@given(st.integers(0, 1 << 40), st.sampled_from([1, 64]))
def test_a_grain_is_the_least_that_pays(ticks: int, multiple: int) -> None:
    grain = grain_of(Size.const(ticks), MACHINE, multiple=multiple).value
    worth = WORTH * RATES.region * TICKS
    assert grain >= multiple and grain % multiple == 0
    points = grain // multiple
    assert points * max(1, ticks) >= worth
    assert points == 1 or (points - 1) * max(1, ticks) < worth


def linear(rows: Size, columns: Size, depth: Size) -> ContractOp:
    panels = (columns + 63) // 64
    buffers = [buffer(F32, [rows, depth]), buffer(F32, [panels, depth, 64]), buffer(F32, [rows, columns])]
    kernel = KernelOp("linear", ["m", "n", "k"], buffers)
    lhs, rhs, out = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, [], (rows, columns, depth), F32, packed=True)
    op.epilogue.block.add_op(YieldOp(op.epilogue.block.args[-1]))
    kernel.body.block.add_op(op)
    return op


EXTREMES = (0, 1, 2, 63, 64, 65, 1000, 1 << 20)


def test_grains_of_products_at_every_size() -> None:
    m, n, k = (Size.symbol(name) for name in "mnk")
    op = linear(m, n, k)
    schedule, time = contract_schedule(op, MACHINE), contract_time(op, MACHINE)
    for rows in EXTREMES:
        for columns in (0, 1, 65, 1 << 14):
            for depth in (0, 1, 384, 1 << 14):
                env = {"m": rows, "n": columns, "k": depth}
                grain, extent = schedule.grain.evaluate(env), schedule.extent.evaluate(env)
                assert grain >= 1
                # A panel counts whole, however few of its columns there are.
                if columns >= 64 and 0 < nanoseconds(time, env) <= RATES.region:
                    assert grain >= extent, f"small work stays on one thread: {env}"
                if nanoseconds(time, env) >= 16 * WORTH * RATES.region and extent >= 16:
                    assert 2 * grain <= extent, f"large work is divided: {env}"


def test_grains_of_attentions_at_every_size() -> None:
    names = ("b", "h", "s", "t", "d")
    b, h, s, t, d = (Size.symbol(name) for name in names)
    buffers = [buffer(F32, [b, h, n, d]) for n in (s, t, t, s)]
    kernel = KernelOp("attention", names, buffers)
    op = AttendOp(*kernel.body.block.args, None, (b, h, h, s, t, d, d), 0.125, causal=False)
    kernel.body.block.add_op(op)
    schedule, time = attend_schedule(op, MACHINE), attend_time(op, MACHINE)
    for queries in EXTREMES[:-1]:
        for keys in EXTREMES[:-1]:
            env = {"b": 2, "h": 12, "s": queries, "t": keys, "d": 64}
            grain, extent = schedule.grain.evaluate(env), schedule.extent.evaluate(env)
            assert grain >= 1
            if nanoseconds(time, env) >= 16 * WORTH * RATES.region and extent >= 16:
                assert 2 * grain <= extent


def test_a_grain_does_not_depend_on_the_number_of_threads() -> None:
    op = linear(Size.symbol("m"), Size.const(384), Size.const(384))
    env = {"m": 1}
    grains = {contract_schedule(op, replace(MACHINE, threads=n, cores=n)).grain.evaluate(env) for n in (1, 2, 16)}
    assert len(grains) == 1


def test_the_usual_rates_are_positive_on_every_machine() -> None:
    for bits in (128, 256, 512):
        for l3 in (0, 1 << 25):
            rates = Machine(vector_bits=bits, l3=l3).rates
            assert all(math.isfinite(value) and value > 0 for value in vars(rates).values())
            assert rates.l1 >= rates.l2 >= rates.l3 and rates.l2 >= rates.memory
