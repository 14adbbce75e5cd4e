"""Claims about the machine code of register tiles for named targets, none of which need be this machine."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from xdsl.dialects.arith import AddfOp, MulfOp
from xdsl.dialects.builtin import Float32Type

from anyshape.codegen.contract import emit_contract
from anyshape.codegen.contract.driver import emit_block_driver
from anyshape.codegen.llvm import Target, emit_assembly, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.codegen.tiles.dot_tiles import FEW_COLUMNS, dot_tile_name, emit_dot_tiles, tile_rows
from anyshape.codegen.tiles.microkernel import emit_tile, tile_name
from anyshape.codegen.tiles.shape import MAX_ROWS, SUM_ELEMENTS, tile_shape
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, YieldOp, buffer
from anyshape.kernels.cost import RegisterTile, block_time, panel_step_time
from anyshape.support.machine import Machine, Rates
from anyshape.symbolic import Size

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
MACHINES = {name: machine for name, (machine, _) in TARGETS.items()} | {
    f"128-bit-{registers}-registers": machine(128, registers) for registers in (16, 8)
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


@each_machine
@pytest.mark.parametrize("element", SUM_ELEMENTS)
def test_tiles_fit_the_register_file(machine: Machine, element: str) -> None:
    shape = tile_shape(element, machine)
    for rows in range(1, MAX_ROWS + 1):
        vectors = shape.vectors(rows)
        assert PANEL % shape.columns(rows) == 0
        needed = rows * vectors + (vectors if rows > 1 else 0) + 1
        assert needed <= machine.registers or vectors == (2 if shape.is_interleaved else 1)


RATES = Rates(fma=117, l1=234, l2=110, l3=80, memory=32, simple=0.14, transcendental=4, region=700)


@pytest.mark.parametrize("measured", [None, RATES], ids=["usual", "measured"])
@each_machine
@pytest.mark.parametrize("element", SUM_ELEMENTS)
def test_the_chosen_tile_is_the_fastest_of_those_that_fit(
    machine: Machine, element: str, measured: Rates | None
) -> None:
    """By trying them all: every power of two of vectors, streamed weights."""
    machine = replace(machine, measured=measured)
    shape = tile_shape(element, machine)
    panel, fewest = PANEL // shape.lanes, 2 if shape.is_interleaved else 1
    for rows in range(1, MAX_ROWS + 1):

        def time(vectors: int, rows: int = rows) -> float:
            tile = RegisterTile(rows, vectors, panel // vectors)
            return panel_step_time([tile], shape.step_bytes, machine, rate=machine.rates.memory)

        others = [1 << power for power in range(panel.bit_length()) if 1 << power >= fewest]
        fitting = [v for v in others if rows * v + (v if rows > 1 else 0) + 1 <= shape.registers]
        assert shape.vectors(rows) in (fitting or [fewest])
        assert time(shape.vectors(rows)) == min(map(time, fitting or [fewest]))


@pytest.mark.parametrize("measured", [None, RATES], ids=["usual", "measured"])
@each_machine
@pytest.mark.parametrize("element", SUM_ELEMENTS)
def test_blocks_are_the_fastest_for_many_rows_and_hold_whole_groups(
    machine: Machine, element: str, measured: Rates | None
) -> None:
    """Against other depths and row counts, some of which the choice did not look at."""
    machine = replace(machine, measured=measured)
    shape = tile_shape(element, machine)
    assert shape.depth % shape.group == 0

    def time(rows: int, depth: int) -> float:
        block = replace(shape.cache_block(depth // shape.group), rows=rows)
        return block_time(shape.largest_tile, block, machine) / (rows * depth)

    best = time(shape.block_rows(Size.const(shape.depth)), shape.depth)
    for rows in (6, 48, 168, 336):
        assert all(best <= time(rows, 128 * parts) * 1.001 for parts in (1, 2, 3, 5, 6, 7, 8, 12))
    shallow = shape.block_rows(Size.const(60))
    assert time(shallow, 60) <= min(time(rows, 60) for rows in (24, 96, 168, 336))


def test_blocks_that_the_second_level_does_not_hold_cost_more() -> None:
    machine = MACHINES["znver4"]
    shape = tile_shape("f32", machine)
    block = replace(shape.cache_block(512), rows=48)
    assert block.footprint <= machine.l2
    small = replace(machine, l2=block.footprint - 1)
    assert block_time(shape.largest_tile, block, small) > block_time(shape.largest_tile, block, machine)
    assert tile_shape("f32", replace(machine, l2=machine.l2 // 8)).depth <= shape.depth


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
    ("znver4", "f32xbf16", r"vfmadd\w+ps\s.*%zmm", r"vmov\w+\s.*\), %zmm", 4),
    ("znver4", "f32xf16", r"vfmadd\w+ps\s.*%zmm", r"vcvtph2ps\s.*\), %zmm", 4),
    ("haswell", "f32xbf16", r"vfmadd\w+ps\s.*%ymm", r"vmov\w+\s.*\), %ymm", 2),
    ("haswell", "f32xf16", r"vfmadd\w+ps\s.*%ymm", r"vcvtph2ps\s.*\), %ymm", 2),
    ("neoverse-n1", "f32xbf16", r"fmla\s+v\d+\.4s", r"ldp\s+q", 4),
    ("neoverse-n1", "f32xf16", r"fmla\s+v\d+\.4s", r"ldp\s+d", 4),
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
    widened = element.endswith("bf16") and "bf16" not in multiply
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


@pytest.mark.parametrize(
    ("rows", "element"), [(rows, f"f32x{narrow}") for rows in (1, 6) for narrow in ("bf16", "f16")]
)
def test_a_narrow_weight_is_read_in_sixteen_bits(rows: int, element: str) -> None:
    """64 columns of a step are 128 bytes: two vectors of bf16 pairs, or four half vectors of f16."""
    lines = inner_loop(assembly("znver4", element, rows), tile_name(element, rows), r"vfmadd\w+\s.*%zmm")
    assert count(lines, r"^vfmadd\w+ps\s.*%zmm") == 4 * rows
    if element == "f32xf16":
        assert count(lines, r"^vcvtph2ps\s.*\(.*\), %zmm") == 4
    else:
        assert count(lines, r"^vpslld\s+\$16") == 2, "the even columns"
        assert count(lines, r"^v(p?and\w+)\s.*%zmm") == 2, "the odd ones"
        assert count(lines, r"^v(mov\w+|pslld|pand\w+)\s.*\(%r\w+.*\)") in (2, 4)
    assert count(lines, r"%rsp|%rbp\)") == 0


@pytest.mark.parametrize("columns", range(1, FEW_COLUMNS + 1))
@pytest.mark.parametrize(("target", "element"), [("znver4", "f32"), ("haswell", "f32"), ("haswell", "f64")])
def test_a_dot_tile_reads_each_row_once(target: str, element: str, columns: int) -> None:
    """R·C multiplications for at most R + C loads, multiply-adds that read memory among them; no vector goes through the stack."""
    machine, llvm_target = TARGETS[target]
    shape = tile_shape(element, machine)
    module = ModuleBuilder("tiles", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_dot_tiles(module, shape)
    text = emit_assembly(optimise(lower_to_llvm(module.module), llvm_target), llvm_target)
    # The loop, and not the vectors of a rest, which are masked.
    lines = inner_loop(
        re.sub(r"vmaskmov|\{%k", "masked", text), dot_tile_name(element, columns), r"vfmadd\w+(?!.*masked)"
    )
    rows = tile_rows(shape, columns)
    assert count(lines, rf"^vfmadd\w+.*%{'z' if machine.vector_bits == 512 else 'y'}mm") == rows * columns
    assert count(lines, r"^v\w+\s.*\(%r") <= rows + columns
    assert count(lines, r"[zy]mm.*\(%r[sb]p\)|\(%r[sb]p\), %[zy]mm|^call") == 0


def test_no_saturating_byte_product() -> None:
    assert not any("vpmaddubsw" in assembly(target, "i8") for target in TARGETS)


def module_assembly(emit: Callable[[ModuleBuilder, Machine], object]) -> str:
    """What `emit` builds, for znver4."""
    machine, target = TARGETS["znver4"]
    module = ModuleBuilder("module", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit(module, machine)
    return emit_assembly(optimise(lower_to_llvm(module.module), target), target)


def test_a_tile_asks_for_the_lines_that_it_will_store() -> None:
    text = module_assembly(lambda module, machine: emit_block_driver(module, tile_shape("f32", machine)))
    driver = text[text.index("\nas_mm_block_f32:") :]
    assert count(driver.splitlines(), r"^\tprefetchw\s") == 4, "the four lines of a row, in a loop over rows"


@pytest.mark.parametrize("indices", ["element", "column"])
def test_an_epilogue_asks_for_what_the_next_tile_adds(indices: str) -> None:
    """A residual's rows: four lines each, in a loop over rows; a bias stays in the cache by itself."""
    m, n, k = (Size.symbol(name) for name in "mnk")
    f32, other = Float32Type(), [m, n] if indices == "element" else [n]
    panels = buffer(f32, [(n + 63) // 64, k, 64])
    kernel = KernelOp("layer", ("m", "n", "k"), [buffer(f32, [m, k]), panels, buffer(f32, [m, n]), buffer(f32, other)])
    lhs, rhs, out, added = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, [], (m, n, k), f32, packed=True)
    block = op.epilogue.block
    load = LoadOp(added, list(block.args[:-1]) if indices == "element" else [block.args[-2]])
    # The square is what makes a bias more than the start of a sum.
    sum_ = AddfOp(block.args[-1], load.result)
    square = MulfOp(sum_.result, sum_.result)
    block.add_ops([load, sum_, square, YieldOp(square.result)])
    kernel.body.block.add_op(op)
    text = module_assembly(lambda module, machine: emit_kernel(module, kernel, machine, {ContractOp: emit_contract}))
    assert count(text.splitlines(), r"^\tprefetch") == (4 if indices == "element" else 0)
