"""The first lanes of vectors reach memory and nothing beyond them does, by masks and by pieces; of these none is a masked store of AVX2."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.builder import Builder
from anyshape.codegen.llvm import LoadedCode, Target, emit_assembly, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.partial import store_first

DTYPES = {"f32": np.float32, "f64": np.float64, "i16": np.int16, "i8": np.int8}
AVX2 = Target("x86_64-unknown-linux-gnu", "znver3", "+avx2,+fma")
ROWS = 2


def _text(dtype: str, width: int, features: frozenset[str]) -> str:
    """void f(in, out, count, out row): the first lanes of two vectors, each to its row."""
    module = ModuleBuilder("partial")
    with module:
        b = Builder(features)
        with module.function("f", [b.ptr, b.ptr, b.i64, b.i64]) as f:
            source, target, count, row = f.args
            vectors = [b.load(source, b.type(dtype), number * width, width=width) for number in range(ROWS)]
            addresses = [b.offset(target, b.type(dtype), b.mul(row, number)) for number in range(ROWS)]
            store_first(b, list(zip(vectors, addresses, strict=True)), count)
    return lower_to_llvm(module.module)


@pytest.mark.parametrize("features", [frozenset[str](), frozenset({"avx512vl"})], ids=["pieces", "masks"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 12])
@pytest.mark.parametrize("dtype", DTYPES)
def test_first_lanes_only(
    dtype: str, width: int, features: frozenset[str], guarded: Callable[[np.ndarray[Any, Any]], Any]
) -> None:
    target = host_target()
    code = LoadedCode([emit_object(optimise(_text(dtype, width, features), target), target)])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.address("f"))
    source = np.arange(1, ROWS * width + 1).astype(DTYPES[dtype]).reshape(ROWS, width)
    for count in range(-1, width + 2):
        stored = max(0, min(count, width))
        out = guarded(np.zeros((ROWS, max(stored, 1)), DTYPES[dtype]))
        call(source.ctypes.data, out.address, count, max(stored, 1))
        expected = np.zeros_like(out.array)
        expected[:, :stored] = source[:, :stored]
        np.testing.assert_array_equal(out.array, expected, err_msg=f"count {count}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_masked_store_of_avx2(dtype: str) -> None:
    def assembly(features: frozenset[str]) -> str:
        return emit_assembly(optimise(_text(dtype, 8, features), AVX2), AVX2)

    assert "maskmov" not in assembly(frozenset({"avx2"}))
    if dtype in ("f32", "f64"):
        assert "maskmov" in assembly(frozenset({"avx512vl"}))
