"""Claims about the machine code of register tiles for named targets, none of which need be this machine."""

import re
from functools import cache

import pytest

from anyshape.codegen.llvm import Target, emit_assembly, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.tiles.microkernel import emit_tile, tile_name
from anyshape.codegen.tiles.shape import MAX_ROWS, PANEL, SUM_ELEMENTS, tile_shape
from anyshape.support.machine import Machine

MIB = 1 << 20
LINUX = "x86_64-unknown-linux-gnu"


def machine(bits: int, registers: int, *features: str, architecture: str = "x86_64") -> Machine:
    return Machine(architecture, bits, registers, l2=MIB, features=frozenset(features))


TARGETS = {
    "znver4": (machine(512, 32, "avx512bw", "avx512vnni", "avx512bf16"), Target(LINUX, "znver4", "-prefer-256-bit")),
    "skylake-avx512": (machine(512, 32, "avx512bw"), Target(LINUX, "skylake-avx512", "-prefer-256-bit")),
    "haswell": (machine(256, 16, "avx2"), Target(LINUX, "haswell")),
    "neoverse-n1": (
        machine(128, 32, "neon", "dotprod", architecture="aarch64"),
        Target("aarch64-unknown-linux-gnu", "neoverse-n1"),
    ),
}
MACHINES = [machine for machine, _ in TARGETS.values()] + [machine(128, 16), machine(128, 8)]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("element", SUM_ELEMENTS)
def test_tiles_fit_the_register_file(machine: Machine, element: str) -> None:
    shape = tile_shape(element, machine)
    for rows in range(1, MAX_ROWS + 1):
        vectors = shape.vectors(rows)
        assert PANEL % shape.columns(rows) == 0
        needed = rows * vectors + (vectors if rows > 1 else 0) + 1
        assert needed <= machine.registers or vectors == (2 if shape.is_interleaved else 1)


@cache
def assembly(target: str, element: str, rows: int = MAX_ROWS) -> str:
    """One register tile's."""
    machine, llvm_target = TARGETS[target]
    module = ModuleBuilder("tile", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_tile(module, tile_shape(element, machine), rows)
    return emit_assembly(optimise(lower_to_llvm(module.module), llvm_target), llvm_target)


def inner_loop(text: str, function: str, multiply: str) -> list[str]:
    """The instructions of the basic block with the multiplications of a function."""
    body = text[text.index(f"\n{function}:") :]
    blocks = re.split(r"\n\.L\w+:", body[: body.index(".Lfunc_end")])
    counts = [len(re.findall(multiply, block)) for block in blocks]
    lines = blocks[counts.index(max(counts))].splitlines()
    return [line.strip() for line in lines if line.startswith("\t") and not line.startswith("\t.")]


def count(lines: list[str], pattern: str) -> int:
    return sum(bool(re.search(pattern, line)) for line in lines)


# target, element: multiplication and its register; how a vector of B is loaded; vectors of B of a tile with six rows
LOOPS = [
    ("znver4", "f32", r"vfmadd\w+ps\s.*%zmm", r"vmovups\s.*\), %zmm", 4),
    ("znver4", "f64", r"vfmadd\w+pd\s.*%zmm", r"vmovup[sd]\s.*\), %zmm", 4),
    ("znver4", "bf16", r"vdpbf16ps\s.*%zmm", r"vmovup[sd]\s.*\), %zmm", 4),
    ("znver4", "f16", r"vfmadd\w+ps\s.*%zmm", r"vcvtph2ps\s.*\), %zmm", 4),
    ("znver4", "i8", r"vpdpbusd\s.*%zmm", r"vmovdqu\w*\s.*\), %zmm", 4),
    ("skylake-avx512", "f32", r"vfmadd\w+ps\s.*%zmm", r"vmovups\s.*\), %zmm", 4),
    ("skylake-avx512", "bf16", r"vfmadd\w+ps\s.*%zmm", r"vmov\w+\s.*\), %zmm", 4),
    ("skylake-avx512", "f16", r"vfmadd\w+ps\s.*%zmm", r"vcvtph2ps\s.*\), %zmm", 4),
    ("skylake-avx512", "i8", r"vpmaddwd\s.*%zmm", r"vpmovsxbw\s.*\), %zmm", 4),
    ("haswell", "f32", r"vfmadd\w+ps\s.*%ymm", r"vmovups\s.*\), %ymm", 2),
    ("haswell", "f64", r"vfmadd\w+pd\s.*%ymm", r"vmovup[sd]\s.*\), %ymm", 2),
    ("haswell", "bf16", r"vfmadd\w+ps\s.*%ymm", r"vmov\w+\s.*\), %ymm", 2),
    ("haswell", "f16", r"vfmadd\w+ps\s.*%ymm", r"vcvtph2ps\s.*\), %ymm", 2),
    ("haswell", "i8", r"vpmaddwd\s.*%ymm", r"vpmovsxbw\s.*\), %ymm", 2),
    ("neoverse-n1", "f32", r"fmla\s+v\d+\.4s", r"ldp\s+q", 4),
    ("neoverse-n1", "f64", r"fmla\s+v\d+\.2d", r"ldp\s+q", 4),
    ("neoverse-n1", "bf16", r"fmla\s+v\d+\.4s", r"ldp\s+q", 4),
    ("neoverse-n1", "f16", r"fmla\s+v\d+\.4s", r"ldp\s+d", 4),
    ("neoverse-n1", "i8", r"sdot\s+v\d+\.4s", r"ldp\s+q", 4),
]


@pytest.mark.parametrize(("target", "element", "multiply", "load", "vectors"), LOOPS)
def test_inner_loop(target: str, element: str, multiply: str, load: str, vectors: int) -> None:
    """Six rows: 6·V multiplications, V vectors of B and six broadcasts; nothing goes through the stack, nothing is called."""
    lines = inner_loop(assembly(target, element), tile_name(element, MAX_ROWS), multiply)
    assert count(lines, rf"^{multiply}") == MAX_ROWS * vectors
    # bf16 that is widened has two vectors in one load; NEON loads two vectors, and takes a lone A as a lane.
    widened = element == "bf16" and "bf16" not in multiply
    pairs = (2 if widened else 1) * (2 if target == "neoverse-n1" else 1)
    assert count(lines, rf"^{load}") == vectors // pairs
    assert count(lines, r"^vp?broadcast\w+\s|^ld1r") >= MAX_ROWS - 1
    assert count(lines, r"[zy]mm.*\(%r[sb]p\)|\(%r[sb]p\), %[zy]mm|\[sp|^call|^bl\s") == 0
    if target != "neoverse-n1":
        other = {"zmm": "ymm", "ymm": "zmm"}["zmm" if "zmm" in multiply else "ymm"]
        assert count(lines, rf"^{multiply[: multiply.index('%')]}%{other}") == 0


@pytest.mark.parametrize("rows", range(1, MAX_ROWS + 1))
def test_every_row_count_on_avx512(rows: int) -> None:
    lines = inner_loop(assembly("znver4", "f32", rows), tile_name("f32", rows), r"vfmadd\w+\s.*%zmm")
    assert count(lines, r"^vfmadd\w+ps\s.*%zmm") == 4 * rows
    # A lone row takes B straight from memory.
    assert count(lines, r"^vmovup\w\s.*\(.*\), %zmm") == (4 if rows > 1 else 0)
    assert count(lines, r"^vbroadcastss\s") == rows
    assert count(lines, r"%rsp|%rbp\)") == 0


def test_no_saturating_byte_product() -> None:
    assert not any("vpmaddubsw" in assembly(target, "i8") for target in TARGETS)
