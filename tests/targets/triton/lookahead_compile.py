"""The three kernels compiled ahead of time for sm_90 and gfx942, no GPU needed; `make test-gpu-lookahead` runs this."""

import re
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from anyshape.targets.triton import TritonKernel, emit_triton
from tests.targets.triton.launcher import load
from tests.targets.triton.plans import EMITTED, kernel_of
from tests.targets.triton.small_plans import (
    F16,
    I1,
    SCALARS,
    SIGNED_KINDS,
    column_reduction,
    row_reduction,
    scalar_plan,
)

TARGETS = {"sm_90": GPUTarget("cuda", 90, 32), "gfx942": GPUTarget("hip", "gfx942", 64)}
OBJECTS = {"sm_90": "cubin", "gfx942": "hsaco"}
CONSTANTS = {"BLOCK": 256, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "PRECISION": "ieee"}
ELF = b"\x7fELF"


def compile_for(
    target: str, kernel: TritonKernel, directory: Path, *, aligned: bool = False, **constants: object
) -> Any:
    """Compiled code by stage. With `aligned` every pointer and size is a multiple of 16, which a launcher would check."""
    function = getattr(load(kernel, directory), kernel.name)
    given = {each.name: {**CONSTANTS, **constants}[each.name] for each in kernel.parameters if each.role == "constexpr"}
    attributes = {
        (position,): [["tt.divisibility", 16]]
        for position, each in enumerate(kernel.parameters)
        if aligned and each.role != "constexpr"
    }
    source = ASTSource(function, kernel.signature(), given, attributes)
    return triton.compile(source, target=TARGETS[target]).asm


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EMITTED)
def test_every_kernel_becomes_an_object(name: str, target: str, tmp_path: Path) -> None:
    plan, whole_rows = EMITTED[name]
    code = compile_for(target, emit_triton(kernel_of(plan), whole_rows=whole_rows), tmp_path)
    assert code[OBJECTS[target]].startswith(ELF)


def test_small_plans_become_objects(tmp_path: Path) -> None:
    """What the interpreter takes the compiler takes, too."""
    kernels = [scalar_plan(*each) for each in SCALARS.values()]
    kernels += [make(kind, I1) for kind in SIGNED_KINDS for make in (row_reduction, column_reduction)]
    kernels += [make("max", F16) for make in (row_reduction, column_reduction)]
    for kernel in kernels:
        code = compile_for("sm_90", emit_triton(kernel, whole_rows=True), tmp_path)
        assert code["cubin"].startswith(ELF), kernel


def test_loads_of_a_row(tmp_path: Path) -> None:
    """256 lanes on 128 threads read two scores and two bytes of the mask; in blocks, two rows of scratch come back, too."""
    whole = compile_for("sm_90", emit_triton(kernel_of("softmax"), whole_rows=True), tmp_path)["ptx"]
    blocks = compile_for("sm_90", emit_triton(kernel_of("softmax")), tmp_path)["ptx"]
    assert (count(r"ld\.global\.b32", whole), count(r"ld\.global\.b8", whole)) == (2, 2)
    assert (count(r"ld\.global\.b32", blocks), count(r"ld\.global\.b8", blocks)) == (6, 2)
    assert (count(r"st\.global\.b32", whole), count(r"st\.global\.b32", blocks)) == (2, 6)


def test_sizes_known_to_be_multiples_of_16_give_vector_loads(tmp_path: Path) -> None:
    for name, vector in (("softmax_whole_rows", "v2"), ("column_sum", "v2"), ("product", "v4")):
        plan, whole_rows = EMITTED[name]
        kernel = emit_triton(kernel_of(plan), whole_rows=whole_rows)
        for aligned in (False, True):
            ptx = compile_for("sm_90", kernel, tmp_path, aligned=aligned)["ptx"]
            assert bool(count(rf"ld\.global\.{vector}\.b32", ptx)) is aligned, name


def test_numerics_are_those_of_the_plan(tmp_path: Path) -> None:
    """Maxima propagate NaN and f32 division is rounded correctly, on both machines."""
    kernel = emit_triton(kernel_of("softmax"), whole_rows=True)
    ptx = compile_for("sm_90", kernel, tmp_path)["ptx"]
    assert count(r"max\.NaN\.f32", ptx) and not count(r"max\.f32", ptx)
    assert count(r"div\.rn\.f32", ptx) and not count(r"div\.(full|approx)\S*", ptx)
    gcn = compile_for("gfx942", kernel, tmp_path)["amdgcn"]
    assert count(r"v_cmp_[ou]_f32\S*", gcn) and count(r"v_div_fixup_f32", gcn)


@pytest.mark.parametrize(
    ("precision", "sm_90", "gfx942"),
    [("ieee", None, r"v_mfma_f32_\w+x2_f32"), ("tf32", r"wgmma\.mma_async\S*tf32\.tf32", r"v_mfma_f32_\w+_xf32")],
)
def test_products_use_the_matrix_units(precision: str, sm_90: str | None, gfx942: str, tmp_path: Path) -> None:
    """f32 throughout unless tf32 is asked for; CDNA 3 multiplies matrices in f32, Hopper does not."""
    kernel = emit_triton(kernel_of("product"))
    ptx = compile_for("sm_90", kernel, tmp_path, PRECISION=precision)["ptx"]
    assert count(r"(wgmma\.mma_async|mma\.sync)\S*", ptx) == (count(sm_90, ptx) if sm_90 else 0)
    assert count(sm_90 or r"fma\.rn\.f32", ptx)
    assert count(gfx942, compile_for("gfx942", kernel, tmp_path, PRECISION=precision)["amdgcn"])


def count(instruction: str, text: str) -> int:
    """Lines of assembly whose instruction matches, predicated or not."""
    return len(re.findall(rf"^\s*(?:@\S+\s+)?{instruction}(?=\s)", text, re.MULTILINE))
