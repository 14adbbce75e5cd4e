"""Elementwise ops against ONNX's evaluator, at many sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    SIZES,
    UINT8,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

UNARY: dict[str, dict[str, Any]] = {
    "Abs": {}, "Ceil": {}, "Celu": {"alpha": 1.5}, "Cos": {}, "Elu": {"alpha": 0.7}, "Erf": {}, "Exp": {}, "Floor": {},
    "Gelu": {"approximate": "tanh"}, "HardSigmoid": {"alpha": 0.3}, "HardSwish": {}, "Identity": {}, "LeakyRelu": {"alpha": 0.2},
    "Mish": {}, "Neg": {}, "Reciprocal": {}, "Relu": {}, "Round": {}, "Selu": {}, "Shrink": {"bias": 0.1, "lambd": 0.4},
    "Sigmoid": {}, "Sign": {}, "Sin": {}, "Sinh": {}, "Softplus": {}, "Softsign": {}, "Tan": {}, "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.3},
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], **UNARY[op])
    model = model_of([node], {"x": (FLOAT, ("b", 3))}, ["y"])
    check(model, *({"x": floats(size, 3)} for size in SIZES))


@pytest.mark.parametrize(
    "op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Less", "Equal", "GreaterOrEqual"]
)
@pytest.mark.parametrize("shape", [("b", 3), (1, 3), (3,), ("c", 3), ()], ids=str)
def test_binary_broadcast(op: str, shape: tuple[int | str, ...]) -> None:
    model = model_of([helper.make_node(op, ["x", "y"], ["z"])], {"x": (FLOAT, ("b", 3)), "y": (FLOAT, shape)}, ["z"])
    for size in SIZES:
        others = {size, 1} if "c" in shape else {size}
        for other in others:
            actual = [{"b": size, "c": other}.get(each, each) for each in shape]
            check(model, {"x": floats(size, 3), "y": floats(*actual, seed=1)})


def test_open_broadcast_compiled() -> None:
    """Two axes of which either may be 1."""
    model = model_of([helper.make_node("Add", ["x", "y"], ["z"])], {"x": (FLOAT, ("a",)), "y": (FLOAT, ("b",))}, ["z"])
    calls = [(4, 4), (1, 4), (4, 1), (1, 1), (0, 1), (1, 0), (0, 0)]
    check_compiled(model, *({"x": floats(a), "y": floats(b, seed=1)} for a, b in calls))


@pytest.mark.parametrize(
    ("lhs", "rhs"), [([7, -7, 7, -7, 2**31 - 1], [3, 3, -3, -3, 2]), ([0, 5, -5, 1, 9], [4, -4, 4, 1, -2])]
)
@pytest.mark.parametrize(("op", "attributes"), [("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})], ids=str)
def test_integer_division(op: str, attributes: dict[str, int], lhs: list[int], rhs: list[int]) -> None:
    """Division is truncated; the remainder has the sign of the divisor, or that of the dividend."""
    model = model_of(
        [helper.make_node(op, ["x", "y"], ["z"], **attributes)], {"x": (INT32, ("n",)), "y": (INT32, ("n",))}, ["z"]
    )
    x, y = np.array(lhs, np.int32), np.array(rhs, np.int32)
    quotient = np.array([int(a / b) for a, b in zip(lhs, rhs, strict=True)], np.int32)
    wanted = quotient if op == "Div" else x - y * quotient if attributes else np.mod(x, y)
    assert_close(interpreted(model, {"x": x, "y": y})[0], wanted)


def test_clip_bounds_by_version() -> None:
    x = floats(5, 3)
    old = model_of(
        [helper.make_node("Clip", ["x"], ["y"], min=-0.5, max=0.5)], {"x": (FLOAT, ("b", 3))}, ["y"], opset=7
    )
    new = model_of(
        [helper.make_node("Clip", ["x", "", "high"], ["y"])], {"x": (FLOAT, ("b", 3))}, ["y"], {"high": np.float32(0.5)}
    )
    check(old, {"x": x})
    check(new, {"x": x})


def test_dropout_mask_by_version() -> None:
    for opset in (7, 10, 13):
        model = model_of(
            [helper.make_node("Dropout", ["x"], ["y", "mask"])], {"x": (FLOAT, ("b",))}, ["y", "mask"], opset=opset
        )
        mask = imported(model).outputs[1]
        assert mask.dtype.name == ("f32" if opset < 10 else "bool")


def test_pow_keeps_the_dtype_of_the_base() -> None:
    model = model_of([helper.make_node("Pow", ["x", "y"], ["z"])], {"x": (FLOAT, ("b",)), "y": (INT64, ("b",))}, ["z"])
    check(model, {"x": np.abs(floats(5)), "y": np.arange(5)})


@pytest.mark.parametrize(
    "target", [TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8]
)
def test_cast(target: int) -> None:
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=target)], {"x": (FLOAT, ("b",))}, ["y"])
    check(model, {"x": np.array([0.0, -0.0, 1.5, -2.7, 100.0], np.float32)})


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("mode", "least"), [("up", 0.5 + 2**-53), ("nearest", 0.75), ("down", 1.0)])
def test_powers_of_two_of_8_bits(mode: str, least: float, saturate: int) -> None:
    """x = m · 2^e with ½ ≤ m < 1 is 2^e from `least` on, else 2^(e−1); what lies outside 2^±127 is the bound, or no number."""
    ends = [2.0**127, 3.4e38, 2.0**-127, 2.0**-128, 2.0**-149, 0.0]
    x = np.array([1, 1.25, 1.5, 2.5, 3, 2**-10 - 2**-30, 2**-126 - 2**-140, *ends], np.float32)
    fraction, exponent = np.frexp(x.astype(np.float64))
    exponent = np.where(x == 0, -1023, exponent - (fraction < least))
    inside = np.clip(exponent, -127, 127)
    wanted = np.where((inside == exponent) | bool(saturate), np.ldexp(1.0, inside), np.nan)
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=24, round_mode=mode, saturate=saturate),
        helper.make_node("Cast", ["y"], ["z"], to=FLOAT),
    ]
    y, z = anyshape.compile(model_of(nodes, {"x": (FLOAT, ("n",))}, ["y", "z"], opset=24))(x)
    np.testing.assert_array_equal(z, wanted)
    np.testing.assert_array_equal(y.view(np.uint8), np.where(np.isnan(wanted), 255, inside + 127))
    special = anyshape.compile(model_of(nodes, {"x": (FLOAT, ("n",))}, ["y", "z"], opset=24))(
        np.float32([np.nan, np.inf])
    )[1]
    np.testing.assert_array_equal(special, [np.nan, 2.0**127 if saturate else np.nan])


def test_where_and_logic() -> None:
    nodes = [
        helper.make_node("Greater", ["x", "y"], ["g"]),
        helper.make_node("Not", ["g"], ["n"]),
        helper.make_node("And", ["n", "m"], ["a"]),
        helper.make_node("Where", ["a", "x", "y"], ["z"]),
    ]
    model = model_of(nodes, {"x": (FLOAT, ("b", 3)), "y": (FLOAT, (3,)), "m": (BOOL, ("b", 1))}, ["z"])
    check(model, *({"x": floats(b, 3), "y": floats(3, seed=1), "m": floats(b, 1, seed=2) > 0} for b in SIZES))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(direction: str) -> None:
    model = model_of(
        [helper.make_node("BitShift", ["x", "y"], ["z"], direction=direction)],
        {"x": (UINT8, ("n",)), "y": (UINT8, ("n",))},
        ["z"],
    )
    check(model, {"x": np.array([1, 200, 255, 7], np.uint8), "y": np.array([1, 3, 7, 0], np.uint8)})


def test_nan_goes_through() -> None:
    x = np.array([np.nan, 1, np.nan, -1], np.float32)
    y = np.array([2, np.nan, np.nan, 0], np.float32)
    for op in ("Max", "Min"):
        model = model_of([helper.make_node(op, ["x", "y"], ["z"])], {"x": (FLOAT, ("n",)), "y": (FLOAT, ("n",))}, ["z"])
        check(model, {"x": x, "y": y})
    relu = model_of([helper.make_node("Relu", ["x"], ["z"])], {"x": (FLOAT, ("n",))}, ["z"])
    check(relu, {"x": x})
