"""TopK, and ops whose results are as long as the data say, at sizes that are free, against ONNX's evaluator and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError, GuardError
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT64,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(axis: int, largest: int) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)
    model = model_of([node], {"x": (FLOAT, ("a", "c", "e"))}, ["v", "i"], {"k": np.array([2])})
    check(model, *({"x": np.round(floats(*shape))} for shape in ((4, 5, 3), (2, 2, 2), (7, 2, 9))))


def test_top_k_of_old_models_and_of_sizes() -> None:
    old = model_of([helper.make_node("TopK", ["x"], ["v", "i"], k=2)], {"x": (FLOAT, ("a", "c"))}, ["v", "i"], opset=9)
    x = floats(3, 5)
    values, places = interpreted(old, {"x": x})
    order = np.argsort(-x, 1, kind="stable")[:, :2]
    np.testing.assert_array_equal(places, order)
    assert_close(values, np.take_along_axis(x, order, 1))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1), helper.make_node("Min", ["s", "five"], ["k"]),
        helper.make_node("TopK", ["x", "k"], ["v", "i"]),
    ]  # fmt: skip
    model = model_of(nodes, {"x": (FLOAT, ("a", "c"))}, ["v", "i"], {"five": np.array([5])})
    check_compiled(model, {"x": floats(2, 3)}, {"x": floats(2, 9)})


def test_top_k_of_a_number_that_the_program_is_given() -> None:
    model = model_of(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"])], {"x": (FLOAT, ("a", "c")), "k": (INT64, (1,))}, ["v", "i"]
    )
    x = floats(3, 7)
    check_compiled(model, {"x": x, "k": np.array([2])}, {"x": x, "k": np.array([7])})
    with pytest.raises(GuardError):
        anyshape.compile(model)(x=x, k=np.array([8]))


@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 3, 4), (0, 3)])
def test_non_zero(shape: tuple[int, ...]) -> None:
    sizes = ("a", "c", "e")[: len(shape)]
    model = model_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": (FLOAT, sizes)}, ["y"])
    x = floats(*shape) * (RANDOM.random(shape) < 0.5)
    check_compiled(model, {"x": x.astype(np.float32)})


def test_what_follows_a_size_of_the_data() -> None:
    nodes = [
        helper.make_node("NonZero", ["m"], ["p"]), helper.make_node("Transpose", ["p"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "t"], ["g"]), helper.make_node("ReduceSum", ["g"], ["y"], keepdims=0),
    ]  # fmt: skip
    model = model_of(nodes, {"x": (FLOAT, ("a", "c")), "m": (BOOL, ("a", "c"))}, ["g", "y"])
    check_compiled(
        model,
        *({"x": floats(*shape), "m": RANDOM.random(shape) < 0.4} for shape in ((3, 4), (1, 1), (9, 7))),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("sorted_", [0, 1])
def test_unique_elements(sorted_: int) -> None:
    model = model_of(
        [helper.make_node("Unique", ["x"], list("yicn"), sorted=sorted_)], {"x": (FLOAT, ("m",))}, list("yicn")
    )
    for row in ([2, 1, 1, 3, 4, 3], [5], [np.nan, 1, np.nan, 0]):
        x = np.array(row, np.float32)
        values, first, inverse, counts = np.unique(x, True, True, True)
        if not sorted_:
            order = np.argsort(first)
            values, first, counts = values[order], first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        for got, wanted in zip(interpreted(model, {"x": x}), (values, first, inverse, counts), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_unique_slices(axis: int) -> None:
    model = model_of(
        [helper.make_node("Unique", ["x"], list("yicn"), axis=axis)], {"x": (FLOAT, ("a", "c", 2))}, list("yicn")
    )
    check_compiled(model, *({"x": RANDOM.integers(0, 2, shape).astype(np.float32)} for shape in ((6, 2, 2), (3, 5, 2))))


# -- boxes ---------------------------------------------------------------------------------------------------------------


def _suppression(*given: str, center: int = 0) -> Any:
    names = ["b", "s", *given]
    inputs: dict[str, Any] = {
        "b": (FLOAT, ("n", "m", 4)), "s": (FLOAT, ("n", "c", "m")), "most": (INT64, (1,)), "iou": (FLOAT, (1,)), "score": (FLOAT, (1,)),
    }  # fmt: skip
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=center)
    return model_of([node], {name: inputs[name] for name in names if name}, ["y"])


def _boxes(batch: int, classes: int, count: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    corners = random.random((batch, count, 2)) * 4
    boxes = np.concatenate([corners, corners + random.random((batch, count, 2)) * 2 - 0.2], -1)
    scores = np.round(random.random((batch, classes, count)), 1)  # equal ones, too
    return {"b": boxes.astype(np.float32), "s": scores.astype(np.float32)}


@pytest.mark.parametrize("center", [0, 1])
def test_suppression(center: int) -> None:
    model = _suppression("most", "iou", "score", center=center)
    calls = []
    for number, (batch, classes, count) in enumerate(((1, 1, 6), (2, 3, 40), (1, 2, 1), (1, 4, 100))):
        limits = {"most": np.array([(3, 10, 1, 100)[number]]), "iou": np.float32([0.3]), "score": np.float32([0.35])}
        calls.append({**_boxes(batch, classes, count, number), **limits})
    check_compiled(model, *calls)


def test_suppression_without_thresholds() -> None:
    all_scores, given = _suppression("most", "iou"), {**_boxes(2, 2, 12, 5), "most": np.array([4])}
    check(all_scores, {**given, "iou": np.float32([0.4])})
    np.testing.assert_array_equal(
        interpreted(_suppression("most"), given)[0], interpreted(all_scores, {**given, "iou": np.float32([0])})[0]
    )
    feeds = _boxes(1, 1, 3, 5)
    assert interpreted(_suppression(), feeds)[0].shape == (0, 3)
    assert interpreted(_suppression("most"), {**feeds, "most": np.array([0])})[0].shape == (0, 3)


ROIS = np.array([[0, 0, 6, 4], [1, 2, 7.5, 8], [3, 3, 3.2, 3.1], [-2, -1, 12, 12]], np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(coordinates: str, ratio: int, mode: str) -> None:
    node = helper.make_node(
        "RoiAlign", ["x", "r", "i"], ["y"], mode=mode, sampling_ratio=ratio, output_height=3, output_width=2, spatial_scale=0.8,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    model = model_of(
        [node], {"x": (FLOAT, ("n", 3, "h", "k")), "r": (FLOAT, ("m", 4)), "i": (INT64, ("m",))}, ["y"], opset=16
    )
    feeds = {"x": floats(2, 3, 9, 8), "r": ROIS, "i": np.array([0, 1, 1, 0])}
    (check_compiled if mode == "avg" else check)(model, feeds, tolerance=1e-4)


def test_max_roi_pool() -> None:
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 3], spatial_scale=0.5)
    model = model_of([node], {"x": (FLOAT, ("n", 2, "h", "k")), "r": (FLOAT, ("m", 5))}, ["y"])
    x = floats(2, 2, 6, 7)
    rois = np.array([[0, 0, 0, 6, 4], [1, 3, 2, 12, 11], [1, 20, 20, 30, 30]], np.float32)
    wanted = np.zeros((3, 2, 2, 3), np.float32)
    for number, (image, *ends) in enumerate(rois):
        x0, y0, x1, y1 = (int(np.floor(end * 0.5 + 0.5)) for end in ends)
        steps = max(y1 - y0 + 1, 1) / 2, max(x1 - x0 + 1, 1) / 3
        for i, j in np.ndindex(2, 3):
            rows = [int(np.clip(y0 + f(k * steps[0]), 0, 6)) for f, k in ((np.floor, i), (np.ceil, i + 1))]
            columns = [
                int(np.clip(x0 + f(k * np.float32(steps[1])), 0, 7)) for f, k in ((np.floor, j), (np.ceil, j + 1))
            ]
            part = x[int(image), :, slice(*rows), slice(*columns)]
            wanted[number, :, i, j] = part.max((1, 2)) if part.size else 0
    assert_close(interpreted(model, {"x": x, "r": rois})[0], wanted)


def test_what_breaks_the_rules() -> None:
    with pytest.raises(FileFormatError, match="number of elements"):
        imported(
            model_of(
                [helper.make_node("TopK", ["x", "k"], ["v", "i"])],
                {"x": (FLOAT, ("m",))},
                ["v"],
                {"k": np.array([1, 2])},
            )
        )
