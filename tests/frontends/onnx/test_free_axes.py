"""Axes with few possible sizes, such as parts of complex numbers, that are left free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import GuardError
from tests.frontends.onnx.models import FLOAT, INT64, check, check_compiled, floats, imported, interpreted, model_of


@pytest.mark.parametrize("inverse", [0, 1])
def test_parts_of_numbers(inverse: int) -> None:
    """Real and complex numbers by one graph."""
    node = helper.make_node("DFT", ["x"], ["y"], inverse=inverse)
    graph = imported(model_of([node], {"x": (FLOAT, ("n", "s", "parts"))}, ["y"]))
    for parts in (1, 2):
        x = floats(2, 5, parts)
        whole = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        wanted = (np.fft.ifft if inverse else np.fft.fft)(whole, axis=1)
        (got,) = interpreted(graph, {"x": x})
        np.testing.assert_allclose(got, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-5)


def test_components_of_index_vectors() -> None:
    """The axes of the updates say how many there are."""
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    inputs = {"x": (FLOAT, ("a", "b", "c")), "i": (INT64, ("k", "parts")), "u": (FLOAT, ("k", "c"))}
    model = model_of([node], inputs, ["y"])
    feeds = {"x": floats(3, 2, 4), "i": np.array([[2, 1], [0, -1]]), "u": floats(2, 4)}
    check(model, feeds)
    check_compiled(model, feeds)


def test_channels_of_transposed_convolutions() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2, strides=[2])
    inputs = {"x": (FLOAT, ("n", "c", "s")), "w": (FLOAT, ("c", "o", "k"))}
    graph = imported(model_of([node], inputs, ["y"]))
    for channels in (2, 6):
        x, w, half = floats(1, channels, 4), floats(channels, 3, 3), channels // 2
        wanted = np.zeros((1, 6, 9))
        for group, place, tap in np.ndindex(2, 4, 3):
            own = slice(half * group, half * (group + 1))
            wanted[0, 3 * group : 3 * group + 3, 2 * place + tap] += x[0, own, place] @ w[own, :, tap]
        np.testing.assert_allclose(interpreted(graph, {"x": x, "w": w})[0], wanted, rtol=1e-4, atol=1e-5)


def test_rows_of_matrices() -> None:
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"], align_corners=1)
    model = model_of([node], {"theta": (FLOAT, ("n", "r", "c")), "size": (INT64, (4,))}, ["y"])
    feeds: dict[str, Any] = {"theta": floats(2, 2, 3), "size": np.array([2, 3, 4, 5])}
    check(model, feeds)


@pytest.mark.parametrize("channels", ["c", 4])
@pytest.mark.parametrize("has_past", [False, True])
def test_causal_convolution(channels: Any, has_past: bool) -> None:
    names = ["x", "w", "bias", "past"] if has_past else ["x", "w"]
    node = helper.make_node("CausalConvWithState", names, ["y", "state"], activation="silu")
    sizes = {
        "x": ("n", channels, "s"), "w": (channels, 1, "k"), "bias": (channels,), "past": ("n", channels, "k - 1")
    }  # fmt: skip
    model = model_of([node], {name: (FLOAT, sizes[name]) for name in names}, ["y", "state"], opset=27)
    graph = imported(model)
    for length, taps in ((7, 3), (1, 4), (2, 1)):
        x, w = floats(2, 4, length), floats(4, 1, taps)
        bias = floats(4) if has_past else np.zeros(4, np.float32)
        past = floats(2, 4, taps - 1) if has_past else np.zeros((2, 4, taps - 1), np.float32)
        whole = np.concatenate([past, x], 2)
        y = sum(whole[:, :, j : j + length] * w[:, 0, j, None] for j in range(taps)) + bias[:, None]
        feeds = dict(zip(names, (x, w, bias, past), strict=False))
        got = interpreted(graph, feeds)
        np.testing.assert_allclose(got[0], y / (1 + np.exp(-y)), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(got[1], whole[:, :, length:])


def test_a_third_part_is_refused() -> None:
    node = helper.make_node("DFT", ["x"], ["y"])
    program = anyshape.compile(model_of([node], {"x": (FLOAT, ("n", "s", "parts"))}, ["y"]))
    with pytest.raises(GuardError, match="DFT"):
        program(floats(2, 5, 3))
