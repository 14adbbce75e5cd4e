"""Tiles on other machines than this one: right results where they can run, and claims about their machine code."""

import ctypes
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name
from anyshape.codegen.llvm import LoadedCode, Target, emit_assembly, host_target
from anyshape.codegen.microkernels import shared_code, shared_objects
from anyshape.codegen.tiles.microkernel import tile_name
from anyshape.codegen.tiles.pack import pack_panels
from anyshape.codegen.tiles.shape import MAX_ROWS, PANEL, tile_shape
from anyshape.support.machine import Machine

Guard = Callable[[np.ndarray], Any]
MIB = 1 << 20
AVX512 = Machine("x86_64", 512, 32, l2=MIB), Target("x86_64-unknown-linux-gnu", "znver4", "-prefer-256-bit")
AVX2 = Machine("x86_64", 256, 16, l2=MIB // 4), Target("x86_64-unknown-linux-gnu", "haswell")
NEON = Machine("aarch64", 128, 32, l2=MIB), Target("aarch64-unknown-linux-gnu", "neoverse-n1")


@pytest.mark.parametrize("machine", [AVX512[0], AVX2[0], NEON[0], Machine(vector_bits=128, registers=16)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_tiles_fit_the_register_file(machine: Machine, element: str) -> None:
    shape = tile_shape(element, machine)
    for rows in range(1, MAX_ROWS + 1):
        assert PANEL % shape.columns(rows) == 0
        needed = rows * shape.vectors(rows) + (shape.vectors(rows) if rows > 1 else 0) + 1
        assert needed <= machine.registers or shape.vectors(rows) == 1


@pytest.mark.parametrize("machine", [AVX2[0], Machine("x86_64", 128, 32, l2=MIB)], ids=["256 bits", "128 bits"])
def test_narrower_vectors_compute_the_same_product(guarded: Guard, machine: Machine) -> None:
    """Compiled for this processor, but with the tiles of a narrower one."""
    code = LoadedCode([shared_objects(host_target(), machine)])
    driver = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(block_name("f32")))
    rng = np.random.default_rng(1)
    for m, n, k in ((1, 1, 3), (2, 64, 31), (3, 63, 5), (4, 65, 40), (5, 17, 0), (6, 130, 769), (23, 100, 50)):
        a, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
        held = guarded(np.ascontiguousarray(w.T))
        for packed in (True, False):
            lhs, start, out = guarded(a), guarded(bias), guarded(np.full((m, n), 7, np.float32))
            rhs = guarded(pack_panels(w)) if packed else held
            scratch = guarded(np.zeros(max(1, min(k, 768)) * PANEL, np.float32))
            steps = {"rhs_depth": PANEL, "rhs_column": 1, "rhs_panel": PANEL * k} if packed else {
                "rhs_depth": 1, "rhs_column": k, "rhs_panel": PANEL * k}  # fmt: skip
            slots = {
                "rows": m, "columns": n, "depth": k, "lhs": lhs.address, "lhs_row": k, "lhs_depth": 1, "rhs": rhs.address,
                "packed": int(packed), "out": out.address, "out_row": n, "init": start.address,
                "rhs_scratch": scratch.address, **steps,
            }  # fmt: skip
            record = (ctypes.c_int64 * SLOTS)()
            for name, value in slots.items():
                record[Slot[name.upper()]] = value
            driver(ctypes.addressof(record))
            expected = a.astype(np.float64) @ w.astype(np.float64) + bias
            assert np.all(np.abs(out.array - expected) <= 2e-6 * (np.abs(a) @ np.abs(w) + 2))


@cache
def assembly(machine: Machine, target: Target) -> str:
    return emit_assembly(shared_code(target, machine, ("f32",)), target)


def inner_loop(text: str, function: str, multiply: str) -> list[str]:
    """The instructions of the basic block with the multiplications of a function."""
    body = text[text.index(f"\n{function}:") :]
    blocks = re.split(r"\n\.L\w+:", body[: body.index(".Lfunc_end")])
    counts = [len(re.findall(multiply, block)) for block in blocks]
    lines = blocks[counts.index(max(counts))].splitlines()
    return [line.strip() for line in lines if line.startswith("\t") and not line.startswith("\t.")]


def count(lines: list[str], pattern: str) -> int:
    return sum(bool(re.search(pattern, line)) for line in lines)


@pytest.mark.parametrize("rows", range(1, MAX_ROWS + 1))
def test_avx512_loop(rows: int) -> None:
    """24 multiplications of 16 lanes, 4 loads of B and 6 broadcasts of A for six rows; nothing goes through the stack."""
    lines = inner_loop(assembly(*AVX512), tile_name("f32", rows), r"vfmadd\w+\s.*%zmm")
    assert count(lines, r"^vfmadd\w+ps\s.*%zmm") == 4 * rows
    # A lone row takes B straight from memory.
    assert count(lines, r"^vmovup\w\s.*\(.*\), %zmm") == (4 if rows > 1 else 0)
    assert count(lines, r"^vbroadcastss\s") == rows
    assert count(lines, r"%rsp|%rbp\)") == 0
    assert count(lines, r"^call") == 0


def test_avx2_loop() -> None:
    lines = inner_loop(assembly(*AVX2), tile_name("f32", 6), r"vfmadd\w+\s.*%ymm")
    assert count(lines, r"^vfmadd\w+ps\s.*%ymm") == 12
    assert count(lines, r"^vmovup\w\s.*\(.*\), %ymm") == 2
    assert count(lines, r"^vbroadcastss\s") == 6
    assert count(lines, r"%ymm.*\(%rsp\)|\(%rsp\), %ymm") == 0


def test_neon_loop() -> None:
    lines = inner_loop(assembly(*NEON), tile_name("f32", 6), r"\bfmla\b")
    assert count(lines, r"^fmla\s+v\d+\.4s") == 24
    assert count(lines, r"\[sp") == 0
