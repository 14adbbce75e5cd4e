"""`tile.attend` through the claim, over masks, heads, strides and odd sizes, against numpy in f64."""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType

from anyshape.codegen.attend import attend_schedule, can_attend, emit_attend
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.dialects.tile import AttendOp, KernelOp, buffer
from anyshape.support.machine import Machine, host_machine
from anyshape.symbolic import Size

Guard = Callable[[np.ndarray], Any]
SYMBOLS = ("b", "h", "hk", "s", "t", "d", "e", "mb", "mh", "ms", "mt")
B, H, HK, S, T, D, E, MB, MH, MS, MT = (Size.symbol(name) for name in SYMBOLS)
MACHINE, TARGET = host_machine(), host_target()
ELEMENTS: dict[str, tuple[Any, Any]] = {
    "f32": (Float32Type(), np.float32),
    "f64": (Float64Type(), np.float64),
    "bf16": (BFloat16Type(), ml_dtypes.bfloat16),
    "f16": (Float16Type(), np.float16),
}


@dataclass(frozen=True)
class Shape:
    b: int = 1
    h: int = 1
    hk: int = 1
    s: int = 1
    t: int = 1
    d: int = 16
    e: int = 16


SHAPES = (
    Shape(), Shape(2, 3, 3, 5, 7, 16, 16), Shape(1, 4, 2, 17, 17, 64, 64), Shape(2, 6, 2, 50, 33, 32, 32),
    Shape(1, 2, 1, 1, 100, 64, 64), Shape(1, 3, 3, 2, 65, 80, 80), Shape(1, 2, 2, 130, 128, 24, 40),
    Shape(1, 1, 1, 3, 0, 16, 16), Shape(1, 1, 1, 0, 3, 16, 16), Shape(2, 2, 1, 200, 64, 7, 5),
    Shape(1, 2, 2, 1, 40, 33, 96), Shape(1, 1, 1, 20, 2500, 64, 64), Shape(1, 1, 1, 2, 2500, 64, 64),
    Shape(2, 9, 3, 1, 77, 64, 64), Shape(1, 14, 2, 1, 30, 16, 24),
)  # fmt: skip


@cache
def program(
    element: str, mask: str, causal: bool, layout: str, machine: Any = MACHINE
) -> tuple[AttendOp, LoadedCode, Any]:
    """`heads inside`: [b, s, h, d] in memory; `heads outside`: [b, h, s, d]; `reversed`: [b, h, d, s]."""
    type_ = ELEMENTS[element][0]
    mask_type = {"none": None, "bool": IntegerType(1), "float": type_}[mask]

    def strides(heads: Size, rows: Size, width: Size) -> tuple[Size, ...]:
        return {
            "heads inside": (rows * heads * width, width, heads * width, Size.const(1)),
            "heads outside": (heads * rows * width, rows * width, width, Size.const(1)),
            "reversed": (heads * rows * width, rows * width, Size.const(1), rows),
        }[layout]

    sizes = [(B, H, S, D), (B, HK, T, D), (B, HK, T, E), (B, H, S, E)]
    buffers = [buffer(type_, size, strides(*size[1:])) for size in sizes]
    if mask_type is not None:
        buffers.append(buffer(mask_type, (B, H, S, T), (MB, MH, MS, MT)))
    kernel = KernelOp("attention", SYMBOLS, buffers)
    query, key, value, out, *rest = kernel.body.block.args
    op = AttendOp(query, key, value, out, rest[0] if rest else None, (B, H, HK, S, T, D, E), 0.3, causal=causal)
    kernel.body.block.add_op(op)
    kernel.verify()
    assert can_attend(op) is None
    module = ModuleBuilder("test", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        emit_kernel(module, kernel, machine, {AttendOp: emit_attend})
    text = optimise(lower_to_llvm(module.module), TARGET)
    shared = shared_objects(TARGET, machine, tuple(ELEMENTS) if machine is MACHINE else ("f32", "f16"))
    return op, LoadedCode([emit_object(text, TARGET), shared]), kernel


def run(
    op: AttendOp,
    code: LoadedCode,
    arrays: Sequence[Any],
    sizes: dict[str, int],
    cuts: int = 1,
    machine: Machine = MACHINE,
) -> None:
    schedule = attend_schedule(op, machine)
    extent, scratch_bytes = schedule.extent.evaluate(sizes), schedule.scratch_bytes.evaluate(sizes)
    assert schedule.grain.evaluate(sizes) >= 1
    kernel = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(code.address("attention"))
    pointers = (ctypes.c_void_p * len(arrays))(*(array.address for array in arrays))
    values = (ctypes.c_int64 * len(SYMBOLS))(*(sizes[name] for name in SYMBOLS))
    bounds = [extent * number // cuts for number in range(cuts + 1)]
    for begin, end in itertools.pairwise(bounds):
        if begin < end:
            canary = 4096
            scratch = np.full(scratch_bytes + canary + 64, 0xFF, np.uint8)
            offset = -scratch.ctypes.data % 64
            kernel(ctypes.addressof(pointers), ctypes.addressof(values), begin, end, scratch.ctypes.data + offset, None)
            assert np.all(scratch[offset + scratch_bytes :] == 0xFF), "written beyond the scratch that was asked for"


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, causal: bool) -> np.ndarray:
    """q, k, v [b, h, ·, ·]; f64; rows without a key give zeros."""
    shared_by = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), shared_by, axis=1) for x in (k, v))
    scores = 0.3 * np.einsum("bhsd,bhtd->bhst", q.astype(np.float64), k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask.astype(np.float64)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhst,bhte->bhse", weights / np.where(total == 0, 1, total), v)


def lay_out(array: np.ndarray, layout: str) -> np.ndarray:
    """[b, h, r, w] as it lies in memory."""
    axes = {"heads inside": (0, 2, 1, 3), "heads outside": (0, 1, 2, 3), "reversed": (0, 1, 3, 2)}[layout]
    return np.ascontiguousarray(array.transpose(axes))


def read_back(array: np.ndarray, layout: str) -> np.ndarray:
    axes = {"heads inside": (0, 2, 1, 3), "heads outside": (0, 1, 2, 3), "reversed": (0, 1, 3, 2)}[layout]
    return array.transpose(axes)


def make_mask(rng: np.random.Generator, kind: str, shape: Shape, broadcast: str, dtype: Any) -> np.ndarray | None:
    if kind == "none":
        return None
    full = {"b": shape.b, "h": shape.h, "s": shape.s, "t": shape.t}
    sizes = [full[axis] if axis in broadcast else 1 for axis in "bhst"]
    mask = rng.random(sizes) < 0.7
    if shape.s > 1 and shape.t and "s" in broadcast:
        mask[:, :, 1, :] = False
    return mask if kind == "bool" else np.where(mask, rng.standard_normal(sizes), -np.inf).astype(dtype)


def check(
    guarded: Guard, shape: Shape, element: str, mask_kind: str, causal: bool, layout: str, broadcast: str, cuts: int,
    machine: Machine = MACHINE,
) -> None:  # fmt: skip
    dtype = ELEMENTS[element][1]
    rng = np.random.default_rng(11)
    q = rng.standard_normal((shape.b, shape.h, shape.s, shape.d)).astype(dtype)
    k = rng.standard_normal((shape.b, shape.hk, shape.t, shape.d)).astype(dtype)
    v = rng.standard_normal((shape.b, shape.hk, shape.t, shape.e)).astype(dtype)
    mask = make_mask(rng, mask_kind, shape, broadcast, dtype)
    out = np.full((shape.b, shape.h, shape.s, shape.e), 7, dtype)
    arrays = [guarded(lay_out(array, layout)) for array in (q, k, v, out)]
    sizes = {name: getattr(shape, name) for name in SYMBOLS[:7]} | dict.fromkeys(SYMBOLS[7:], 0)
    if mask is not None:
        arrays.append(guarded(mask))
        steps = [0 if size == 1 else step // mask.itemsize for size, step in zip(mask.shape, mask.strides, strict=True)]
        sizes |= dict(zip(SYMBOLS[7:], steps, strict=True))
    op, code, _ = program(element, mask_kind, causal, layout, machine)
    run(op, code, arrays, sizes, cuts, machine)
    got = read_back(arrays[3].array, layout)
    # Narrow elements are computed in f32, and rounded once.
    rtol = float(ml_dtypes.finfo(dtype).eps) if np.dtype(dtype).itemsize == 2 else 0
    atol = 64 * np.finfo(np.float64 if element == "f64" else np.float32).eps
    np.testing.assert_allclose(got.astype(np.float64), reference(q, k, v, mask, causal), rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask_kind", ["none", "bool", "float"])
def test_masks_heads_and_odd_sizes(guarded: Guard, mask_kind: str, causal: bool, shape: Shape) -> None:
    for layout, broadcast, cuts in (("heads inside", "bst", 1), ("heads outside", "bhst", 3)):
        check(guarded, shape, "f32", mask_kind, causal, layout, broadcast, cuts)


@pytest.mark.parametrize("broadcast", ["", "t", "s", "bt", "h", "bh"])
@pytest.mark.parametrize("mask_kind", ["bool", "float"])
def test_broadcast_masks(guarded: Guard, mask_kind: str, broadcast: str) -> None:
    check(guarded, Shape(2, 3, 3, 5, 37, 16, 16), "f32", mask_kind, False, "heads inside", broadcast, 2)


@pytest.mark.parametrize("shape", SHAPES[:10], ids=str)
def test_elements_that_are_not_adjacent(guarded: Guard, shape: Shape) -> None:
    check(guarded, shape, "f32", "none", False, "reversed", "", 2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_f64(guarded: Guard, shape: Shape) -> None:
    check(guarded, shape, "f64", "float", True, "heads inside", "bst", 2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_narrow_elements(guarded: Guard, element: str, shape: Shape) -> None:
    for mask_kind, causal, layout, cuts in (
        ("none", True, "heads inside", 2),
        ("float", False, "heads outside", 3),
        ("bool", False, "heads inside", 1),
    ):
        check(guarded, shape, element, mask_kind, causal, layout, "bst", cuts)


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_vectors(guarded: Guard, bits: int) -> None:
    """Tiles of a machine with fewer and shorter registers, for which this one's code is as good as any."""
    machine = replace(MACHINE, vector_bits=bits, registers=16)
    for element in ("f32", "f16"):
        for shape in SHAPES:
            if shape.s <= 20:
                check(guarded, shape, element, "none", False, "heads inside", "", 2, machine)


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_narrow_elements_that_are_not_adjacent(guarded: Guard, element: str) -> None:
    for shape in (Shape(1, 4, 2, 17, 17, 64, 64), Shape(2, 2, 1, 1, 40, 33, 24)):
        check(guarded, shape, element, "float", False, "reversed", "b", 2)


def test_cuts_do_not_show_in_the_result(guarded: Guard) -> None:
    """Same bits for one worker and five, with shared key heads and several chunks of keys."""
    for shape in (
        Shape(2, 6, 2, 110, 90, 32, 32),
        Shape(1, 2, 1, 230, 2300, 64, 64),
        Shape(2, 6, 2, 2, 90, 32, 32),
        Shape(1, 9, 3, 1, 90, 64, 64),
    ):
        rng = np.random.default_rng(12)
        q = rng.standard_normal((shape.b, shape.s, shape.h, shape.d)).astype(np.float32)
        k, v = (rng.standard_normal((shape.b, shape.t, shape.hk, shape.d)).astype(np.float32) for _ in range(2))
        sizes = {name: getattr(shape, name) for name in SYMBOLS[:7]} | dict.fromkeys(SYMBOLS[7:], 0)
        op, code, _ = program("f32", "none", shape.s > 1, "heads inside")
        results = []
        for cuts in (1, 5):
            arrays = [guarded(array) for array in (q, k, v, np.zeros_like(q))]
            run(op, code, arrays, sizes, cuts)
            results.append(arrays[3].array.copy())
        assert np.array_equal(*results)


def test_causal_tiles_that_straddle_two_chunks(guarded: Guard) -> None:
    """960 keys are a chunk here, and with three cuts a tile has rows on both sides: the earlier ones keep nothing of the second chunk."""
    check(guarded, Shape(1, 1, 1, 1033, 1033, 16, 16), "f32", "none", True, "heads inside", "", 3)


def test_nan_reaches_its_own_row_only(guarded: Guard) -> None:
    shape = Shape(1, 1, 1, 8, 20, 16, 16)
    rng = np.random.default_rng(13)
    q, k, v = (rng.standard_normal((1, rows, 1, 16)).astype(np.float32) for rows in (8, 20, 20))
    q[0, 3, 0, 5] = np.nan
    arrays = [guarded(array) for array in (q, k, v, np.zeros_like(q))]
    sizes = {name: getattr(shape, name) for name in SYMBOLS[:7]} | dict.fromkeys(SYMBOLS[7:], 0)
    op, code, _ = program("f32", "none", False, "heads inside")
    run(op, code, arrays, sizes)
    nan_rows = np.isnan(arrays[3].array[0, :, 0]).all(axis=-1)
    assert nan_rows.tolist() == [row == 3 for row in range(8)]
    assert not np.isnan(np.delete(arrays[3].array[0, :, 0], 3, axis=0)).any()
