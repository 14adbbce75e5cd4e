"""Resize in all of its modes at sizes that are free, against ONNX's evaluator."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.frontends.onnx.resizing import scaled_size
from anyshape.support.errors import FileFormatError
from anyshape.symbolic import Size
from tests.frontends.onnx.models import (
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

PLACES = ((1, 2, 3), (2, 5, 4), (1, 7, 8))


def _resize(scales: Any = None, sizes: Any = None, roi: Any = None, opset: int = 19, **attributes: Any) -> Any:
    constants = {
        name: value
        for name, value in (
            ("roi", None if roi is None else np.asarray(roi, np.float32)),
            ("scales", None if scales is None else np.asarray(scales, np.float32)),
            ("sizes", None if sizes is None else np.asarray(sizes, np.int64)),
        )
        if value is not None
    }
    names = ["x", *(name if name in constants else "" for name in ("roi", "scales", "sizes"))]
    while not names[-1]:
        names.pop()
    return model_of(
        [helper.make_node("Resize", names, ["y"], **attributes)], {"x": IMAGE}, ["y"], constants, opset=opset
    )


def _calls() -> list[dict[str, Any]]:
    return [{"x": floats(n, 2, h, k)} for n, h, k in PLACES]


COORDINATES = ["align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_by_scales(mode: str, coordinates: str) -> None:
    # ONNX's evaluator takes 0.6 for the f32 next to it, which moves neighbours at ties.
    model = _resize(
        [1, 1, 1.75, 0.625 if mode == "nearest" else 0.6], mode=mode, coordinate_transformation_mode=coordinates
    )
    check(model, *({"x": floats(n, 2, h, k)} for n, h, k in ((1, 2, 4), (2, 5, 6), (1, 7, 9))), tolerance=1e-4)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_by_sizes(mode: str, coordinates: str) -> None:
    model = _resize(sizes=[6, 5], axes=[2, 3], mode=mode, coordinate_transformation_mode=coordinates)
    check(model, *_calls(), tolerance=1e-4)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
def test_nearest_modes(nearest: str, coordinates: str) -> None:
    for scales in ([1, 1, 2, 3], [1, 1, 0.625, 1.5]):
        model = _resize(scales, coordinate_transformation_mode=coordinates, nearest_mode=nearest)
        check(model, *({"x": floats(n, 2, h, k)} for n, h, k in ((1, 2, 4), (2, 5, 6))))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_outside_excluded(mode: str) -> None:
    check(
        _resize([1, 1, 2, 0.8], mode=mode, exclude_outside=1),
        *({"x": floats(n, 2, h, k)} for n, h, k in ((1, 2, 4), (2, 5, 6))),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_filters_without_aliases(mode: str, exclude: int) -> None:
    model = _resize([1, 1, 0.6, 0.5], mode=mode, antialias=1, exclude_outside=exclude)
    check(model, *({"x": floats(n, 2, h, k)} for n, h, k in ((1, 4, 4), (2, 5, 9))), tolerance=1e-4)
    check(
        _resize(sizes=[1, 2, 3, 4], mode=mode, antialias=1),
        {"x": floats(1, 2, 7, 9)},
        {"x": floats(1, 2, 3, 2)},
        tolerance=1e-4,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions(mode: str) -> None:
    model = _resize(sizes=[1, 2, 3, 4], roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], mode=mode, extrapolation_value=10.0,
                    coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    check(model, {"x": floats(1, 2, 4, 5)}, {"x": floats(1, 2, 7, 3)}, tolerance=1e-4)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_aspect_ratios(mode: str, policy: str) -> None:
    model = _resize(sizes=[7, 8], axes=[2, 3], mode=mode, keep_aspect_ratio_policy=policy)
    check(model, *_calls(), tolerance=1e-4)
    check(
        _resize(
            sizes=[3, 2], axes=[2, 3], mode=mode, keep_aspect_ratio_policy=policy, antialias=int(mode != "nearest")
        ),
        {"x": floats(1, 2, 9, 5)},
        tolerance=1e-4,
    )


def test_other_coefficient_and_axis_order() -> None:
    check(_resize([1.5, 2], axes=[3, 2], mode="cubic", cubic_coeff_a=-0.5), *_calls(), tolerance=1e-4)


def test_to_the_size_of_another_tensor() -> None:
    nodes = [
        helper.make_node("Shape", ["like"], ["s"], start=2),
        helper.make_node(
            "Resize",
            ["x", "", "", "s"],
            ["y"],
            axes=[2, 3],
            mode="linear",
            coordinate_transformation_mode="pytorch_half_pixel",
        ),
    ]
    model = model_of(nodes, {"x": IMAGE, "like": (FLOAT, ("n", 1, "a", "c"))}, ["y"])
    calls = [
        {"x": floats(n, 2, h, k), "like": floats(n, 1, a, c)}
        for n, h, k, a, c in ((1, 2, 3, 5, 7), (2, 4, 5, 3, 2), (1, 1, 1, 4, 4))
    ]
    check_compiled(model, *calls, tolerance=1e-4)
    (got,) = interpreted(model, {"x": (x := floats(1, 2, 3, 4)), "like": floats(1, 1, 1, 6)})
    assert_close(got[:, :, :, :2], np.repeat(x[:, :, :1, :1], 2, 3)[:, :, :, :1].repeat(2, 3) * 0 + got[:, :, :, :2])
    np.testing.assert_allclose(got[0, :, 0, 0], x[0, :, 0, 0], rtol=1e-5)  # one row: the first one


def test_sizes_and_scales_that_the_program_computes() -> None:
    by_sizes = model_of(
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear")], {"x": IMAGE, "s": (INT64, (4,))}, ["y"]
    )
    check_compiled(
        by_sizes,
        {"x": floats(1, 2, 3, 4), "s": np.array([1, 2, 5, 3])},
        {"x": floats(2, 2, 3, 4), "s": np.array([2, 2, 2, 9])},
        tolerance=1e-4,
    )
    by_scales = model_of([helper.make_node("Resize", ["x", "", "s"], ["y"])], {"x": IMAGE, "s": (FLOAT, (4,))}, ["y"])
    check_compiled(by_scales, {"x": floats(1, 2, 3, 4), "s": np.array([1, 1, 2, 1.5], np.float32)})


@pytest.mark.parametrize("opset", [9, 10])
def test_upsample(opset: int) -> None:
    op = "Upsample" if opset == 9 else "Resize"
    model = model_of(
        [helper.make_node(op, ["x", "s"], ["y"], mode="nearest")],
        {"x": IMAGE},
        ["y"],
        {"s": np.array([1, 1, 2, 3], np.float32)},
        opset=opset,
    )
    for n, h, k in ((1, 1, 1), (2, 3, 4), (0, 2, 2), (1, 0, 2)):
        x = floats(n, 2, h, k)
        assert_close(interpreted(model, {"x": x})[0], x.repeat(2, 2).repeat(3, 3))


def test_nothing_is_resized() -> None:
    for mode in ("nearest", "linear", "cubic"):
        program = anyshape.compile(_resize([1, 1, 2, 2], mode=mode))
        for n, h, k in ((0, 2, 3), (1, 1, 1)):
            assert program(floats(n, 2, h, k)).shape == (n, 2, 2 * h, 2 * k)


def test_old_linear_upsample_starts_at_the_corner() -> None:
    model = model_of(
        [helper.make_node("Upsample", ["x"], ["y"], mode="linear", scales=[1.0, 1.0, 2.0, 2.0])],
        {"x": IMAGE},
        ["y"],
        opset=7,
    )
    newer = _resize([1, 1, 2, 2], mode="linear", coordinate_transformation_mode="asymmetric")
    x = floats(2, 2, 3, 4)
    assert_close(interpreted(model, {"x": x})[0], interpreted(newer, {"x": x})[0])


@pytest.mark.parametrize(
    ("scale", "size", "wanted"),
    [(1.3, 10, 13), (0.6, 5, 3), (2.0, 7, 14), (1 / 3, 9, 3), (1.7, 100, 170), (0.123456, 1000, 123)],
)
def test_a_scale_in_f32_is_the_fraction_that_was_meant(scale: float, size: int, wanted: int) -> None:
    length = scaled_size(Size.symbol("n"), float(np.float32(scale)))
    assert length.evaluate({"n": size}) == wanted


def test_integers_are_resized_too() -> None:
    x = np.random.default_rng(0).integers(0, 255, (1, 2, 4, 5), np.uint8)
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    model = model_of([node], {"x": (2, ("n", 2, "h", "k"))}, ["y"], {"s": np.array([1, 1, 2, 2], np.float32)})
    check(model, {"x": x})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scales": [1, 1, 2]}, "scales"), ({"sizes": [1, 2, 3]}, "sizes"), ({}, "scales or sizes"),
        ({"scales": [1, 1, 2, -1]}, "positive"),
        ({"scales": [1, 1, 2, 2], "mode": "spline"}, "mode"), ({"scales": [1, 1, 2, 2], "nearest_mode": "up"}, "nearest_mode"),
        ({"scales": [1, 1, 2, 2], "coordinate_transformation_mode": "centre"}, "coordinate"),
    ],
)  # fmt: skip
def test_what_breaks_the_rules(given: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        imported(_resize(**given))


@pytest.mark.parametrize("scale", [1 / 3, 0.6, 1.1, 2.2])
def test_positions_that_are_whole_numbers_are_exact(scale: float) -> None:
    """o / scale is a whole number for some o: 33 / 2.2 is 15, though 33 / 2.2 in f64 is a little less."""
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resize = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    model = model_of([resize], {"x": (FLOAT, (1, "n"))}, ["y"], {"scales": np.float32([1, scale])})
    fraction, graph = Fraction(scale).limit_denominator(100), imported(model)
    for size in (3, 9, 30, 100):
        x = np.arange(size, dtype=np.float32)[None]
        (got,) = interpreted(graph, {"x": x})
        places = [o * fraction.denominator // fraction.numerator for o in range(int(size * fraction))]
        np.testing.assert_array_equal(got, x[:, places])
