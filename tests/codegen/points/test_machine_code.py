"""Claims about machine code, counted on assembly for named targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import points_access_plans
import points_plans
import pytest
from conftest import every_plan
from points_harness import lower_plans

from anyshape.codegen.llvm import Target, emit_assembly, emit_object, object_symbols, optimise
from anyshape.dialects.tile import KernelOp
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
    body = main_loop(assembly(points_plans.bias_relu()), "vmaxps")
    assert (count(body, "vaddps"), count(body, "vmaxps"), count(body, r"vmovups\s+%zmm")) == (2, 2, 2)
    assert len(body) <= 12


def test_softmax_loops_hold_no_spills_and_keep_nan_cheaply() -> None:
    text = assembly(points_plans.masked_softmax())
    assert "call" not in text and "vgather" not in text
    loops = [body for body in innermost_loops(text) if count(body, "zmm")]
    assert len(loops) >= 6
    assert all(count(body, r"\(%rsp\)|\(%rbp\)$") == 0 for body in loops)
    maxima = main_loop(text, "vmaxps")
    assert (count(maxima, "vmaxps"), count(maxima, "vcmpunordps")) == (4, 2)


def test_layer_norm_fuses_the_sum_of_squares() -> None:
    text = assembly(points_plans.layer_norm())
    assert count(main_loop(text, "vfmadd"), "vfmadd231ps.*zmm") == 4
    assert "vdivps" not in text


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
    assert count(main_loop(assembly(points_access_plans.embedding_inside()), "vmovups"), r"zmm") >= 2


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
