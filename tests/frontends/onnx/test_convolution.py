"""Convolutions at any batch, height and width: one program for each set of attributes, against ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError, GuardError
from tests.frontends.onnx.models import (
    FLOAT,
    INT64,
    assert_close,
    check,
    check_compiled,
    expected,
    floats,
    imported,
    interpreted,
    model_of,
)

PLACES = ((1, 5, 6), (2, 7, 3), (3, 9, 12))


def _conv(
    weight: tuple[int, ...], channels: int, spatial: int = 2, bias: bool = True, op: str = "Conv", **attributes: Any
) -> Any:
    outputs = weight[1] * attributes.get("group", 1) if op == "ConvTranspose" else weight[0]
    constants = {"w": floats(*weight), **({"b": floats(outputs)} if bias else {})}
    shape = ("n", channels, *("d", "h", "w_")[3 - spatial :])
    return model_of(
        [helper.make_node(op, ["x", *constants], ["y"], **attributes)], {"x": (FLOAT, shape)}, ["y"], constants
    )


CONVOLUTIONS: dict[str, Any] = {
    "plain": ((4, 3, 3, 3), 3, {}),
    "padded": ((4, 3, 3, 3), 3, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "asymmetric": ((4, 3, 3, 2), 3, {"pads": [2, 0, 1, 1], "kernel_shape": [3, 2]}),
    "dilated": ((4, 3, 2, 2), 3, {"dilations": [2, 3], "pads": [1, 1, 1, 1]}),
    "grouped": ((4, 2, 3, 3), 4, {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((4, 1, 3, 3), 4, {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "upper": ((4, 3, 3, 3), 3, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "lower": ((4, 3, 2, 4), 3, {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    "valid": ((4, 3, 3, 3), 3, {"auto_pad": "VALID", "strides": [2, 1]}),
    "point": ((4, 3, 1, 1), 3, {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    weight, channels, attributes = CONVOLUTIONS[name]
    model = _conv(weight, channels, **attributes)
    check_compiled(model, *({"x": floats(n, channels, h, w)} for n, h, w in PLACES), tolerance=1e-4)


def test_no_batch_and_no_places() -> None:
    for attributes in ({"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"}):
        program = anyshape.compile(_conv((4, 3, 3, 3), 3, **attributes))
        for n, h, w in ((0, 4, 4), (2, 0, 3), (1, 1, 1)):
            assert program(floats(n, 3, h, w)).shape == (n, 4, h, w)


@pytest.mark.parametrize(("weight", "spatial"), [((4, 3, 3), 1), ((2, 3, 2, 3, 2), 3)])
def test_other_ranks(weight: tuple[int, ...], spatial: int) -> None:
    model = _conv(weight, 3, spatial, pads=[1] * (2 * spatial), strides=[2] * spatial)
    check(model, *({"x": floats(2, 3, *(size + axis for axis in range(spatial)))} for size in (3, 6)), tolerance=1e-4)


def test_filters_that_the_program_computes() -> None:
    model = model_of(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        {"x": (FLOAT, ("n", 3, "h", "k")), "w": (FLOAT, (4, 3, 3, 3))}, ["y"],
    )  # fmt: skip
    check_compiled(model, {"x": floats(2, 3, 5, 4), "w": floats(4, 3, 3, 3)}, tolerance=1e-4)


def test_windows_that_do_not_fit_are_an_error_of_the_call() -> None:
    model = _conv((4, 3, 5, 5), 3)
    graph = imported(model)
    assert interpreted(graph, {"x": floats(1, 3, 5, 6)})[0].shape == (1, 4, 1, 2)
    with pytest.raises(GuardError, match=r"Conv|size"):
        anyshape.compile(model)(floats(1, 3, 2, 6))


@pytest.mark.parametrize(
    ("weight", "channels", "attributes", "message"),
    [
        ((4, 2, 3, 3), 3, {}, "channels"),
        ((4, 3, 3, 3), 3, {"kernel_shape": [2, 2]}, "window"),
        ((4, 3, 3), 3, {}, "axes"),
        ((4, 3, 3, 3), 3, {"strides": [0, 1]}, "strides"),
        ((4, 3, 3, 3), 3, {"pads": [1, 1]}, "pads"),
        ((4, 3, 3, 3), 3, {"auto_pad": "SAME"}, "auto_pad"),
        ((5, 2, 3, 3), 4, {"group": 2}, "groups"),
    ],
)
def test_what_breaks_the_rules(
    weight: tuple[int, ...], channels: int, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FileFormatError, match=message):
        imported(_conv(weight, channels, bias=False, **attributes))


TRANSPOSED: dict[str, Any] = {
    "plain": ((3, 4, 3, 3), 3, {}),
    "strided": ((3, 4, 3, 3), 3, {"strides": [3, 2]}),
    "unet": ((3, 4, 2, 2), 3, {"strides": [2, 2]}),
    "tiles": ((3, 4, 2, 3), 3, {"strides": [2, 3]}),
    "gan": ((3, 4, 4, 4), 3, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output_padding": ((3, 4, 3, 3), 3, {"strides": [3, 2], "output_padding": [2, 1], "pads": [1, 1, 1, 1]}),
    "dilated": ((3, 4, 2, 2), 3, {"dilations": [2, 2], "strides": [2, 1]}),
    "same_upper": ((3, 4, 3, 3), 3, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same_lower": ((3, 4, 4, 3), 3, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "asymmetric": ((3, 4, 3, 3), 3, {"strides": [2, 2], "pads": [1, 0, 2, 1]}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str) -> None:
    weight, channels, attributes = TRANSPOSED[name]
    model = _conv(weight, channels, op="ConvTranspose", **attributes)
    calls = [{"x": floats(n, channels, h, w)} for n, h, w in ((1, 3, 2), (2, 1, 4))]
    (check_compiled if name in ("unet", "output_padding") else check)(model, *calls, tolerance=1e-4)


@pytest.mark.parametrize("window", [2, 3])
def test_transposed_groups(window: int) -> None:
    """ONNX's evaluator is wrong for groups of several channels; each group by itself is right."""
    weight, x = floats(4, 2, window, window), floats(2, 4, 3, 2)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], group=2)
    model = model_of([node], {"x": (FLOAT, ("n", 4, "h", "k"))}, ["y"], {"w": weight})
    parts = []
    for group in (slice(0, 2), slice(2, 4)):
        single = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
        alone = model_of([single], {"x": (FLOAT, ("n", 2, "h", "k"))}, ["y"], {"w": weight[group]})
        parts.append(expected(alone, {"x": x[:, group]})[0])
    assert_close(interpreted(model, {"x": x})[0], np.concatenate(parts, 1), 1e-4)


def test_output_shape_of_a_transposed_convolution() -> None:
    model = _conv((3, 4, 3, 3), 3, op="ConvTranspose", strides=[3, 2], output_shape=[10, 8])
    check(model, {"x": floats(1, 3, 3, 3)}, tolerance=1e-4)


@pytest.mark.parametrize(("group", "offset_group", "masked"), [(1, 1, False), (2, 2, True)])
def test_deformed_convolution(group: int, offset_group: int, masked: bool) -> None:
    weight = floats(4, 4 // group, 3, 3)
    inputs: dict[str, Any] = {"x": (FLOAT, ("n", 4, "h", "k")), "o": (FLOAT, ("n", 18 * offset_group, "h2", "k2"))}
    if masked:
        inputs["m"] = (FLOAT, ("n", 9 * offset_group, "h2", "k2"))
    names = ["x", "w", "o", "b", *(["m"] if masked else [])]
    node = helper.make_node(
        "DeformConv",
        names,
        ["y"],
        group=group,
        offset_group=offset_group,
        pads=[1, 1, 1, 1],
        strides=[2, 1],
        kernel_shape=[3, 3],
    )
    model = model_of([node], inputs, ["y"], {"w": weight, "b": floats(4)})
    feeds = {"x": floats(2, 4, 5, 4), "o": floats(2, 18 * offset_group, 3, 4), "m": floats(2, 9 * offset_group, 3, 4)}
    check(model, {name: feeds[name] for name in inputs}, tolerance=1e-3)


def test_columns_to_image() -> None:
    node = helper.make_node("Col2Im", ["x", "i", "k"], ["y"], pads=[1, 0, 0, 1], strides=[2, 1], dilations=[1, 2])
    constants = {"i": np.array([5, 6]), "k": np.array([2, 3])}
    model = model_of([node], {"x": (FLOAT, ("n", 12, "l"))}, ["y"], constants)
    check(model, {"x": floats(2, 12, 9)}, tolerance=1e-4)
    assert INT64


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 3e-3), (np.float32, 1e-6)])
def test_points_that_are_not_moved_lie_on_elements(dtype: Any, tolerance: float) -> None:
    """A deformed convolution with offsets of 0 is a convolution, also far from the start of an axis."""
    nodes = [
        helper.make_node("DeformConv", ["x", "w", "o"], ["y"], pads=[1, 1, 1, 1], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["x", "w"], ["z"], pads=[1, 1, 1, 1]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = {"x": (kind, ("n", 2, "h", "k")), "w": (kind, (3, 2, 2, 2)), "o": (kind, ("n", 8, "h + 1", "k + 1"))}
    graph = imported(model_of(nodes, inputs, ["y", "z"], opset=22))
    x, w = floats(1, 2, 3, 100, dtype=dtype), floats(3, 2, 2, 2, dtype=dtype)
    y, z = interpreted(graph, {"x": x, "w": w, "o": np.zeros((1, 8, 4, 101), dtype)})
    np.testing.assert_allclose(y.astype(np.float64), z.astype(np.float64), rtol=tolerance, atol=tolerance)
