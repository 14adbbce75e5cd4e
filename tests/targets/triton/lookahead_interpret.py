"""The three kernels in Triton's interpreter against the plans run by numpy; `make test-gpu-lookahead` runs this."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute

from anyshape.dialects.dtypes import dtype_of_type
from anyshape.dialects.tile import ContractOp, KernelOp, buffer_of
from anyshape.dialects.tile.interpreter import run_kernel
from anyshape.support.errors import CodegenError
from anyshape.targets.triton import emit_triton
from tests.targets.triton.launcher import launch, load
from tests.targets.triton.plans import kernel_of, parse_kernel
from tests.targets.triton.small_plans import (
    F16,
    F32,
    F64,
    I1,
    I32,
    SCALARS,
    SIGNED_KINDS,
    UNSIGNED_KINDS,
    column_reduction,
    dot_plan,
    reversed_row,
    row_reduction,
    scalar_plan,
)

# Lanes outside a mask may overflow; numpy's other warning is about the interpreter's own code.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Sizes = tuple[int, ...]
POINTS = [(1, 1), (3, 7), (2, 16), (5, 37), (1, 40), (0, 4), (4, 0)]
PRODUCTS = [(1, 1, 1), (3, 5, 7), (17, 33, 9), (16, 16, 16), (20, 1, 40), (2, 0, 3), (0, 4, 4)]
TILES = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "PRECISION": "ieee"}


def inputs_of(kernel: KernelOp, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Normal floats, integers of either sign and both truth values; outputs are overwritten."""
    rng = np.random.default_rng(sum(sizes.values()))
    arrays = []
    for argument in kernel.body.block.args:
        type_ = buffer_of(argument)
        count = int(np.prod([size.evaluate(sizes) for size in type_.sizes.data], dtype=np.int64))
        dtype = dtype_of_type(type_.element_type)
        low, high = (0, 2) if dtype.is_bool else (-9, 10)
        numbers = rng.standard_normal(count) if dtype.is_float else rng.integers(low, high, count)
        arrays.append(numbers.astype(dtype.numpy))
    return arrays


def check(
    kernel: KernelOp,
    sizes: Sizes,
    constants: Mapping[str, object],
    directory: Path,
    *,
    whole_rows: bool = False,
    change: Callable[[list[np.ndarray]], None] = lambda buffers: None,
) -> list[np.ndarray]:
    """Assert that plan and kernel agree at these sizes, whatever lies around the buffers; the plan's buffers after the run."""
    env = dict(zip(kernel.symbol_names, sizes, strict=True))
    emitted = emit_triton(kernel, whole_rows=whole_rows)
    buffers = inputs_of(kernel, env)
    change(buffers)
    expected = [each.copy() for each in buffers]
    run_kernel(kernel, expected, env)
    module = load(emitted, directory)
    for poison in (np.nan, 3e30):
        got = launch(emitted, module, buffers, env, constants, poison)
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6, err_msg=f"buffer {number} at {env}")
    return expected


@pytest.mark.parametrize("sizes", POINTS, ids=str)
@pytest.mark.parametrize("whole_rows", [False, True], ids=["blocks", "whole"])
def test_softmax(sizes: Sizes, whole_rows: bool, tmp_path: Path) -> None:
    check(kernel_of("softmax"), sizes, {"BLOCK": 64 if whole_rows else 16}, tmp_path, whole_rows=whole_rows)


@pytest.mark.parametrize("sizes", POINTS, ids=str)
def test_column_sum(sizes: Sizes, tmp_path: Path) -> None:
    check(kernel_of("column_sum"), sizes, {"BLOCK": 16}, tmp_path)


@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
def test_product(sizes: Sizes, tmp_path: Path) -> None:
    check(kernel_of("product"), sizes, TILES, tmp_path)


def test_strides_of_zero(tmp_path: Path) -> None:
    """Every row of the left-hand side is its first, every column's bias the first."""
    text = str(kernel_of("product"))
    for dense, spread in (
        ("[s0, s1]>, #dhlo.dims<[s1, 1]", "[s0, s1]>, #dhlo.dims<[0, 1]"),
        ("[s2]>, #dhlo.dims<[1]", "[s2]>, #dhlo.dims<[0]"),
    ):
        assert dense in text
        text = text.replace(dense, spread)
    check(parse_kernel(text), (5, 3, 18), TILES, tmp_path)


@pytest.mark.parametrize("rows", [1, 19])
def test_product_with_a_weight_in_the_cpus_panels(rows: int, tmp_path: Path) -> None:
    kernel = kernel_of("product_packed", weights=frozenset({1}))
    assert any(isinstance(op, ContractOp) and op.packed is not None for op in kernel.body.block.ops)
    check(kernel, (rows,), TILES, tmp_path)


@pytest.mark.parametrize("whole_rows", [False, True], ids=["blocks", "whole"])
def test_nan_and_infinity_spread_over_their_row_only(whole_rows: bool, tmp_path: Path) -> None:
    kernel = kernel_of("softmax")
    scores = next(
        place for place, each in enumerate(kernel.body.block.args) if buffer_of(each).element_type == Float32Type()
    )

    def change(buffers: list[np.ndarray]) -> None:
        for place, each in enumerate(buffers[:-1]):
            each[:] = True if place != scores else each
        buffers[scores][[20, 60]] = np.nan, np.inf

    result = check(kernel, (4, 37), {"BLOCK": 64 if whole_rows else 16}, tmp_path, whole_rows=whole_rows, change=change)
    nan_rows = np.isnan(result[-1].reshape(4, 37)).any(axis=1)
    assert nan_rows.tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", SCALARS)
def test_scalar_op(name: str, tmp_path: Path) -> None:
    check(scalar_plan(*SCALARS[name]), (37,), {"BLOCK": 16}, tmp_path)


@pytest.mark.parametrize("kind", UNSIGNED_KINDS)
def test_unsigned_extrema_of_integers_are_refused(kind: str) -> None:
    """Triton's integers are signed: taking these as signed would be wrong from half the range on."""
    with pytest.raises(CodegenError, match="does not fit"):
        emit_triton(row_reduction(kind, I32))


@pytest.mark.parametrize("kind", UNSIGNED_KINDS)
def test_unsigned_extrema_of_bits(kind: str, tmp_path: Path) -> None:
    """On i1 they are the disjunction and the conjunction, which have no sign."""
    for sizes in ((2, 5), (3, 0), (2, 19)):
        check(row_reduction(kind, I1), sizes, {"BLOCK": 4}, tmp_path)


@pytest.mark.parametrize("element", [F32, F16, I32, I1], ids=str)
@pytest.mark.parametrize("kind", SIGNED_KINDS)
def test_reduction(kind: str, element: Attribute, tmp_path: Path) -> None:
    if element in (F32, F16) and kind in ("and", "or"):
        with pytest.raises(CodegenError, match="does not fit"):
            emit_triton(row_reduction(kind, element))
        return
    for sizes in ((2, 5), (3, 0), (0, 3), (2, 19)):
        for whole_rows in (False, True):
            constants = {"BLOCK": 32 if whole_rows else 4}
            check(row_reduction(kind, element), sizes, constants, tmp_path, whole_rows=whole_rows)
        check(column_reduction(kind, element), sizes, {"BLOCK": 4}, tmp_path)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_of_nan_are_nan(kind: str, tmp_path: Path) -> None:
    def change(buffers: list[np.ndarray]) -> None:
        buffers[0][7] = np.nan

    for make, nans in ((row_reduction, [False, True, False]), (column_reduction, [False, False, True, False, False])):
        result = check(make(kind, F32), (3, 5), {"BLOCK": 4}, tmp_path, change=change)
        assert np.isnan(result[-1]).tolist() == nans


@pytest.mark.parametrize("element", [F64, F16], ids=str)
def test_dot_in_lanes(element: Attribute, tmp_path: Path) -> None:
    for sizes in ((2, 5, 3), (1, 1, 0)):
        check(dot_plan(element), sizes, {"BLOCK": 4}, tmp_path)


def test_a_row_read_at_another_lane(tmp_path: Path) -> None:
    check(reversed_row(), (3, 11), {"BLOCK": 4}, tmp_path)


def test_the_guards_notice_a_missing_mask(tmp_path: Path) -> None:
    emitted = emit_triton(kernel_of("column_sum"))
    wider = emitted.source.replace("j0 < s1", "j0 < s1 + 1")
    assert wider != emitted.source
    changed = replace(emitted, module=ast.parse(wider))
    env = {"s0": 3, "s1": 7}
    with pytest.raises(AssertionError, match="outside a buffer"):
        launch(changed, load(changed, tmp_path), inputs_of(kernel_of("column_sum"), env), env, {"BLOCK": 16}, 0.0)
