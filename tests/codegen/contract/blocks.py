"""Block drivers called with task records: machines to compile them for, and packing by the code under test."""

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from anyshape.codegen.contract.driver import SLOTS, Slot, block_name
from anyshape.codegen.llvm import LoadedCode, Target, host_target
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.shape import TileShape, tile_shape
from anyshape.dialects.packed_panels import PANEL, packed_depth
from anyshape.support.machine import Machine, host_machine

MIB = 1 << 20
AVX2 = Machine("x86_64", 256, 16, l2=MIB // 4, features=frozenset({"avx2", "fma", "f16c"}))
MODEST = Machine("x86_64", 128, 16, l2=MIB)
"""Vectors of 128 bits and no extensions that a schedule asks about."""


def _machines() -> dict[str, tuple[Machine, Target]]:
    """Every kind of x86 machine that this processor can stand in for."""
    host, target = host_machine(), host_target()
    found = {"host": (host, target)}
    if host.architecture != "x86_64":
        return found
    found["modest"] = MODEST, target
    if host.features >= AVX2.features:
        found["avx2"] = AVX2, Target(target.triple, "haswell")
    if host.vector_bits == 512:
        skylake = Machine("x86_64", 512, 32, l2=MIB, features=frozenset({"avx512bw"}))
        found["avx512"] = skylake, Target(target.triple, "skylake-avx512", "-prefer-256-bit")
    return found


MACHINES = _machines()
DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8,
}  # fmt: skip
MIXED = ("f32xbf16", "f32xf16")
"""A left-hand side in f32 with a right-hand side of 16 bits."""
SUMS: dict[str, Any] = dict.fromkeys(MIXED, np.float32) | {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.float32,
    "f16": np.float32,
    "i8": np.int32,
}


@cache
def code_of(machine: str, element: str) -> LoadedCode:
    return LoadedCode([shared_objects(MACHINES[machine][1], MACHINES[machine][0], (element,))])


def shape_of(machine: str, element: str) -> TileShape:
    return tile_shape(element, MACHINES[machine][0])


def sides(element: str) -> tuple[str, str]:
    """Element types of the left-hand and the right-hand side."""
    left, _, right = element.partition("x")
    return left, right or left


def run_block(code: LoadedCode, element: str, **slots: int) -> None:
    record = (ctypes.c_int64 * SLOTS)()
    for name, value in slots.items():
        record[Slot[name.upper()]] = value
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(block_name(element)))(ctypes.addressof(record))


def pack(code: LoadedCode, shape: TileShape, rhs: np.ndarray, guarded: Any) -> Any:
    """The panels of a `[k, n]` matrix with any strides, made by `as_pack_rhs_<element>`."""
    depth, columns = rhs.shape
    count, rows = -(-columns // PANEL), packed_depth(shape.element, depth)
    panels = guarded(np.zeros((count, rows, PANEL), rhs.dtype))
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p)
    function = signature(code.address(pack_rhs_name(shape.element)))
    step_k, step_j = (stride // rhs.itemsize for stride in rhs.strides)
    for number in range(count):
        left = min(PANEL, columns - PANEL * number)
        source = rhs.ctypes.data + number * PANEL * rhs.strides[1]
        into = panels.address + number * rows * PANEL * rhs.itemsize
        function(source, step_k, step_j, depth, left, into)
    return panels


def random(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Normal numbers, or all bytes."""
    if element == "i8":
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape).astype(DTYPES[element])


def wide(array: np.ndarray) -> np.ndarray:
    """Exact values: f64, or i64 of integers."""
    return array.astype(np.int64 if array.dtype == np.int8 else np.float64)


def check(got: np.ndarray, lhs: np.ndarray, rhs: np.ndarray, start: np.ndarray | float = 0) -> None:
    """Within a few roundings of the sum of the products' magnitudes; exactly for integers."""
    expected = wide(lhs) @ wide(rhs) + start
    if got.dtype == np.int32:
        assert np.array_equal(got, expected.astype(np.int64).astype(np.int32))
        return
    magnitude = np.abs(wide(lhs)) @ np.abs(wide(rhs)) + np.abs(start) + 1
    assert np.all(np.abs(got - expected) <= 16 * np.finfo(got.dtype).eps * magnitude), np.abs(got - expected).max()


ROWS = (1, 2, 3, 5, 6, 7, 13, 17, 65, 130)
COLUMNS = (1, 15, 16, 33, 63, 64, 65, 130)
DEPTHS = (0, 1, 2, 3, 5, 31, 384, 769, 1539)


def cases(seed: int, count: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k): every depth, then random ones."""
    rng = np.random.default_rng(seed)
    yield from ((6, 65, k) for k in DEPTHS)
    for _ in range(count):
        yield int(rng.choice(ROWS)), int(rng.choice(COLUMNS)), int(rng.choice(DEPTHS))
