"""A range whose bounds the program computes has as many numbers as the data say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import AnyshapeError
from tests.frontends.onnx.models import INT64, assert_close, expected, model_of

NODE = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
BOUNDS = [(1, 10, 2), (10, 1, -3), (1, 10, -1), (5, 5, 1), (0, 1, 3), (-5, 6, 4)]


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "f4", "f8"])
def test_all_bounds(dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of([NODE], dict.fromkeys(("start", "limit", "delta"), (kind, ())), ["y"])
    program = anyshape.compile(model)
    for bounds in BOUNDS:
        feeds: dict[str, Any] = dict(
            zip(("start", "limit", "delta"), (np.array(each, dtype) for each in bounds), strict=True)
        )
        assert_close(program(**feeds), expected(model, feeds)[0])


def test_the_largest_element_bounds_it() -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["limit"], keepdims=0), NODE, helper.make_node("Neg", ["y"], ["z"])]
    constants = {"start": np.int64(0), "delta": np.int64(2)}
    program = anyshape.compile(model_of(nodes, {"x": (INT64, ("n",))}, ["z"], constants))
    for largest in (-3, 0, 1, 8, 1001):
        assert_close(program(np.array([largest, -5])), -np.arange(0, max(largest, 0), 2))


def test_a_step_of_zero_is_an_error() -> None:
    program = anyshape.compile(model_of([NODE], dict.fromkeys(("start", "limit", "delta"), (INT64, ())), ["y"]))
    with pytest.raises(AnyshapeError):
        program(np.int64(0), np.int64(3), np.int64(0))
    assert_close(program(np.int64(0), np.int64(3), np.int64(1)), np.arange(3))
