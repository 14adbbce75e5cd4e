"""Claims about machine code, counted on assembly for named targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import points_access_plans
import points_plans
import pytest
from conftest import every_plan
from points_harness import check_plan, compile_plans, lower_plans
from points_plans import F32, B, M, N, Plan
from xdsl.ir import SSAValue

from anyshape.codegen.llvm import Target, emit_assembly, emit_object, object_symbols, optimise
from anyshape.dialects.tile import KernelOp, buffer
from anyshape.support.machine import Machine

AVX512 = Machine(
    architecture="x86_64", vector_bits=512, registers=32, features=frozenset({"avx2", "fma", "avx512f", "avx512bw"})
)
AVX2 = Machine(architecture="x86_64", vector_bits=256, registers=16, features=frozenset({"avx2", "fma"}))
NEON = Machine(architecture="aarch64", vector_bits=128, registers=32, features=frozenset({"neon"}))
ZEN4 = Target("x86_64-unknown-linux-gnu", "znver4", "-prefer-256-bit")
HASWELL = Target("x86_64-unknown-linux-gnu", "haswell", "")
NEOVERSE = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "")
RISCV = Target("riscv64-unknown-linux-gnu", "", "+m,+f,+d,+v,+zfhmin,+zvfhmin")


def assembly(kernel: KernelOp, machine: Machine = AVX512, target: Target = ZEN4) -> str:
    text, _ = lower_plans([kernel], machine)
    return emit_assembly(optimise(text, target), target)


def innermost_loops(text: str) -> Iterator[list[str]]:
    """Instructions between a label and a jump back to it with no other label between: the bodies of simple loops."""
    body: list[str] = []
    label = ""
    for line in text.splitlines():
        found = re.match(r"(\.LBB\d+_\d+):", line)
        if found:
            label, body = found[1], []
        elif line.startswith("\t") and not line.startswith("\t."):
            body.append(line.strip())
            if re.match(rf"\tj\w+\t{re.escape(label)}$", line) and label:
                yield body
                body = []


def count(body: list[str], pattern: str) -> int:
    return sum(re.search(pattern, line) is not None for line in body)


def main_loop(text: str, pattern: str) -> list[str]:
    """The loop with the most of some instruction."""
    return max(innermost_loops(text), key=lambda body: count(body, pattern))


def test_bias_relu_is_two_vectors_a_turn() -> None:
    body = main_loop(assembly(points_plans.bias_relu()), r"vmovups\s+%zmm")
    assert (count(body, "vaddps"), count(body, "vmaxps"), count(body, r"vmovups\s+%zmm")) == (2, 2, 2)
    assert len(body) <= 12


def test_softmax_loops_hold_no_spills_and_keep_nan_cheaply() -> None:
    text = assembly(points_plans.masked_softmax())
    assert "call" not in text and "vgather" not in text
    loops = [body for body in innermost_loops(text) if count(body, "zmm")]
    assert len(loops) >= 6
    assert all(count(body, r"zmm.*\(%rsp\)|\(%rsp\).*zmm") == 0 for body in loops)
    assert all(count(body, r"\(%rsp\)") <= 1 for body in loops), "a pointer may be reloaded"
    maxima = main_loop(text, "vmaxps")
    assert (count(maxima, "vmaxps"), count(maxima, "vcmpunordps")) == (4, 2)


def test_layer_norm_fuses_the_sum_of_squares() -> None:
    text = assembly(points_plans.layer_norm())
    loops = [count(body, "vfmadd231ps.*zmm") for body in innermost_loops(text)]
    assert sorted(number for number in loops if number >= 4) == [4, 8], "of one row, and of two side by side"
    assert "vdivps" not in text
    assert all(count(body, r"zmm.*\(%rsp\)|\(%rsp\).*zmm") == 0 for body in innermost_loops(text))


def test_whole_chunks_are_read_without_masks() -> None:
    """Only the last chunk of a row asks where the row ends."""
    chunks = (N + 4095) // 4096
    plan = Plan("chunks", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, chunks])])
    x, out = plan.buffers
    with plan.parallel(B, chunks) as (i, c):
        first = plan.math.mul(c, plan.size(4096))
        with plan.lanes(4096, ["sum"], [F32]) as (lane, axis):
            position = plan.math.add(first, lane)
            inside = plan.math.compare("lt", position, plan.size(N), unsigned=True)
            zero = plan.math.constant(0.0, F32)
            plan.yield_(plan.math.select(inside, plan.load(x, i, position, guard=inside), zero))
        plan.store(axis.results[0], out, i, c)
    bodies = [body for body in innermost_loops(assembly(plan.kernel)) if count(body, "vaddps.*zmm")]
    masked = [body for body in bodies if count(body, r"%k[1-7]")]
    assert len(bodies) > len(masked) >= 1
    assert max(count(body, r"vaddps\s+\S*\(%r.*zmm") for body in bodies if body not in masked) == 4


def test_product_is_a_tile_of_six_by_four() -> None:
    body = main_loop(assembly(points_access_plans.product()), "vfmadd")
    assert count(body, "vfmadd231ps") == 24
    assert count(body, r"\(%rsp\)") <= 1, "a pointer may be reloaded, a sum may not"
    assert count(body, r"zmm.*\(%rsp\)|\(%rsp\).*zmm") == 0


def test_open_axes_are_versions_without_gathers() -> None:
    text = assembly(points_access_plans.open_broadcast())
    assert "vgather" not in text
    assert all(len(body) <= 12 for body in innermost_loops(text))


@pytest.mark.parametrize(("machine", "target"), [(AVX512, ZEN4), (AVX2, HASWELL), (NEON, NEOVERSE), (NEON, RISCV)])
def test_objects_need_the_error_report_only(machine: Machine, target: Target) -> None:
    kernels = every_plan()
    if target is not ZEN4:
        # Where a target lacks instructions: narrow floats, functions, divisions, gathers, bools.
        lacking = ("f16", "softmax", "gelu", "divide", "take", "i1")
        kernels = [each for each in kernels if any(word in each.sym_name.data for word in lacking)]
    text, _ = lower_plans(kernels, machine)
    symbols = object_symbols(emit_object(optimise(text, target), target))
    assert symbols is not None
    assert symbols.undefined <= {"ral_report_index"}


def test_uniform_integers_do_not_narrow_the_lanes() -> None:
    """The i64 row number of an embedding is read inside the lanes, once for all of them: rows are still copied by zmm."""
    lines = assembly(points_access_plans.embedding_inside()).splitlines()
    assert count(lines, r"vmov\w+\s.*\(%r.*%zmm") >= 2
    assert count(lines, r"\(%r.*%[xy]mm") == 0


def test_a_transpose_turns_square_tiles() -> None:
    """16 rows are read and 16 are written, whole lines both; 4 stages of 16 shuffles between, and no gather."""
    body = main_loop(assembly(points_access_plans.transpose()), "zmm")
    assert count(body, r"vmovu\w+\s+%zmm\d+, .*\(") == 16
    assert count(body, "vgather|vscatter") == 0
    assert count(body, r"zmm.*%rsp|%rsp.*zmm") == 0
    assert 16 <= count(body, "vunpck|vshuf|vperm|vblend|vmovsldup|vmovshdup|vinsert") <= 96


def test_a_column_is_walked_with_a_wide_strip_of_its_neighbours() -> None:
    body = main_loop(assembly(points_access_plans.column_sum()), "vaddps")
    assert count(body, r"vaddps.*zmm") == 8 and count(body, "gather|%rsp") == 0


@pytest.mark.parametrize("name", ["f16", "bf16", "i32", "i64"])
def test_maps_of_other_elements_fill_whole_vectors(name: str) -> None:
    text = assembly(points_access_plans.map_of(f"map_{name}", points_access_plans.ELEMENTS[name]))
    arithmetic = r"v(mul|add|fmadd|pmul|padd)\w+\s.*%zmm"
    body = main_loop(text, arithmetic)
    assert count(body, arithmetic) >= 4, "a product and a sum of two vectors"
    assert count(body, "gather|scatter|%rsp|call") == 0


def test_short_rows_lie_across_lanes() -> None:
    """Rows of three points: sixteen rows a vector, and no reduction across lanes."""
    text = assembly(points_access_plans.fixed_row(3))
    assert "vgatherdps" in text or "vgatherqps" in text
    assert "vmovshdup" not in text


def chunked_column_sum() -> KernelOp:
    """out[j] = Σ_i x[i, j] over 100 rows, those behind the last being zero: as a chunk of a long reduction reads them."""
    plan = Plan("chunked", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [N])])
    x, out = plan.buffers
    with plan.lanes(N) as (j, _):
        with plan.loop(100, ["sum"], [F32]) as (i, total):
            inside = plan.math.compare("lt", i, plan.size(B), unsigned=True)
            plan.yield_(plan.math.select(inside, plan.load(x, i, j, guard=inside), plan.number(0.0)))
        plan.store(total.results[0], out, j)
    return plan.kernel


def test_a_guard_that_lanes_share_is_a_branch() -> None:
    """Only the end of a row is loaded under a mask."""
    text = assembly(chunked_column_sum())
    masked = [line for line in text.splitlines() if re.search(r"\(%r\w+.*zmm\d+ \{%k", line)]
    assert len(masked) <= 1
    assert count(text.splitlines(), r"vmovups\s+-?\d*\(%r.*zmm") >= 8


def test_a_shared_guard_reads_nothing_where_it_is_false() -> None:
    compiled = compile_plans([chunked_column_sum()])
    for b, n in ((0, 5), (1, 33), (7, 200), (100, 64)):
        x = np.random.default_rng(1).standard_normal(b * n).astype(np.float32)
        check_plan(compiled, "chunked", [x, np.zeros(n, np.float32)], {"b": b, "n": n}, n)


def test_bounds_are_kept_at_both_ends() -> None:
    """out[i] = Σ over l < m of x[i - 3 + l], as far as that exists: what begins before 0 is outside though its end is not."""
    plan = Plan("shifted", ["b", "m"], [buffer(F32, [B]), buffer(F32, [B])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,):
        first = plan.math.sub(i, plan.index(3))
        with plan.lanes(M, ["sum"], [F32]) as (lane, axis):
            position = plan.math.add(first, lane)
            inside = plan.math.compare("lt", position, plan.size(B), unsigned=True)
            plan.yield_(plan.math.select(inside, plan.load(x, position, guard=inside), plan.math.constant(-100.0, F32)))
        plan.store(axis.results[0], out, i)
    compiled = compile_plans([plan.kernel])
    for b, m in ((1, 1), (5, 2), (9, 4), (40, 17), (100, 40), (7, 0)):
        x = np.arange(b, dtype=np.float32)
        check_plan(compiled, "shifted", [x, np.zeros(b, np.float32)], {"b": b, "m": m}, b)


@pytest.mark.parametrize(("columns", "expected"), [(384, True), (4096, True), (1 << 20, False)])
def test_rows_are_read_ahead(columns: int, expected: bool) -> None:
    """While rows fit the second-level cache, the pass with the exponentials fetches a later row, line by line."""
    text = assembly(softmax_of(columns))
    loops = [body for body in innermost_loops(text) if count(body, "vscalefps")]
    assert loops
    assert all(bool(count(body, "prefetch")) == expected for body in loops[:1])
    assert ("prefetch" in text) == expected


def test_very_short_rows_are_not_read_ahead() -> None:
    assert "prefetch" not in assembly(softmax_of(48))


def test_chunks_are_read_ahead() -> None:
    """While the exponentials of a chunk are computed, the next chunk is fetched."""
    chunks = (N + 4095) // 4096
    plan = Plan("chunks", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, chunks])])
    x, out = plan.buffers
    with plan.parallel(B, chunks) as (i, c):
        first = plan.math.mul(c, plan.size(4096))

        def element(lane: SSAValue) -> SSAValue:
            position = plan.math.add(first, lane)
            inside = plan.math.compare("lt", position, plan.size(N), unsigned=True)
            below = plan.math.constant(-np.inf, F32)
            return plan.math.select(inside, plan.load(x, i, position, guard=inside), below)

        with plan.lanes(4096, ["max"], [F32]) as (lane, top):
            plan.yield_(element(lane))
        with plan.lanes(4096, ["sum"], [F32]) as (lane, total):
            plan.yield_(plan.math.function("exp", plan.math.sub(element(lane), top.results[0])))
        plan.store(total.results[0], out, i, c)
    loops = [body for body in innermost_loops(assembly(plan.kernel)) if count(body, "vscalefps")]
    assert loops and all(count(body, "prefetch") for body in loops)


def softmax_of(columns: int) -> KernelOp:
    """Softmax of rows of a known length."""
    plan = Plan("softmax", ["b"], [buffer(F32, [B, columns])] * 2)
    x, out = plan.buffers
    with plan.parallel(B) as (i,):
        row = plan.scratch(columns)
        with plan.lanes(columns, ["max"], [F32]) as (j, top):
            plan.yield_(plan.load(x, i, j))
        with plan.lanes(columns, ["sum"], [F32]) as (j, total):
            e = plan.math.function("exp", plan.math.sub(plan.load(x, i, j), top.results[0]))
            plan.store(e, row, j)
            plan.yield_(e)
        with plan.lanes(columns) as (j, _):
            plan.store(plan.math.div(plan.load(row, j), total.results[0]), out, i, j)
    return plan.kernel


def test_one_plan_reads_ahead_by_the_rows_of_each_launch() -> None:
    text = assembly(points_plans.masked_softmax())
    assert "prefetcht1" in text
    maxima = main_loop(text, "vmaxps")
    assert count(maxima, "prefetch") == 0, "the first pass is what reads memory already"
