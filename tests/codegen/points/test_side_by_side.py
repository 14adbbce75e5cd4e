"""Rows that are reduced two at a time give the bytes that one by one gives, whatever their number and length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import points_harness
import points_plans
import pytest
from points_plans import F32, B, N, Plan, buffer
from test_machine_code import AVX512, assembly, count, innermost_loops

from anyshape.dialects.tile import KernelOp
from anyshape.support.machine import host_machine

ROWS = 7
WIDTHS = (0, 1, 7, 16, 17, 64, 65, 300)


@pytest.fixture(scope="module")
def usual() -> Iterator[points_harness.Compiled]:
    yield points_harness.compile_plans([points_plans.layer_norm()])


@pytest.fixture(scope="module")
def small_cache() -> Iterator[points_harness.Compiled]:
    """Rows of more than 64 elements are long."""
    yield points_harness.compile_plans([points_plans.layer_norm()], replace(host_machine(), l1=256))


def run(code: points_harness.Compiled, columns: int, cuts: list[int]) -> np.ndarray:
    rng = np.random.default_rng(columns)
    arrays = [
        rng.standard_normal(size).astype(np.float32) for size in (ROWS * columns, columns, columns, ROWS * columns)
    ]
    for begin, end in pairwise(cuts):
        code.run("layer_norm", arrays, {"b": ROWS, "n": columns}, begin, end)
    return arrays[-1]


@pytest.mark.parametrize("columns", WIDTHS)
def test_bytes_do_not_depend_on_what_a_row_is_computed_with(
    usual: points_harness.Compiled, small_cache: points_harness.Compiled, columns: int
) -> None:
    alone = run(usual, columns, list(range(ROWS + 1)))
    for cuts in ([0, ROWS], [0, 2, ROWS], [0, 1, 4, ROWS]):
        np.testing.assert_array_equal(run(usual, columns, cuts), alone)
        np.testing.assert_array_equal(run(small_cache, columns, cuts), alone)


def test_scratch_of_the_second_row_is_bounded(usual: points_harness.Compiled) -> None:
    """Only rows that fit the first-level cache are taken two at a time."""
    scratch = usual.emitted["layer_norm"].scratch_bytes
    one_row = 4 * (1 << 20)
    assert scratch.evaluate({"b": ROWS, "n": 1 << 20}) <= one_row + 2 * host_machine().l1


def kept_row() -> KernelOp:
    """out[i, :] = x² − Σ x², the squares kept in scratch."""
    plan = Plan("kept_row", ["b", "n"], [buffer(F32, [B, N])] * 2)
    x, out = plan.buffers
    with plan.parallel(B) as (i,):
        row = plan.scratch(N)
        with plan.lanes(N, ["sum"], [F32]) as (j, total):
            value = plan.load(x, i, j)
            square = plan.math.mul(value, value)
            plan.store(square, row, j)
            plan.yield_(square)
        with plan.lanes(N) as (j, _):
            plan.store(plan.math.sub(plan.load(row, j), total.results[0]), out, i, j)
    return plan.kernel


@pytest.mark.parametrize("l1", [64, 256, 1 << 15])
def test_a_row_alone_keeps_one_row(l1: int) -> None:
    """A long row has scratch for itself only, and neither reads nor writes a second one."""
    code = points_harness.compile_plans([kept_row()], replace(host_machine(), l1=l1))
    for columns in WIDTHS:
        x = np.random.default_rng(1).standard_normal(3 * columns).astype(np.float32)
        points_harness.check_plan(code, "kept_row", [x, np.zeros_like(x)], {"b": 3, "n": columns}, 3, atol=1e-4)
    assert code.emitted["kept_row"].scratch_bytes.evaluate({"b": 3, "n": 300}) <= 1216 + 2 * l1


def test_a_row_alone_stores_as_many_vectors_as_it_has() -> None:
    """Loops of one row store two vectors of scratch or of results a turn, those of two rows twice as many."""
    stores = [count(body, r"vmovu\w+\s+%zmm\d+, .*\(") for body in innermost_loops(assembly(kept_row(), AVX512))]
    assert {2, 4, 8} >= {number for number in stores if number > 1} and 2 in stores


def test_two_rows_load_what_they_share_once() -> None:
    """Weight and bias are read once for both rows: two loads less for each pair of vectors stored."""
    stores = r"vmovu\w+\s+%zmm\d+, .*\("
    loads = r"\(%r\w+.*%zmm"
    loops = innermost_loops(assembly(points_plans.layer_norm(), AVX512))
    last = [(count(body, stores), count(body, loads)) for body in loops if count(body, stores)]
    assert (2, 6) in last and (4, 8) in last
