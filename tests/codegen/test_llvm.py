"""The MLIR builder and the LLVM wrapper: what is built runs as numpy does, and misuse raises instead of crashing."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from anyshape.codegen import llvm
from anyshape.codegen.builder import Builder
from anyshape.codegen.llvm import LoadedCode, Target, emit_assembly, emit_object, host_target, object_symbols, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm, verify
from anyshape.support.errors import CodegenError

POINTER, I64 = ctypes.c_void_p, ctypes.c_int64


@contextmanager
def building(name: str = "test") -> Iterator[tuple[ModuleBuilder, Builder]]:
    module = ModuleBuilder(name)
    with module:
        yield module, Builder()


def compile_object(module: ModuleBuilder) -> bytes:
    return emit_object(optimise(lower_to_llvm(module.module), host_target()), host_target())


def call(code: LoadedCode, name: str, result: Any, types: Sequence[Any], *arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(result, *types)(code.address(name))(*arguments)


def constant_function(name: str, number: int) -> bytes:
    with building() as (module, b), module.function(name, [], [b.i64]) as f:
        f.return_(b.const(b.i64, number))
    return compile_object(module)


@pytest.mark.parametrize("count", [0, 1, 7, 16, 33])
def test_masked_vector_loop(count: int) -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.ptr, b.i64], attributes={1: ["noalias"]}) as f:
        source, target, n = f.args
        with b.for_(0, n, 16) as loop:
            mask = b.tail_mask(b.sub(n, loop.index), 16)
            x = b.load(source, b.f32, loop.index, width=16, mask=mask)
            b.store(b.fma(x, 2.0, 1.0), target, loop.index, mask=mask)
    code = LoadedCode([compile_object(module)])
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    out = np.full(count + 16, -7, np.float32)
    call(code, "f", None, [POINTER, POINTER, I64], x.ctypes.data, out.ctypes.data, count)
    np.testing.assert_allclose(out[:count], 2 * x + 1, rtol=1e-6)
    assert (out[count:] == -7).all()


@pytest.mark.parametrize("count", [-(2**33), -1, 0, 3, 8, 2**33])
def test_tail_mask_of_any_count(count: int) -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.i64]) as f:
        b.store(b.convert(b.tail_mask(f.args[1], 8), b.i8), f.args[0])
    out = np.empty(8, np.uint8)
    call(LoadedCode([compile_object(module)]), "f", None, [POINTER, I64], out.ctypes.data, count)
    assert out.sum() == min(max(count, 0), 8)
    assert (np.diff(out.astype(int)) <= 0).all()


def test_gather_reduce_and_branch() -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.ptr, b.i64], [b.f64]) as f:
        data, index, n = f.args
        with b.for_(0, n, 8, [b.splat(0.0, b.f64, 8)]) as loop:
            mask = b.tail_mask(b.sub(n, loop.index), 8)
            where = b.load(index, b.i64, loop.index, width=8, mask=mask)
            loop.yield_(b.add(loop.args[0], b.convert(b.gather(data, b.f32, where, mask=mask), b.f64)))
        total = b.reduce("add", loop.results[0])
        branch = b.if_(b.cmp("ogt", total, 10.0), [b.f64])
        with branch.then():
            branch.yield_(b.neg(total))
        with branch.otherwise():
            branch.yield_(total)
        f.return_(branch.results[0])
    code = LoadedCode([compile_object(module)])
    data = np.arange(50, dtype=np.float32)
    for index in ([], [3], [49] * 11, [1, 0, 2]):
        where = np.array(index, np.int64)
        total = float(data[where].sum())
        got = call(code, "f", ctypes.c_double, [POINTER, POINTER, I64], data.ctypes.data, where.ctypes.data, where.size)
        assert got == (-total if total > 10 else total)


def _binary_cases() -> list[tuple[str, Callable[[Builder, Any, Any], Any], Callable[[int, int], int]]]:
    return [
        ("floordiv", lambda b, x, y: b.floordiv(x, y), lambda x, y: x // y),
        ("ceildiv", lambda b, x, y: b.ceildiv(x, y), lambda x, y: -(-x // y)),
        ("minimum", lambda b, x, y: b.minimum(x, y), min),
        ("maximum", lambda b, x, y: b.maximum(x, y), max),
        ("and", lambda b, x, y: b.and_(x, y), lambda x, y: x & y),
        ("not", lambda b, x, y: b.not_(b.xor(x, y)), lambda x, y: ~(x ^ y)),
        ("select", lambda b, x, y: b.select(b.cmp("slt", x, y), b.mul(x, 3), 5), lambda x, y: 3 * x if x < y else 5),
    ]


@pytest.mark.parametrize(
    ("name", "build", "expected"), _binary_cases(), ids=lambda case: case if type(case) is str else ""
)
def test_integer_arithmetic(name: str, build: Callable[..., Any], expected: Callable[[int, int], int]) -> None:
    with building() as (module, b), module.function("f", [b.i64, b.i64], [b.i64]) as f:
        f.return_(build(b, *f.args))
    code = LoadedCode([compile_object(module)])
    for x in (-7, -6, 0, 1, 12):
        for y in (-3, -1, 1, 4):
            assert call(code, "f", I64, [I64, I64], x, y) == expected(x, y), (name, x, y)


def test_narrow_floats_and_bits_are_converted_by_value() -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.ptr]) as f:
        wide = b.convert(b.load(f.args[0], b.f16, 0, width=8), b.f32)
        b.store(b.convert(b.convert(wide, b.i32), b.i8), f.args[1])
        b.store(b.convert(b.cmp("ogt", wide, 2.0), b.f32), b.offset(f.args[1], b.i8, 8))
    x = np.array([-3.5, 0, 1, 2, 2.5, 3, 100, -128], np.float16)
    out = np.zeros(8 + 32, np.int8)
    call(LoadedCode([compile_object(module)]), "f", None, [POINTER, POINTER], x.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out[:8], x.astype(np.int8))
    np.testing.assert_array_equal(out[8:].view(np.float32), (x > 2).astype(np.float32))


def test_bf16_rounds_to_nearest_even_and_keeps_denormals_and_nan() -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.ptr, b.i64]) as f, b.for_(0, f.args[2], 16) as loop:
        x = b.load(f.args[0], b.f32, loop.index, width=16)
        narrow = b.convert(x, b.bf16)
        b.store(b.convert(narrow, b.f64), f.args[1], loop.index)
    bits = np.random.default_rng(4).integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32)
    bits[:8] = [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 1, 0x00018000, 0x00008000, 0x3F808000, 0x3F818000]
    x, out = bits.view(np.float32), np.empty(4096)
    call(LoadedCode([compile_object(module)]), "f", None, [POINTER, POINTER, I64], x.ctypes.data, out.ctypes.data, 4096)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, x.astype(ml_dtypes.bfloat16).astype(np.float64))


def test_blocks_constants_calls_and_function_addresses() -> None:
    with building() as (module, b):
        module.declare("host_log", [b.ptr, b.i64], [b.i64])
        message = module.constant_string("n is negative")
        assert module.constant_string("n is negative") == message
        with module.function("twice", [b.i64], [b.i64]) as f:
            f.return_(b.add(f.args[0], f.args[0]))
        with module.function("f", [b.i64], [b.i64]) as f:
            bad, good = f.block(), f.block()
            b.cond_branch(b.cmp("slt", f.args[0], 0), bad, good)
            with b.at_end(bad):
                f.return_(*b.call("host_log", [b.address_of(message), f.args[0]], [b.i64]))
            with b.at_end(good):
                pointer = b.function_address("twice", [b.i64], [b.i64])
                f.return_(b.call_pointer(pointer, [f.args[0]], b.i64))
    seen: list[tuple[bytes, int]] = []
    callback = ctypes.CFUNCTYPE(I64, ctypes.c_char_p, I64)(lambda text, n: seen.append((text, n)) or -1)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    code = LoadedCode([compile_object(module)], {"host_log": address})
    assert call(code, "f", I64, [I64], 21) == 42
    assert call(code, "f", I64, [I64], -5) == -1
    assert seen == [(b"n is negative", -5)]


def test_objects_see_each_other() -> None:
    with building() as (module, b):
        module.declare("three", [], [b.i64])
        with module.function("f", [], [b.i64]) as f:
            f.return_(b.add(b.call("three", [], [b.i64])[0], 4))
    code = LoadedCode([compile_object(module), constant_function("three", 3)])
    assert call(code, "f", I64, []) == 7


def test_undefined_symbol_raises_and_is_named() -> None:
    with building() as (module, b):
        module.declare("nowhere_to_be_found", [])
        with module.function("f", []):
            b.call("nowhere_to_be_found", [])
    with pytest.raises(CodegenError, match="nowhere_to_be_found"):
        LoadedCode([compile_object(module)])


def test_unknown_address_duplicate_symbols_and_corrupt_objects_raise() -> None:
    data = constant_function("f", 1)
    with pytest.raises(CodegenError, match="absent"):
        LoadedCode([data]).address("absent")
    with pytest.raises(CodegenError, match="f"):
        LoadedCode([data, constant_function("f", 2)])
    with pytest.raises(CodegenError, match="corrupt"):
        object_symbols(data[: len(data) // 2])


def test_memory_intrinsics_resolve() -> None:
    with building() as (module, b), module.function("f", [b.ptr, b.ptr, b.i64]) as f:
        module.declare("memcpy", [b.ptr, b.ptr, b.i64], [b.ptr])
        b.call("memcpy", f.args, [b.ptr])
    source, target = np.arange(9.0), np.zeros(9)
    code = LoadedCode([compile_object(module)])
    call(code, "f", None, [POINTER, POINTER, I64], target.ctypes.data, source.ctypes.data, 72)
    np.testing.assert_array_equal(target, source)


def test_code_is_freed_with_its_last_reference() -> None:
    code = LoadedCode([constant_function("f", 1)])
    gone = weakref.ref(code._jit)  # pyright: ignore[reportPrivateUsage]
    del code
    gc.collect()
    assert gone() is None


def test_emitted_objects_are_counted_and_reproducible() -> None:
    before = llvm.objects_emitted()
    assert constant_function("f", 1) == constant_function("f", 1)
    assert llvm.objects_emitted() == before + 2
    with building() as (module, b), module.function("g", []):
        b.const(b.i64, 0)
    emit_assembly(lower_to_llvm(module.module), host_target())
    assert llvm.objects_emitted() == before + 2


@pytest.mark.parametrize(
    ("target", "register"),
    [
        (Target("x86_64-unknown-linux-gnu", "skylake-avx512", "-prefer-256-bit"), "%zmm"),
        (Target("x86_64-unknown-linux-gnu", "haswell"), "%ymm"),
        (Target("aarch64-unknown-linux-gnu", "neoverse-n1"), "fmla"),
        (Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+f,+d,+v"), "vfm"),
    ],
    ids=["avx512", "haswell", "neoverse-n1", "rv64v"],
)
def test_other_machines(target: Target, register: str) -> None:
    with building() as (module, b), module.function("f", [b.ptr]) as f:
        x = b.load(f.args[0], b.f32, 0, width=16)
        b.store(b.fma(x, x, 1.0), f.args[0])
    text = lower_to_llvm(module.module)
    assert register in emit_assembly(optimise(text, target), target)
    symbols = object_symbols(emit_object(text, target))
    assert symbols is not None and symbols.defined == {"f"} and not symbols.undefined


def test_misuse_raises_with_a_reason() -> None:
    with building() as (module, b), module.function("f", [b.i64, b.f32], [b.i64]) as f:
        integer, floating = f.args
        with pytest.raises(CodegenError, match="i64 and f32"):
            b.add(integer, floating)
        with pytest.raises(CodegenError, match="slt"):
            b.cmp("olt", integer, 0)
        with pytest.raises(CodegenError, match="not defined on f32"):
            b.and_(floating, floating)
        with pytest.raises(CodegenError, match="does not fit"):
            b.const(b.i8, 256)
        with pytest.raises(CodegenError, match="yield_"), b.for_(0, 4, 1, [integer]):
            pass
        f.return_(integer)
    with building() as (module, b):
        module.declare("g", [b.i64])
        with pytest.raises(CodegenError, match="g"):
            module.declare("g", [b.f32])


def test_invalid_module_raises_with_mlirs_diagnostic() -> None:
    with building() as (module, b), module.function("f", [], [b.i64]) as f:
        f.return_(b.const(b.i32, 1))
    with pytest.raises(CodegenError, match="i32"):
        verify(module.module)
    with pytest.raises(CodegenError, match="i32"):
        lower_to_llvm(module.module)


def test_invalid_ir_and_unknown_target_raise() -> None:
    with pytest.raises(CodegenError, match="rejected"):
        emit_object("define void @f( {", host_target())
    with pytest.raises(CodegenError, match="no backend"):
        emit_object("define void @f() { ret void }", Target("pdp11-dec-unix"))
