"""Sampling, transforms and determinants at sizes that are free, against ONNX's evaluator and numpy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.support.errors import FileFormatError
from tests.frontends.onnx.models import (
    DOUBLE,
    FLOAT,
    IMAGE,
    INT64,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [*product(["linear", "nearest", "cubic"], ["zeros", "border", "reflection"], [0, 1])],
)
def test_grid_sample(mode: str, padding: str, corners: int) -> None:
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=corners)
    model = model_of([node], {"x": IMAGE, "g": (FLOAT, ("n", "a", "c", 2))}, ["y"])
    check(model, {"x": floats(2, 2, 4, 5), "g": floats(2, 3, 2, 2) * np.float32(0.9)}, tolerance=1e-3)


def test_grid_sample_of_volumes_and_old_names() -> None:
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="linear", align_corners=1)
    model = model_of([node], {"x": (FLOAT, ("n", 2, "d", "h", "k")), "g": (FLOAT, ("n", "a", "c", "e", 3))}, ["y"])
    check(model, {"x": floats(1, 2, 3, 4, 2), "g": floats(1, 2, 2, 3, 3)}, tolerance=1e-3)
    old = model_of(
        [helper.make_node("GridSample", ["x", "g"], ["y"], mode="bilinear")],
        {"x": IMAGE, "g": (FLOAT, ("n", "a", "c", 2))},
        ["y"],
        opset=16,
    )
    new = model_of(
        [helper.make_node("GridSample", ["x", "g"], ["y"], mode="linear")],
        {"x": IMAGE, "g": (FLOAT, ("n", "a", "c", 2))},
        ["y"],
    )
    feeds = {"x": floats(1, 2, 3, 3), "g": floats(1, 2, 2, 2)}
    assert_close(interpreted(old, feeds)[0], interpreted(new, feeds)[0])


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("spatial", [(4, 5), (3, 2, 4)])
def test_affine_grid(spatial: tuple[int, ...], corners: int) -> None:
    node = helper.make_node("AffineGrid", ["t", "s"], ["y"], align_corners=corners)
    model = model_of(
        [node], {"t": (FLOAT, ("n", len(spatial), len(spatial) + 1))}, ["y"], {"s": np.array((2, 3, *spatial))}
    )
    check(model, {"t": floats(2, len(spatial), len(spatial) + 1)}, tolerance=1e-4)


def test_center_crop_pad() -> None:
    node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=[2, 3])
    model = model_of([node], {"x": IMAGE}, ["y"], {"s": np.array([4, 5])})
    check_compiled(model, *({"x": floats(1, 2, h, k)} for h, k in ((4, 5), (7, 2), (1, 8), (6, 6))))


# -- transforms ----------------------------------------------------------------------------------------------------------


def _dft(opset: int = 20, axis: int = 1, parts: int = 1, length: int | None = None, **attributes: Any) -> Any:
    constants: dict[str, Any] = {} if length is None else {"l": np.array(length)}
    names = ["x", "" if length is None else "l"]
    if opset >= 20:
        names, constants["a"] = [*names, "a"], np.array(axis)
    else:
        attributes["axis"] = axis
    return model_of(
        [helper.make_node("DFT", names, ["y"], **attributes)],
        {"x": (FLOAT, ("n", "s", 3, parts))},
        ["y"],
        constants,
        opset=opset,
    )


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "attributes", [{}, {"inverse": 1}, {"onesided": 1}, {"length": 6}, {"length": 3, "onesided": 1}]
)
def test_transforms(attributes: dict[str, Any], parts: int, opset: int) -> None:
    if parts == 2 and "onesided" in attributes:
        attributes = {**attributes, "inverse": 1}
        graph = imported(_dft(20, 1, parts, **attributes))
        for n, s in ((1, 2), (2, 5)):
            x = floats(n, s, 3, 2)
            x[:, 0, :, 1] = 0  # what is its own mirror image is real
            length = attributes.get("length", 2 * (s - 1))
            wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, 1)[..., None]
            if length // 2 < s and length % 2 == 0:
                x[:, length // 2, :, 1] = 0
            assert_close(interpreted(graph, {"x": x})[0], wanted.astype(np.float32), 1e-4)
        return
    graph = imported(_dft(opset, 1, parts, **attributes))
    for n, s in ((1, 1), (2, 4), (3, 7)):
        x = floats(n, s, 3, parts)
        signal = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
        length = attributes.get("length", s)
        wanted = (np.fft.ifft if attributes.get("inverse") else np.fft.fft)(signal, length, 1)
        if attributes.get("onesided"):
            wanted = wanted[:, : length // 2 + 1]
        assert_close(interpreted(graph, {"x": x})[0], np.stack([wanted.real, wanted.imag], -1).astype(np.float32), 1e-4)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_short_transforms(windowed: bool, onesided: int) -> None:
    constants = {"step": np.array(3), **({"w": floats(8)} if windowed else {"l": np.array(8)})}
    names = ["x", "step", "w"] if windowed else ["x", "step", "", "l"]
    model = model_of(
        [helper.make_node("STFT", names, ["y"], onesided=onesided)], {"x": (FLOAT, ("n", "s", 1))}, ["y"], constants
    )
    check_compiled(model, *({"x": floats(n, s, 1)} for n, s in ((1, 8), (2, 16), (3, 21))), tolerance=1e-3)


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(op: str, periodic: int) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Squeeze", ["s"], ["n"])]
    nodes.append(helper.make_node(op, ["n"], ["y"], periodic=periodic))
    graph = imported(model_of(nodes, {"x": (FLOAT, ("m",))}, ["y"]))
    fixed = {
        size: model_of(
            [helper.make_node(op, ["n"], ["y"], periodic=periodic)], {}, ["y"], {"n": np.array(size, np.int32)}
        )
        for size in (2, 7, 10)
    }
    for size, model in fixed.items():
        check(model, {}, tolerance=1e-4)
        assert_close(interpreted(graph, {"x": floats(size)})[0], interpreted(model, {})[0])


def test_mel_weights() -> None:
    constants = {
        "bins": np.array(8), "length": np.array(16), "rate": np.array(8192), "low": np.float32(0), "high": np.float32(4096),
    }  # fmt: skip
    check(model_of([helper.make_node("MelWeightMatrix", list(constants), ["y"])], {}, ["y"], constants), {})


@pytest.mark.parametrize("code", [FLOAT, DOUBLE])
def test_determinants(code: int) -> None:
    model = model_of([helper.make_node("Det", ["x"], ["y"])], {"x": (code, ("b", "n", "n"))}, ["y"])
    dtype = np.float32 if code == FLOAT else np.float64
    for b, n in ((1, 1), (3, 4), (2, 0), (0, 2)):
        x = floats(b, n, n, dtype=dtype)
        assert_close(interpreted(model, {"x": x})[0], np.linalg.det(x), 1e-4)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Det", ["v"], ["y"]), "matrices"), (helper.make_node("GridSample", ["x", "v"], ["y"]), "grid"),
        (helper.make_node("GridSample", ["x", "x"], ["y"], mode="spline"), "mode"), (helper.make_node("DFT", ["x"], ["y"]), "last axis"),
    ],
)  # fmt: skip
def test_what_breaks_the_rules(node: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        imported(model_of([node], {"x": (FLOAT, (1, 2, "h", 5)), "v": (INT64, ("m",))}, ["y"]))


def test_shapes_that_the_program_is_given() -> None:
    crop = model_of(
        [helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=[2, 3])], {"x": IMAGE, "s": (INT64, (2,))}, ["y"]
    )
    check_compiled(crop, *({"x": floats(1, 2, 5, 4), "s": np.array(sizes)} for sizes in ((4, 5), (9, 1))))
    grid = model_of(
        [helper.make_node("AffineGrid", ["t", "s"], ["y"])], {"t": (FLOAT, ("n", 2, 3)), "s": (INT64, (4,))}, ["y"]
    )
    check(grid, {"t": floats(2, 2, 3), "s": np.array([2, 3, 4, 5])}, tolerance=1e-4)
