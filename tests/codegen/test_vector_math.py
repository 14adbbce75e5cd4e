"""Vector math against 64-bit (for f32) and 80-bit (for f64) C libraries: error in ULP over the whole range, special
values."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.builder import Builder
from anyshape.codegen.llvm import LoadedCode, Target, emit_assembly, emit_object, host_target, object_symbols, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.vector_math import VECTOR_MATH, sigmoid
from anyshape.support.errors import CodegenError
from anyshape.support.machine import host_machine

FUNCTIONS: Mapping[str, Callable[..., Any]] = {**VECTOR_MATH, "sigmoid": sigmoid}
ARITY = {"math.powf": 2, "math.atan2": 2, "math.copysign": 2, "math.fma": 3}
DTYPES = {"f32": np.float32, "f64": np.float64}
POINTS = 1 << 20
INF, NAN = np.inf, np.nan


def _build_loop(b: Builder, module: ModuleBuilder, symbol: str, name: str, dtype: str, width: int | None) -> None:
    """void symbol(ptr in…, ptr out, i64 n): out[i] = f(in[i]…), n a multiple of the width."""
    arity = ARITY.get(name, 1)
    with module.function(symbol, [b.ptr] * (arity + 1) + [b.i64]) as f:
        *pointers, count = f.args
        with b.for_(0, count, width or 1) as loop:
            operands = [b.load(p, b.type(dtype), loop.index, width=width) for p in pointers[:arity]]
            b.store(FUNCTIONS[name](b, *operands), pointers[arity], loop.index)


def _module_text(dtype: str, width: int | None, features: frozenset[str] = frozenset()) -> str:
    """LLVM IR with one function for each of `FUNCTIONS`."""
    module = ModuleBuilder("vector_math")
    with module:
        b = Builder(features)
        for name in FUNCTIONS:
            _build_loop(b, module, name, name, dtype, width)
    return lower_to_llvm(module.module)


@cache
def _compiled(dtype: str, width: int | None, features: frozenset[str]) -> LoadedCode:
    target = host_target()
    return LoadedCode([emit_object(optimise(_module_text(dtype, width, features), target), target)])


HOST_FEATURES = host_machine().features


def run(
    name: str, *inputs: Any, dtype: str = "f32", width: int | None = 16, features: frozenset[str] = HOST_FEATURES
) -> np.ndarray:
    """The compiled function on arrays, padded to whole vectors."""
    arrays = np.broadcast_arrays(*(np.asarray(x, DTYPES[dtype]) for x in inputs))
    count = arrays[0].size
    padded = -(-count // 16) * 16
    buffers = [np.resize(a.ravel(), padded).copy() for a in arrays]
    out = np.empty(padded, DTYPES[dtype])
    signature = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * (len(buffers) + 1)), ctypes.c_int64)
    code = _compiled(dtype, width, features)
    signature(code.address(name))(*(a.ctypes.data for a in buffers), out.ctypes.data, padded)
    return out[:count]


def worst_ulp(got: np.ndarray, reference: np.ndarray) -> float:
    """max |got − reference| / ulp(reference), in the format of `got`; infinities and NaNs must agree."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = reference.astype(got.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    assert np.isfinite(got[finite]).all()
    ulp = np.abs(np.spacing(rounded[finite])).astype(np.longdouble)
    return float(np.max(np.abs(got[finite].astype(np.longdouble) - reference[finite]) / ulp))


def _every_exponent(dtype: str, seed: int) -> np.ndarray:
    """Random bit patterns (every sign and exponent, denormals too), finite ones only."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32 if dtype == "f32" else (1 << 64) - 1, POINTS, dtype=np.uint64)
    values = bits.astype(np.uint32).view(np.float32) if dtype == "f32" else bits.view(np.float64)
    return values[np.isfinite(values)]


def _between(dtype: str, low: float, high: float, seed: int, count: int = POINTS) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, count).astype(DTYPES[dtype])


def _erf(x: np.ndarray) -> np.ndarray:
    """2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!, whose terms all have one sign, in 80-bit arithmetic."""
    wide = np.clip(x.astype(np.longdouble), -7, 7)
    term = total = wide
    for n in range(1, 220):
        term = term * (2 * wide * wide / (2 * n + 1))
        total = total + term
    return total * np.exp(-wide * wide) * (2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288")))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class Case:
    """A function's oracle, the interval where it is interesting, and the error that its docstring states."""

    name: str
    oracle: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    ulp: float
    largest: float = INF


CASES = [
    Case("math.exp", np.exp, -105, 89, 1.0),
    Case("math.exp2", np.exp2, -151, 129, 1.0),
    Case("math.expm1", np.expm1, -20, 89, 2.0),
    Case("math.tanh", np.tanh, -11, 11, 1.5),
    Case("sigmoid", _sigmoid, -105, 20, 2.5),
    Case("math.log", np.log, 0.5, 2, 1.0),
    Case("math.log2", np.log2, 0.5, 2, 2.5),
    Case("math.log10", np.log10, 0.5, 2, 2.5),
    Case("math.log1p", np.log1p, -1, 2, 1.5),
    Case("math.erf", _erf, -4.5, 4.5, 1.5),
    Case("math.sin", np.sin, -1e5, 1e5, 2.0, 2.0**50),
    Case("math.cos", np.cos, -1e5, 1e5, 2.0, 2.0**50),
    Case("math.tan", np.tan, -1e5, 1e5, 4.0, 2.0**50),
    Case("math.asin", np.arcsin, -1, 1, 3.0),
    Case("math.acos", np.arccos, -1, 1, 1.5),
    Case("math.atan", np.arctan, -8, 8, 2.5),
    Case("math.sinh", np.sinh, -89.5, 89.5, 2.0),
    Case("math.cosh", np.cosh, -89.5, 89.5, 2.0),
    Case("math.asinh", np.arcsinh, -20, 20, 2.5),
    Case("math.acosh", np.arccosh, 1, 20, 3.0),
    Case("math.atanh", np.arctanh, -1, 1, 2.5),
    Case("math.rsqrt", lambda x: 1 / np.sqrt(x), 0.5, 4, 1.5),
]


EXPONENTIAL = {"math.exp", "math.exp2", "math.expm1", "math.sinh", "math.cosh", "sigmoid"}
"""Functions whose range of arguments grows with the range of exponents."""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error_is_within_the_stated_bound(case: Case, dtype: str) -> None:
    slow_oracle = case.name == "math.erf"
    scale = 7.2 if dtype == "f64" and case.name in EXPONENTIAL else 1.0
    inputs = [
        _every_exponent(dtype, 1),
        _between(dtype, case.low * scale, case.high * scale, 2),
        _between(dtype, -2.0, 2.0, 3),
    ]
    wide = np.float64 if dtype == "f32" and not slow_oracle else np.longdouble
    for x in inputs:
        x = x[np.abs(x) < case.largest] if dtype == "f64" else x
        x = x[: 1 << 15] if slow_oracle else x[: 1 << 18] if wide is np.longdouble else x
        with np.errstate(all="ignore"):
            reference = case.oracle(x.astype(wide))
            got = run(case.name, x, dtype=dtype, width=16 if dtype == "f32" else 8)
            assert worst_ulp(got, reference) <= case.ulp


SPECIAL = {
    "math.exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (1000, INF), (-1000, 0)],
    "math.exp2": [(0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (3, 8), (-1, 0.5), (2000, INF), (-2000, 0)],
    "math.expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (1e-30, 1e-30), (1000, INF)],
    "math.tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (1e-30, 1e-30), (-40, -1)],
    "math.erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (-10, -1)],
    "sigmoid": [(0.0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (-1000, 0), (1000, 1)],
    "math.log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN), (NAN, NAN)],
    "math.log2": [(1, 0.0), (8, 3), (0.25, -2), (0.0, -INF), (INF, INF), (-1, NAN), (NAN, NAN), (2.0**-126, -126)],
    "math.log10": [(1, 0.0), (0.0, -INF), (INF, INF), (-1, NAN), (NAN, NAN)],
    "math.log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1, -INF),
        (-2, NAN),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (1e-30, 1e-30),
    ],
    "math.sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-30, 1e-30)],
    "math.cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (NAN, NAN), (1e-30, 1)],
    "math.tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-30, 1e-30)],
    "math.asin": [(0.0, 0.0), (-0.0, -0.0), (1, math.pi / 2), (-1, -math.pi / 2), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "math.acos": [(1, 0.0), (0.0, math.pi / 2), (-0.0, math.pi / 2), (-1, math.pi), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "math.atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN), (1, math.pi / 4)],
    "math.sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e-30, 1e-30), (1000, INF)],
    "math.cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (1e-30, 1), (-1000, INF)],
    "math.asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e-30, 1e-30)],
    "math.acosh": [(1, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "math.atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (-INF, NAN), (NAN, NAN), (1e-30, 1e-30)],
    "math.sqrt": [(4, 2), (-0.0, -0.0), (-1, NAN), (INF, INF), (NAN, NAN)],
    "math.rsqrt": [(4, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0), (-1, NAN), (NAN, NAN)],
    "math.absf": [(-3, 3), (-0.0, 0.0), (-INF, INF), (NAN, NAN)],
    "math.floor": [(-1.5, -2), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "math.ceil": [(1.5, 2), (-0.5, -0.0), (NAN, NAN)],
    "math.trunc": [(-1.5, -1), (1.5, 1), (-0.5, -0.0)],
    "math.roundeven": [(0.5, 0.0), (1.5, 2), (2.5, 2), (-0.5, -0.0)],
}


@pytest.mark.parametrize(("dtype", "width"), [("f32", 16), ("f64", 8), ("f32", None), ("f64", None)])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: str, width: int | None) -> None:
    x, expected = (np.array(column, DTYPES[dtype]) for column in zip(*SPECIAL[name], strict=True))
    got = run(name, x, dtype=dtype, width=width)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def test_every_registered_function_is_tested() -> None:
    assert FUNCTIONS.keys() == SPECIAL.keys() | {"math.atan2", "math.powf", "math.copysign", "math.fma"}


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_scalars_and_narrow_vectors_give_the_same_bits(name: str) -> None:
    for dtype, wide in (("f32", 16), ("f64", 8)):
        x = np.concatenate([_between(dtype, -3, 3, 5, 500), _every_exponent(dtype, 6)[:500]])
        expected = run(name, x, dtype=dtype, width=wide)
        np.testing.assert_array_equal(run(name, x, dtype=dtype, width=None), expected)
        np.testing.assert_array_equal(run(name, x, dtype=dtype, width=2), expected)


@pytest.mark.parametrize("name", ["math.exp", "math.exp2", "math.tanh", "sigmoid"])
def test_an_extension_changes_no_bits(name: str) -> None:
    """Scaling by one instruction rounds as scaling in two steps does, down to the smallest denormal and up to infinity."""
    for dtype, width in (("f32", 16), ("f64", 8)):
        edges = _between(dtype, -1100, 1100, 7, 1 << 16)
        x = np.concatenate([_every_exponent(dtype, 6)[: 1 << 16], edges, edges / 8, [INF, -INF, NAN]])
        expected = run(name, x, dtype=dtype, width=width, features=frozenset())
        np.testing.assert_array_equal(run(name, x, dtype=dtype, width=width), expected)


AVX2_ONLY = HOST_FEATURES & {"avx2", "fma"}
WITHOUT: frozenset[str] = frozenset()


def test_erf_by_tables_gives_the_same_bits_by_either_permutation() -> None:
    edges = _between("f32", -4.5, 4.5, 7, 1 << 16)
    x = np.concatenate([_every_exponent("f32", 6)[: 1 << 16], edges, [INF, -INF, NAN, 0.0, -0.0]])
    expected = run("math.erf", x, features=AVX2_ONLY)
    for width in (None, 2, 4, 8, 16):
        np.testing.assert_array_equal(run("math.erf", x, width=width), expected)
        np.testing.assert_array_equal(run("math.erf", x, width=width, features=AVX2_ONLY), expected)


@pytest.mark.parametrize("features", [WITHOUT, AVX2_ONLY, HOST_FEATURES], ids=["none", "avx2", "host"])
def test_erf_of_every_interval_is_within_the_bound(features: frozenset[str]) -> None:
    """Both forms, tables by either permutation, at every 64th f32 number from 2^-6 to 5 and at the edges of the intervals."""
    first, last = (int(each) for each in np.array([2.0**-6, 5.0], np.float32).view(np.int32))
    edges = (np.arange(0.5, 16) / 3.92).astype(np.float32).view(np.int32)
    near = [edges + np.int32(distance) for distance in range(-64, 65)]
    x = np.concatenate([np.arange(first, last, 64, dtype=np.int32), *near]).view(np.float32)
    reference = np.array([math.erf(each) for each in x.astype(np.float64)])
    assert worst_ulp(run("math.erf", x, features=features), reference) <= 1.5
    np.testing.assert_array_equal(run("math.erf", -x, features=features), -run("math.erf", x, features=features))


def _arithmetic(name: str) -> list[str]:
    """The vector instructions of a function for AVX-512 that compute, those before its loop among them."""
    target = Target("x86_64-unknown-linux-gnu", "znver4", "-prefer-256-bit")
    text = emit_assembly(optimise(_module_text("f32", 16, frozenset({"avx512f"})), target), target)
    body = text.partition(f"{name}:")[2].partition("retq")[0]
    kept = ("vmov", "vbroadcast", "vzeroupper")
    return [line for line in body.splitlines() if line.startswith("\tv") and not any(word in line for word in kept)]


def test_avx512_scales_in_one_instruction() -> None:
    instructions = _arithmetic("math.exp")
    assert sum("vscalefps" in line for line in instructions) == 1
    assert len(instructions) <= 16


def test_avx512_looks_up_erf_in_registers() -> None:
    """Seven numbers of an interval, six fused products, and no exponential."""
    instructions = _arithmetic("math.erf")
    assert sum("vpermps" in line for line in instructions) == 7
    assert sum("vfma" in line for line in instructions) == 6
    assert sum("vscalefps" in line or "vdiv" in line for line in instructions) == 0
    assert len(instructions) <= 18


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_power_error(dtype: str) -> None:
    wide = np.float64 if dtype == "f32" else np.longdouble
    x = np.abs(_every_exponent(dtype, 11))[: 1 << 17]
    near_one = _between(dtype, 0.5, 2, 14, x.size)
    fractions = _between(dtype, -2, 2, 12, x.size)
    large = 500 * fractions
    common = np.random.default_rng(13).choice([2.0, 3.0, 0.5, -1.0, -0.5, 1.0 / 3.0], x.size).astype(DTYPES[dtype])
    for base, y in ((x, fractions), (x, common), (near_one, fractions), (near_one, common), (near_one, large)):
        with np.errstate(all="ignore"):
            reference = np.power(base.astype(wide), y.astype(wide))
        got = run("math.powf", base, y, dtype=dtype, width=16 if dtype == "f32" else 8)
        assert worst_ulp(got, reference) <= (1.0 if dtype == "f32" else 2.0)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_power_special_values_agree_with_the_c_library(dtype: str) -> None:
    values = [0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 3, -3, 1.5, -1.5, 1e30, -1e30, INF, -INF, NAN]
    x, y = (a.ravel().astype(DTYPES[dtype]) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(DTYPES[dtype])
    got = run("math.powf", x, y, dtype=dtype, width=16 if dtype == "f32" else 8)
    np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype == "f32" else 1e-15)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def test_f64_angles_too_large_to_reduce_give_nan_rather_than_noise() -> None:
    for name in ("math.sin", "math.cos"):
        assert np.isnan(run(name, [2.0**50, -(2.0**60), 1e300], dtype="f64", width=8)).all()
        assert np.isfinite(run(name, [2.0**49, -(2.0**49)], dtype="f64", width=8)).all()


def test_several_operands() -> None:
    x, y, z = (_between("f64", -2, 2, seed, 64) for seed in (21, 22, 23))
    np.testing.assert_array_equal(run("math.copysign", x, y, dtype="f64", width=8), np.copysign(x, y))
    exact = (x.astype(np.longdouble) * y + z).astype(np.float64)
    np.testing.assert_allclose(run("math.fma", x, y, z, dtype="f64", width=8), exact, rtol=0, atol=1e-15)


def test_masked_score_becomes_exactly_zero() -> None:
    scores = np.full(16, -np.finfo(np.float32).max)
    assert (run("math.exp", scores) == 0.0).all()
    assert (run("math.exp", np.full(16, -104.0)) == 0.0).all()


@pytest.mark.parametrize(
    "target",
    [
        Target("x86_64-unknown-linux-gnu", "haswell"),
        Target("aarch64-unknown-linux-gnu", "neoverse-n1"),
        Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+f,+d,+v"),
    ],
    ids=lambda target: target.triple.split("-")[0],
)
def test_no_target_needs_a_library(target: Target) -> None:
    text = _module_text("f32", 8)
    symbols = object_symbols(emit_object(optimise(text, target), target))
    assert symbols is not None
    assert symbols.defined == FUNCTIONS.keys()
    assert not symbols.undefined


def test_other_formats_are_refused() -> None:
    module = ModuleBuilder("wrong")
    with module:
        b = Builder()
        with module.function("f", [b.f16]) as f, pytest.raises(CodegenError, match="f16"):
            VECTOR_MATH["math.exp"](b, f.args[0])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_atan2_error(dtype: str) -> None:
    wide = np.float64 if dtype == "f32" else np.longdouble
    inputs = [
        (_every_exponent(dtype, 1), _every_exponent(dtype, 2)),
        (_between(dtype, -2, 2, 3), _between(dtype, -2, 2, 4)),
    ]
    for y, x in inputs:
        count = min(y.size, x.size, 1 << 17)
        y, x = y[:count], x[:count]
        reference = np.arctan2(y.astype(wide), x.astype(wide))
        got = run("math.atan2", y, x, dtype=dtype, width=16 if dtype == "f32" else 8)
        assert worst_ulp(got, reference) <= 2.5


@pytest.mark.parametrize(("dtype", "width"), [("f32", 16), ("f64", None)])
def test_atan2_special_values(dtype: str, width: int | None) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN], DTYPES[dtype])
    y, x = (grid.ravel() for grid in np.meshgrid(values, values))
    got = run("math.atan2", y, x, dtype=dtype, width=width)
    expected = np.arctan2(y, x)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(got.dtype).eps)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))
