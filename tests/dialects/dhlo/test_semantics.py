"""Edge cases with values written down: integers that wrap, NaN, masks, negative steps, index errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from anyshape.dialects.dhlo import (
    Add,
    ArgMax,
    ArgMin,
    Attention,
    Clamp,
    Convert,
    DhloOp,
    FloorDivide,
    Gather,
    Maximum,
    Minimum,
    Modulo,
    Multiply,
    Pad,
    Power,
    Reduce,
    Relu,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    Sign,
    Slice,
    Softmax,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import run_op
from anyshape.dialects.dhlo.pointwise import evaluate_pointwise
from anyshape.dialects.dtypes import BOOL, dtype_of_numpy
from anyshape.support.errors import IndexOutOfRange

NAN, INF = np.nan, np.inf
I32_MIN, I32_MAX = -(2**31), 2**31 - 1


def run(cls: type[DhloOp], *arrays: Any, **attributes: Any) -> np.ndarray[Any, Any]:
    """The op on these arrays, by its reference and, where it has one, by its element: both must agree."""
    operands = [np.asarray(array) for array in arrays]
    g = FunctionBuilder()
    op = cls.of(*(g.input(*array.shape, dtype=dtype_of_numpy(array.dtype)) for array in operands), **attributes)
    (result,) = run_op(op, operands, {})
    if cls.element is not DhloOp.element or cls.scalar is not DhloOp.scalar:
        np.testing.assert_array_equal(evaluate_pointwise(op, operands, {}), result)
    return result


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("op", "expected"),
    [(FloorDivide, [2, -3, -3, 2]), (Modulo, [1, 2, -2, -1]), (Remainder, [1, -1, 1, -1])],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_rounding_of_quotients(op: type[DhloOp], expected: Sequence[int], dtype: Any) -> None:
    result = run(op, np.array([7, -7, 7, -7], dtype), np.array([3, 3, -3, -3], dtype))
    assert result.tolist() == expected


def test_float_floor_divide_is_of_the_exact_remainder() -> None:
    assert run(FloorDivide, f32(1.0, 5.0, -1.0), f32(0.1, 0.0, INF)).tolist() == [9.0, INF, -1.0]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_division_never_traps(dtype: Any) -> None:
    low = np.iinfo(dtype).min
    a, b = np.array([low, low, 5, 0, low], dtype), np.array([-1, 0, 0, 0, 1], dtype)
    assert run(FloorDivide, a, b).tolist() == [low, 0, 0, 0, low]
    assert run(Modulo, a, b).tolist() == [0, 0, 0, 0, 0]
    assert run(Remainder, a, b).tolist() == [0, 0, 0, 0, 0]


def test_unsigned_division() -> None:
    a, b = np.array([200, 255, 7, 9], np.uint8), np.array([3, 255, 0, 200], np.uint8)
    assert run(FloorDivide, a, b).tolist() == [66, 1, 0, 0]
    assert run(Modulo, a, b).tolist() == [2, 0, 0, 9]
    assert run(Remainder, a, b).tolist() == [2, 0, 0, 9]


def test_wrapping_comes_before_widening() -> None:
    total = run(Add, np.array([128], np.uint8), np.array([128], np.uint8))
    assert run(Convert, total, dtype=dtype_of_numpy(np.dtype(np.int16))).tolist() == [0]
    doubled = run(Multiply, i32(I32_MAX), i32(2))
    assert run(Convert, doubled, dtype=dtype_of_numpy(np.dtype(np.int64))).tolist() == [-2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_propagates(dtype: Any) -> None:
    nan_first, nan_second = np.array([NAN, 1], dtype), np.array([2, NAN], dtype)
    for op in (Maximum, Minimum):
        assert np.isnan(run(op, nan_first, nan_second)).all()
    assert np.isnan(run(Relu, nan_first)).tolist() == [True, False]
    assert np.isnan(run(Sign, nan_first)).tolist() == [True, False]
    for position in range(3):
        operands = [np.array([value], dtype) for value in (0, 1, 2)]
        operands[position][:] = NAN
        assert np.isnan(run(Clamp, *operands)).all()
    for kind in ("max", "min"):
        assert np.isnan(run(Reduce, np.stack([nan_first, nan_second]), axes=(1,), kind=kind)).all()


def test_extremum_positions() -> None:
    x = f32(1, 5, 5, 0, 0)
    assert (run(ArgMax, x, axis=0), run(ArgMin, x, axis=0)) == (1, 3)
    x[2] = x[4] = NAN
    assert (run(ArgMax, x, axis=0), run(ArgMin, x, axis=0)) == (2, 2)
    assert run(ArgMin, np.zeros((0, 3), np.float32), axis=1).shape == (0,)


@pytest.mark.parametrize(("kind", "expected"), [("sum", 0.0), ("prod", 1.0), ("max", -INF), ("min", INF)])
def test_reduction_over_nothing(kind: str, expected: float) -> None:
    assert run(Reduce, np.zeros((2, 0), np.float32), axes=(1,), kind=kind).tolist() == [expected] * 2


def test_shifts_out_of_range() -> None:
    a, by = i32(-5, -5, 5, 5, -5), i32(1, 40, 40, -1, 31)
    assert run(ShiftLeft, a, by).tolist() == [-10, 0, 0, 0, I32_MIN]
    assert run(ShiftRightArithmetic, a, by).tolist() == [-3, -1, 0, 0, -1]
    assert run(ShiftRightArithmetic, np.array([200, 200], np.uint8), np.array([1, 8], np.uint8)).tolist() == [100, 0]


def test_integer_power() -> None:
    base, exponent = i32(3, -3, 2, 0, -1, 1, 7, -1), i32(4, 3, 40, 0, -3, -9, -1, -2)
    assert run(Power, base, exponent).tolist() == [81, -27, 0, 1, -1, 1, 0, 1]


@pytest.mark.parametrize(
    ("length", "start", "count", "step"),
    [(10, 9, 9, -1), (10, 9, 7, -1), (10, 9, 3, -3), (20, 19, 7, -3), (5, 0, 5, 1), (5, 4, 0, -1)],
)
def test_negative_steps(length: int, start: int, count: int, step: int) -> None:
    x = np.arange(length, dtype=np.float32)
    got = run(Slice, x, starts=(start,), sizes=(count,), strides=(step,))
    assert got.tolist() == [start + step * i for i in range(count)]


def test_pad_that_crops_more_than_there_is() -> None:
    x, value = np.arange(4, dtype=np.float32), np.array(9, np.float32)
    assert run(Pad, x, value, low=(-3,), high=(2,)).tolist() == [3, 9, 9]
    assert run(Pad, x, value, low=(-6,), high=(4,)).tolist() == [9, 9]
    assert run(Pad, x, value, low=(4,), high=(-6,)).tolist() == [9, 9]


@pytest.mark.parametrize("index", [2, -1, 2**40])
def test_gather_out_of_range_is_an_error(index: int) -> None:
    g = FunctionBuilder()
    x, indices = np.zeros((2, 3), np.float32), np.array([0, index])
    op = Gather.of(
        g.input(2, 3), g.input(2, dtype=dtype_of_numpy(indices.dtype)),
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 3),
    )  # fmt: skip
    with pytest.raises(IndexOutOfRange, match=str(index)):
        op.reference(x, indices, env={})
    with pytest.raises(IndexOutOfRange, match=str(index)):
        evaluate_pointwise(op, [x, indices], {})


def test_attention_with_hidden_rows() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for _ in range(3))
    mask = np.ones((1, 1, 3, 3), np.bool_)
    mask[0, 0, 1] = False
    result = run(Attention, q, k, v, mask, scale=0.5)
    assert (result[:, :, 1] == 0).all() and (result[:, :, 0] != 0).all()
    assert dtype_of_numpy(mask.dtype) == BOOL
    empty = run(Attention, q, k[:, :, :0], v[:, :, :0], scale=0.5)
    assert (empty == 0).all()


def test_softmax_of_minus_infinity_is_nan() -> None:
    assert np.isnan(run(Softmax, f32(-INF, -INF), axis=0)).all()
