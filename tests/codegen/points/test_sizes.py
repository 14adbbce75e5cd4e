"""Size expressions as code against `Size.evaluate`."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from points_harness import load_module, lower_module

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.codegen.sizes import emit_size, emit_sizes, multiple_of
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size, size_max, size_min

A, B = Size.symbol("a"), Size.symbol("b")
EXPRESSIONS = (
    A, A * B * 3 - 7, -A + B, (A - 5) // 4, (A - 5) // 3, (A - 5) % 8, (A - 5) % 7, A // B, A % B, (A - B * 7) // B,
    (A - B * 7) % B, size_min(A, B, 12), size_max(A, B - 3), (A + 15) // 16 * 16, Size.const(42), Size.const(100) // B,
)  # fmt: skip


def test_every_operator() -> None:
    module = ModuleBuilder("sizes")
    with module:
        b = Builder()
        with module.function("sizes", [b.i64, b.i64, b.ptr]) as f:
            a, c, out = f.args
            values = emit_sizes(b, EXPRESSIONS, {"a": a, "b": c})
            for position, size in enumerate(EXPRESSIONS):
                b.store(values[size], out, position)
    loaded = load_module(lower_module(module))
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(loaded.address("sizes"))
    out = np.zeros(len(EXPRESSIONS), np.int64)
    for a, c in itertools.product((0, 1, 2, 3, 7, 8, 31, 2**40), (1, 2, 5, 16, 1000)):
        function(a, c, out.ctypes.data)
        assert out.tolist() == [size.evaluate({"a": a, "b": c}) for size in EXPRESSIONS], (a, c)
    # A zero divisor must not trap: the guards that refuse it may run later.
    function(9, 0, out.ctypes.data)


def test_missing_symbol() -> None:
    module = ModuleBuilder("missing")
    with module:
        b = Builder()
        with module.function("missing", [b.i64]) as f, pytest.raises(CodegenError, match="no value"):
            emit_size(b, A + B, {"a": f.args[0]})


def test_multiples() -> None:
    assert multiple_of(A * 32 + B * 16, 16) and multiple_of(Size.const(0), 16)
    assert not multiple_of(A * 8, 16) and not multiple_of(A * 16 + 1, 16)
