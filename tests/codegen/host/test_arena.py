"""The arena of compiled programs: buffers that live together never overlap, and the arena stays near the peak."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation

from anyshape.codegen.host import arena_buffers
from anyshape.dialects.host import AllocateOp, CheckOp, ProgramOp, ReadOp
from anyshape.dialects.host.interpreter import peak_live_bytes
from anyshape.dialects.tile import buffer
from anyshape.runtime.abi import DType
from anyshape.symbolic import Size

Compile = Callable[..., Any]
N = Size.symbol("n")
ALIGNMENT = 64


def random_program(draft: Any, seed: int) -> ProgramOp:
    """Launches on buffers drawn from all before them, through views or not: lifetimes nest and cross at random."""
    rng = random.Random(seed)
    d = draft([("x", [N]), ("y", [2, 4 * N])])
    d.bind(0, "n")
    d.guard(1, 2, 4 * N)
    narrow, wide = [d.dense(0)], [d.view(d.dense(1), 8 * N)]
    for _ in range(rng.randint(4, 14)):
        buffers, size = rng.choice([(narrow, N), (wide, 8 * N)])
        result = d.allocate(size)
        operands = [rng.choice(buffers[-rng.randint(1, 6) :]) for _ in range(2)]
        if rng.random() < 0.3:
            operands[0] = d.view(operands[0], 1, size)
        d.launch("add", *operands, d.view(result, size, 1) if rng.random() < 0.3 else result, extent=size)
        buffers.append(result)
    for index, (buffers, size) in enumerate([(narrow, N), (wide, 8 * N)]):
        d.launch("add", buffers[-1], rng.choice(buffers), d.output(index, size), extent=size)
    return d.finish()


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(draft: Any, compile_host: Compile, reference: Any, seed: int) -> None:
    program = random_program(draft, seed)
    run = compile_host(program, [(DType.F32, 1), (DType.F32, 1)])
    rng = np.random.default_rng(seed)
    for n in (16, 48, 0, 7):
        x = rng.integers(-9, 9, n).astype(np.float32)
        for y, strided in (
            (rng.integers(-9, 9, (2, 4 * n)).astype(np.float32), []),
            (x.repeat(8).reshape(-1, 2).T, [1]),
        ):
            run.plans.clear()
            for got, expected in zip(run(x, y), reference(program, [x, y]), strict=True):
                np.testing.assert_array_equal(got, expected)
            (plan,) = run.plans
            assert_disjoint(plan)
            peak = peak_live_bytes(program, [x.shape, y.shape], strided=strided if n else [])
            assert peak <= plan.total
            if n % 16 == 0:  # buffers are whole multiples of the alignment, so nothing is lost to rounding
                assert plan.total <= 1.15 * peak


def assert_disjoint(plan: Any) -> None:
    spans = list(zip(plan.first, plan.last, plan.offsets, plan.bytes, strict=True))
    for k, (first, last, offset, size) in enumerate(spans):
        assert offset % ALIGNMENT == 0 and 0 <= offset <= offset + size <= plan.total
        for other_first, other_last, other_offset, other_size in spans[:k]:
            if size and other_size and first <= other_last and other_first <= last:
                assert offset + size <= other_offset or other_offset + other_size <= offset


def test_a_chain_needs_two_buffers(draft: Any, compile_host: Compile) -> None:
    d = draft([("x", [N])])
    d.bind(0, "n")
    previous = d.dense(0)
    for _ in range(12):
        d.launch("twice", previous, following := d.allocate(N), extent=N)
        previous = following
    d.launch("twice", previous, d.output(0, N), extent=N)
    program = d.finish()
    run = compile_host(program)
    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(run(x)[0], x * 2**13)
    assert run.plans[0].total == 2 * x.nbytes == peak_live_bytes(program, [x.shape])
    np.testing.assert_array_equal(run(x[::-2])[0], x[::-2] * 2**13)
    assert run.plans[1].total == x.nbytes == peak_live_bytes(program, [(16,)], strided=[0])


def test_lifetimes_reach_through_views(draft: Any) -> None:
    d = draft([("x", [N])])
    d.bind(0, "n")
    x = d.dense(0)  # step 0
    kept, brief = d.allocate(N), d.allocate(N)
    d.allocate(N)  # never used: no place
    d.launch("twice", x, d.view(kept, N, 1), extent=N)  # step 1
    d.launch("twice", x, brief, extent=N)  # step 2
    d.launch("twice", brief, out := d.output(0, N), extent=N)  # step 3
    d.launch("add", d.view(d.view(kept, 1, N), N), d.view(kept, N), d.output(1, N), extent=N)  # step 4
    lives = {buffer.value: (buffer.first, buffer.last) for buffer in arena_buffers(d.finish())}
    assert lives == {x: (0, 2), kept: (1, 4), brief: (2, 3)}
    assert out not in lives


@pytest.mark.parametrize("late", [lambda number: ReadOp("k", number), lambda number: CheckOp(number, "guard", "", [])])
def test_numbers_live_until_they_are_looked_at(draft: Any, late: Callable[[Any], Operation]) -> None:
    d = draft([("x", [N])])
    d.bind(0, "n")
    x = d.dense(0)  # step 0
    d.append(number := AllocateOp(buffer(i64, [])))
    d.launch("twice", x, number.result, extent=1)  # step 1
    d.launch("twice", x, other := d.allocate(N), extent=N)  # step 2
    d.append(late(number.result))  # step 3
    d.launch("twice", other, d.output(0, N), extent=N)  # step 4
    lives = {buffer.value: (buffer.first, buffer.last) for buffer in arena_buffers(d.finish())}
    assert lives == {x: (0, 2), number.result: (1, 3), other: (2, 4)}
