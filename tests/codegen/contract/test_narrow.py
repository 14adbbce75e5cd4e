"""Products of bf16, f16 and i8 on every kind of machine that this processor can stand in for, against f64 or exact integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anyshape.dialects.packed_panels import packed_depth
from tests.codegen.contract.blocks import (
    DTYPES,
    MACHINES,
    MIXED,
    SUMS,
    cases,
    check,
    code_of,
    pack,
    random,
    run_block,
    shape_of,
    sides,
)

Guard = Callable[[np.ndarray], Any]
every_machine = pytest.mark.parametrize("machine", MACHINES)
every_element = pytest.mark.parametrize("element", ["bf16", "f16", "i8", *MIXED])


def lhs_scratch(guarded: Guard, machine: str, element: str, rows: int, depth: int) -> Any:
    """Scratch that ends at a guard page, 0xFF throughout."""
    shape = shape_of(machine, element)
    return guarded(np.full(rows * shape.copied_depth(min(depth, shape.depth)) * shape.lhs_bytes, 0xFF, np.uint8))


@every_machine
@every_element
def test_packed(guarded: Guard, machine: str, element: str) -> None:
    rng = np.random.default_rng(1)
    left, right = sides(element)
    code, shape = code_of(machine, element), shape_of(machine, element)
    for m, n, k in cases(2, 16):
        a, stored = random(rng, (m, k), left), guarded(random(rng, (n, k), right))
        start = guarded((8 * rng.standard_normal(n)).astype(SUMS[element]))
        panels = pack(code, shape, stored.array.T, guarded)
        lhs, out = guarded(a), guarded(np.full((m, n), 7, SUMS[element]))
        copy = lhs_scratch(guarded, machine, element, m, k)
        run_block(
            code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * panels.array.shape[1], packed=1, out=out.address, out_row=n,
            init=start.address, lhs_scratch=copy.address,
        )  # fmt: skip
        check(out.array, a, stored.array.T, start.array)


@every_machine
@every_element
@pytest.mark.parametrize("order", ["rows", "columns", "strided"])
def test_packed_on_the_fly_and_any_left_strides(guarded: Guard, machine: str, element: str, order: str) -> None:
    rng = np.random.default_rng(3)
    left, right = sides(element)
    code, shape = code_of(machine, element), shape_of(machine, element)
    for m, n, k in cases(4, 6):
        sizes = {"rows": (k, n), "columns": (n, k), "strided": (k, 3 * n)}[order]
        rhs = guarded(random(rng, sizes, right))
        w = {"rows": rhs.array, "columns": rhs.array.T, "strided": rhs.array[:, ::3]}[order]
        step_k, step_j = {"rows": (n, 1), "columns": (1, k), "strided": (3 * n, 3)}[order]
        transposed = order == "columns"
        lhs = guarded(random(rng, (k, m) if transposed else (m, k), left))
        a = lhs.array.T if transposed else lhs.array
        out = guarded(np.full((m, n), 7, SUMS[element]))
        scratch = guarded(np.zeros(packed_depth(element, min(k, shape.depth)) * 64, DTYPES[right]))
        copy = lhs_scratch(guarded, machine, element, m, k)
        run_block(
            code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=1 if transposed else k,
            lhs_depth=m if transposed else 1, rhs=rhs.address, rhs_depth=step_k, rhs_column=step_j, rhs_panel=64 * step_j,
            out=out.address, out_row=n, lhs_scratch=copy.address,
            rhs_scratch=scratch.address,
        )  # fmt: skip
        check(out.array, a, w)


@every_machine
def test_extreme_bytes_do_not_saturate(guarded: Guard, machine: str) -> None:
    """−128 · −128 summed over every k: pairs of products in 16 bits would saturate, and 128 more of them wrap in 32."""
    code, shape = code_of(machine, "i8"), shape_of(machine, "i8")
    for left, right, k in ((-128, -128, 1000), (127, -128, 1000), (-128, 127, 7), (-128, -128, 140_000)):
        a, w = np.full((3, k), left, np.int8), np.full((k, 20), right, np.int8)
        lhs, out, panels = guarded(a), guarded(np.zeros((3, 20), np.int32)), pack(code, shape, w, guarded)
        copy = lhs_scratch(guarded, machine, "i8", 3, k)
        run_block(
            code, "i8", rows=3, columns=20, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * panels.array.shape[1], packed=1, out=out.address, out_row=20,
            lhs_scratch=copy.address,
        )  # fmt: skip
        expected = (left * right * k + 2**31) % 2**32 - 2**31
        assert np.all(out.array == expected)


@every_machine
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_denormals_infinities_and_nan(guarded: Guard, machine: str, element: str) -> None:
    """One product with 1 gives every value itself, but for the dot instruction of bf16, which has no denormals."""
    bits = np.arange(0, 1 << 16, 7, np.uint16)
    code, shape = code_of(machine, element), shape_of(machine, element)
    n = bits.size
    w: np.ndarray[Any, Any] = bits.view(DTYPES[element]).reshape(1, n)
    a: np.ndarray[Any, Any] = np.ones((1, 1), DTYPES[element])
    panels = pack(code, shape, w, guarded)
    sides: list[tuple[Any, Any, bool]] = [
        (panels, guarded(a), False),
        (pack(code, shape, a, guarded), guarded(w.T.copy()), True),
    ]
    for rhs, lhs, swapped in sides:
        rows, columns = (n, 1) if swapped else (1, n)
        out = guarded(np.zeros((rows, columns), np.float32))
        copy = lhs_scratch(guarded, machine, element, rows, 1)
        run_block(
            code, element, rows=rows, columns=columns, depth=1, lhs=lhs.address, lhs_row=1, lhs_depth=1, rhs=rhs.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * rhs.array.shape[1], packed=1, out=out.address, out_row=columns,
            lhs_scratch=copy.address,
        )  # fmt: skip
        expected = w.ravel().astype(np.float32)
        if shape.method == "dpbf16":
            expected[np.abs(expected) < np.finfo(np.float32).tiny] = 0
        np.testing.assert_array_equal(out.array.ravel(), expected)


@every_machine
@pytest.mark.parametrize("element", MIXED)
def test_every_sixteen_bit_value_is_widened_exactly(guarded: Guard, machine: str, element: str) -> None:
    """One product with 1: denormals, infinities and NaN too, and no rounding."""
    code, shape = code_of(machine, element), shape_of(machine, element)
    w: np.ndarray[Any, Any] = np.arange(0, 1 << 16, dtype=np.uint16).view(DTYPES[sides(element)[1]]).reshape(1, -1)
    panels, lhs, out = pack(code, shape, w, guarded), guarded(np.ones((1, 1), np.float32)), np.zeros(w.size, np.float32)
    run_block(
        code, element, rows=1, columns=w.size, depth=1, lhs=lhs.address, lhs_row=1, lhs_depth=1, rhs=panels.address,
        rhs_depth=64, rhs_column=1, rhs_panel=64, packed=1, out=out.ctypes.data, out_row=w.size,
    )  # fmt: skip
    np.testing.assert_array_equal(out, w.ravel().astype(np.float32))


@pytest.mark.parametrize("element", ["bf16", "f16", "i8"])
def test_a_kept_left_hand_side_is_not_copied_again(guarded: Guard, element: str) -> None:
    """The second call reads scratch only: its left-hand side is at no address."""
    rng = np.random.default_rng(5)
    code, shape = code_of("host", element), shape_of("host", element)
    m, n, k = 7, 20, 33
    a, w = random(rng, (m, k), element), random(rng, (k, n), element)
    lhs, panels = guarded(a), pack(code, shape, w, guarded)
    scratch = lhs_scratch(guarded, "host", element, m, k)
    for kept in (0, 1):
        out = guarded(np.zeros((m, n), SUMS[element]))
        run_block(
            code, element, rows=m, columns=n, depth=k, lhs=0 if kept else lhs.address, lhs_row=k, lhs_depth=1,
            rhs=panels.address, rhs_depth=64, rhs_column=1, rhs_panel=64 * panels.array.shape[1], packed=1,
            out=out.address, out_row=n, lhs_scratch=scratch.address, lhs_kept=kept,
        )  # fmt: skip
        check(out.array, a, w)
