"""The block driver called with task records, against numpy in f64."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.contract import pack_panels
from anyshape.codegen.contract.driver import CROWDED_COLUMNS, CROWDED_ROWS
from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.tiles.dot_tiles import FEW_COLUMNS, tile_rows
from tests.codegen.contract.blocks import DTYPES, MACHINES, cases, check, code_of, run_block, shape_of

Guard = Callable[[np.ndarray], Any]
every_machine = pytest.mark.parametrize("machine", MACHINES)
every_element = pytest.mark.parametrize("element", ["f32", "f64"])


@pytest.fixture(scope="module")
def code() -> LoadedCode:
    return code_of("host", "f32")


@every_machine
@every_element
@pytest.mark.parametrize("with_bias", [False, True])
def test_packed(guarded: Guard, machine: str, element: str, with_bias: bool) -> None:
    rng = np.random.default_rng(1)
    code, dtype = code_of(machine, element), DTYPES[element]
    for m, n, k in cases(2, 16):
        a, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (n,)))
        lhs, panels, start, out = guarded(a), guarded(pack_panels(w)), guarded(bias), guarded(np.full((m, n), 7, dtype))
        run_block(
            code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n,
            init=start.address if with_bias else 0,
        )  # fmt: skip
        check(out.array, a, w, bias if with_bias else 0)


@every_machine
@every_element
@pytest.mark.parametrize("order", ["rows", "columns", "strided"])
def test_right_hand_side_that_is_not_packed(guarded: Guard, machine: str, element: str, order: str) -> None:
    rng = np.random.default_rng(3)
    code, dtype, shape = code_of(machine, element), DTYPES[element], shape_of(machine, element)
    for m, n, k in cases(4, 8):
        a = rng.standard_normal((m, k)).astype(dtype)
        if order == "rows":
            held = guarded(rng.standard_normal((k, n)).astype(dtype))
            w, steps = held.array, (n, 1)
        elif order == "columns":
            held = guarded(rng.standard_normal((n, k)).astype(dtype))
            w, steps = held.array.T, (1, k)
        else:
            held = guarded(rng.standard_normal((k, 3 * n)).astype(dtype))
            w, steps = held.array[:, ::3], (3 * n, 3)
        lhs, out = guarded(a), guarded(np.full((m, n), 7, dtype))
        scratch = guarded(np.zeros(max(1, min(k, shape.depth)) * 64, dtype))
        run_block(
            code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=held.address,
            rhs_depth=steps[0], rhs_column=steps[1], rhs_panel=64 * steps[1], out=out.address, out_row=n,
            rhs_scratch=scratch.address,
        )  # fmt: skip
        check(out.array, a, w)


@every_machine
@every_element
@pytest.mark.parametrize("order", ["rows", "columns", "strided"])
def test_few_columns_are_dot_products(guarded: Guard, machine: str, element: str, order: str) -> None:
    """Any number of rows; depths of less than a vector, with and without a rest, and of several blocks. Nothing beyond is touched."""
    rng = np.random.default_rng(31)
    code, dtype, shape = code_of(machine, element), DTYPES[element], shape_of(machine, element)
    depths = (0, 1, shape.lanes - 1, shape.lanes, 5 * shape.lanes + 3, shape.depth + shape.lanes + 1)
    for n in range(1, FEW_COLUMNS + 1):
        rows = tile_rows(shape, n)
        for m, k in zip((1, rows, rows + 1, 3 * rows - 1, 2 * rows + 3, 41), depths, strict=True):
            wide = {"rows": n, "columns": k, "strided": 3 * n}[order]
            held = guarded(rng.standard_normal((n, k) if order == "columns" else (k, wide)).astype(dtype))
            w = {"rows": held.array, "columns": held.array.T, "strided": held.array[:, ::3]}[order]
            steps = {"rows": (n, 1), "columns": (1, k), "strided": (3 * n, 3)}[order]
            a, bias = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal(n).astype(dtype)
            lhs, start, out = guarded(a), guarded(bias), guarded(np.full((m, n), 7, dtype))
            scratch = guarded(np.zeros(0 if order == "columns" else max(1, min(k, shape.depth)) * n, dtype))
            run_block(
                code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=held.address,
                rhs_depth=steps[0], rhs_column=steps[1], rhs_panel=64 * steps[1], out=out.address, out_row=n,
                rhs_scratch=scratch.address, init=start.address if n % 2 else 0,
            )  # fmt: skip
            check(out.array, a, w, bias if n % 2 else 0)


def test_left_hand_side_with_any_strides(code: LoadedCode, guarded: Guard) -> None:
    rng = np.random.default_rng(5)
    for m, n, k in cases(6, 25):
        held, w = (
            guarded(rng.standard_normal((k, m)).astype(np.float32)),
            rng.standard_normal((k, n)).astype(np.float32),
        )
        panels, out = guarded(pack_panels(w)), guarded(np.full((m, n), 7, np.float32))
        scratch = guarded(np.zeros(max(1, min(k, 768)) * m, np.float32))
        run_block(
            code, "f32", rows=m, columns=n, depth=k, lhs=held.address, lhs_row=1, lhs_depth=m, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n,
            lhs_scratch=scratch.address,
        )  # fmt: skip
        check(out.array, held.array.T, w)


def test_rows_do_not_depend_on_their_neighbours(code: LoadedCode, guarded: Guard) -> None:
    """Every row count gives each row the same bits: the order of additions is that of k."""
    rng = np.random.default_rng(7)
    k, n = 800, 70
    a, w = rng.standard_normal((20, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    panels = guarded(pack_panels(w))
    results = []
    for m in range(1, 21):
        lhs, out = guarded(a[20 - m :].copy()), guarded(np.zeros((m, n), np.float32))
        run_block(
            code, "f32", rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n,
        )  # fmt: skip
        results.append(out.array[-1].copy())
    assert all(np.array_equal(results[0], row) for row in results)


@every_machine
@every_element
def test_rows_that_crowd_in_few_cache_sets_are_copied(guarded: Guard, machine: str, element: str) -> None:
    """Where many columns pay for it; the copy is seen in its scratch."""
    rng = np.random.default_rng(11)
    code, shape, dtype = code_of(machine, element), shape_of(machine, element), DTYPES[element]
    m, k, apart, many = CROWDED_ROWS, shape.depth + 3, shape.crowding, CROWDED_COLUMNS + 1
    for rows, stride, n, copies in (
        (m, apart, many, True), (m, 2 * apart, many, True), (m, apart + 1, many, False), (m, apart, many - 1, False),
        (m - 1, apart, many, False),
    ):  # fmt: skip
        held, w = rng.standard_normal((rows, stride)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        lhs, panels, out = guarded(held), guarded(pack_panels(w)), guarded(np.zeros((rows, n), dtype))
        scratch = guarded(np.zeros(rows * shape.depth, dtype))
        run_block(
            code, element, rows=rows, columns=n, depth=k, lhs=lhs.address, lhs_row=stride, lhs_depth=1, rhs=panels.address,
            rhs_depth=64, rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n, lhs_scratch=scratch.address,
        )  # fmt: skip
        check(out.array, held[:, :k], w)
        # The last depth block lies at the front, over the one before.
        last = scratch.array[: rows * 3].reshape(rows, 3)
        assert np.array_equal(last, held[:, shape.depth : k] if copies else np.zeros_like(last))


@every_machine
@every_element
def test_crowded_rows_stay_where_there_is_no_room_for_a_copy(guarded: Guard, machine: str, element: str) -> None:
    rng = np.random.default_rng(12)
    code, shape, dtype = code_of(machine, element), shape_of(machine, element), DTYPES[element]
    m, n, k = CROWDED_ROWS, CROWDED_COLUMNS + 1, shape.crowding
    a, w = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    lhs, panels, out = guarded(a), guarded(pack_panels(w)), guarded(np.zeros((m, n), dtype))
    run_block(
        code, element, rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address,
        rhs_depth=64, rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n,
    )  # fmt: skip
    check(out.array, a, w)


def test_the_epilogue_sees_each_tile_once(code: LoadedCode, guarded: Guard) -> None:
    seen: list[tuple[int, ...]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p, ctypes.c_int64)

    @kind
    def epilogue(context: int, row: int, rows: int, column: int, columns: int, tile: int, stride: int) -> None:
        seen.append((context, row, rows, column, columns, tile, stride))

    m, n, k = 17, 130, 1000
    a, w = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    lhs, panels, out = guarded(a), guarded(pack_panels(w)), guarded(np.zeros((m, n), np.float32))
    run_block(
        code, "f32", rows=m, columns=n, depth=k, lhs=lhs.address, lhs_row=k, lhs_depth=1, rhs=panels.address, rhs_depth=64,
        rhs_column=1, rhs_panel=64 * k, packed=1, out=out.address, out_row=n, first_row=100, first_column=640,
        epilogue=ctypes.cast(epilogue, ctypes.c_void_p).value or 0, context=99,
    )  # fmt: skip
    covered = np.zeros((m, n), int)
    for context, row, rows, column, columns, tile, stride in seen:
        covered[row - 100 : row - 100 + rows, column - 640 : column - 640 + columns] += 1
        assert (context, stride) == (99, n)
        assert tile == out.address + 4 * ((row - 100) * n + column - 640)
    assert np.all(covered == 1)
