"""Reads and writes at indices, and what runs along an axis, at sizes that are free, against ONNX's evaluator and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError, IndexOutOfRange
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

RANDOM = np.random.default_rng(0)


def _elements(op: str, axis: int, **attributes: Any) -> Any:
    names = ["x", "i"] if op == "GatherElements" else ["x", "i", "u"]
    inputs: dict[str, Any] = {"x": (FLOAT, ("a", "c", 3)), "i": (INT64, ("d", "e", 3)), "u": (FLOAT, ("d", "e", 3))}
    return model_of(
        [helper.make_node(op, names, ["y"], axis=axis, **attributes)], {name: inputs[name] for name in names}, ["y"]
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int) -> None:
    graph = imported(_elements("GatherElements", axis))
    for shape, other in (
        ((4, 5, 3), (2, 5, 3)),
        ((1, 1, 3), (1, 1, 3)),
        ((3, 2, 3), (0, 2, 3)),
        ((7, 4, 3), (3, 2, 3)),
    ):
        x, bound = floats(*shape), shape[axis]
        index = RANDOM.integers(-bound, bound, other)
        part = x[tuple(slice(None) if each == axis % 3 else slice(size) for each, size in enumerate(other))]
        assert_close(interpreted(graph, {"x": x, "i": index})[0], np.take_along_axis(part, index, axis))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(axis: int, reduction: str) -> None:
    model = _elements("ScatterElements", axis, reduction=reduction)
    calls = []
    for shape, other in (((4, 5, 3), (2, 5, 3)), ((3, 2, 3), (2, 1, 3)), ((2, 6, 3), (2, 6, 3))):
        index = RANDOM.integers(-shape[axis], shape[axis], other)
        if reduction == "none":  # equal places would be written in an order that ONNX does not say
            index = np.argsort(RANDOM.random(shape), axis)[tuple(map(slice, other))]
        calls.append({"x": floats(*shape), "i": index, "u": floats(*other)})
    (check_compiled if axis == 1 else check)(model, *calls)


def test_scatter_of_old_models() -> None:
    node = helper.make_node("Scatter", ["x", "i", "u"], ["y"], axis=1)
    model = model_of([node], {"x": (FLOAT, ("a", 5)), "i": (INT64, ("a", 2)), "u": (FLOAT, ("a", 2))}, ["y"], opset=10)
    x, index, updates = floats(2, 5), np.array([[1, 3], [0, 4]]), floats(2, 2)
    wanted = x.copy()
    np.put_along_axis(wanted, index, updates, 1)
    assert_close(interpreted(model, {"x": x, "i": index, "u": updates})[0], wanted)


@pytest.mark.parametrize(("count", "batch"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
def test_gather_nd(count: int, batch: int) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=batch)
    lead = ["a"] * batch
    model = model_of([node], {"x": (FLOAT, ("a", "c", 4)), "i": (INT64, (*lead, "m", count))}, ["y"])
    calls = []
    for a, c, m in ((2, 3, 5), (1, 1, 1), (4, 2, 7)):
        bounds = np.array((a, c, 4)[batch : batch + count])
        calls.append({"x": floats(a, c, 4), "i": RANDOM.integers(-bounds, bounds, (*[a] * batch, m, count))})
    check_compiled(model, *calls)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("count", [1, 2])
def test_scatter_nd(count: int, reduction: str) -> None:
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    rest = ("c", 3)[count - 1 :]
    model = model_of(
        [node], {"x": (FLOAT, ("a", "c", 3)), "i": (INT64, ("m", count)), "u": (FLOAT, ("m", *rest))}, ["y"]
    )
    calls = []
    for a, c, m in ((5, 3, 4), (2, 2, 1), (6, 4, 0)):
        flat = RANDOM.permutation(a * c if count == 2 else a)[:m] if reduction == "none" else RANDOM.integers(0, a, m)
        index = np.stack([flat // c, flat % c], 1) if count == 2 else flat[:, None]
        calls.append(
            {
                "x": floats(a, c, 3),
                "i": index - np.array((a, c)[:count]) * (RANDOM.random((m, 1)) < 0.5),
                "u": floats(m, *{1: (c, 3), 2: (3,)}[count]),
            }
        )
    check_compiled(model, *calls)


@pytest.mark.parametrize(
    ("model", "feeds"),
    [
        (_elements("GatherElements", 0), {"x": floats(2, 3, 3), "i": np.full((1, 1, 3), 2)}),
        (_elements("ScatterElements", 1), {"x": floats(2, 3, 3), "i": np.full((1, 1, 3), -4), "u": floats(1, 1, 3)}),
    ],
)
def test_an_index_outside_is_an_error_of_the_call(model: Any, feeds: dict[str, Any]) -> None:
    with pytest.raises(IndexOutOfRange):
        anyshape.compile(model)(**feeds)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    node = helper.make_node("Compress", ["x", "c"], ["y"], **attributes)
    model = model_of([node], {"x": (FLOAT, ("a", "e")), "c": (BOOL, ("m",))}, ["y"])
    calls = [{"x": floats(a, e), "c": RANDOM.random(m) < 0.5} for a, e, m in ((4, 5, 3), (2, 2, 2), (7, 9, 6))]
    check_compiled(model, *calls, {"x": floats(3, 3), "c": np.zeros(2, bool)})


@pytest.mark.parametrize(("batch_axis", "time_axis"), [(1, 0), (0, 1), (2, 0)])
def test_reverse_sequence(batch_axis: int, time_axis: int) -> None:
    node = helper.make_node("ReverseSequence", ["x", "s"], ["y"], batch_axis=batch_axis, time_axis=time_axis)
    model = model_of([node], {"x": (FLOAT, ("a", "c", "e")), "s": (INT64, ("m",))}, ["y"])
    for shape in ((4, 3, 2), (1, 1, 1), (5, 5, 5)):
        lengths = RANDOM.integers(0, shape[time_axis] + 1, shape[batch_axis])
        check(model, {"x": floats(*shape), "s": lengths})


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("starts", [False, True])
def test_tensor_scatter(mode: str, starts: bool) -> None:
    names = ["x", "u", *(["i"] if starts else [])]
    node = helper.make_node("TensorScatter", names, ["y"], mode=mode, axis=-2)
    inputs: dict[str, Any] = {"x": (FLOAT, ("n", 2, "m", 3)), "u": (FLOAT, ("n", 2, "s", 3)), "i": (INT64, ("n",))}
    model = model_of([node], {name: inputs[name] for name in names}, ["y"], opset=24)
    feeds = {"x": floats(3, 2, 5, 3), "u": floats(3, 2, 2, 3), "i": np.array([0, 3, 1 if mode == "linear" else 4])}
    check(model, {name: feeds[name] for name in names})


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scans(op: str, exclusive: int, reverse: int) -> None:
    opset = 26 if op == "CumProd" else 14
    node = helper.make_node(op, ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
    model = model_of([node], {"x": (FLOAT, ("m", "n"))}, ["y"], {"a": np.array(1)}, opset=opset)
    graph = imported(model)
    for m, n in ((2, 5), (1, 1), (3, 0), (0, 3)):
        x = floats(m, n)
        y = x[:, ::-1] if reverse else x
        if exclusive and n:
            y = np.concatenate([np.full((m, 1), op == "CumProd", np.float32), y[:, :-1]], 1)
        y = (np.cumprod if op == "CumProd" else np.cumsum)(y, 1, dtype=np.float32)
        assert_close(interpreted(graph, {"x": x})[0], y[:, ::-1] if reverse else y)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("GatherElements", ["x", "s"], ["y"]), "axes"),
        (helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=4), "batch"),
        (helper.make_node("ScatterND", ["x", "i", "x"], ["y"], reduction="mean"), "reduction"),
        (helper.make_node("ReverseSequence", ["x", "s"], ["y"], batch_axis=0, time_axis=0), "one"),
        (helper.make_node("Compress", ["x", "b"], ["y"], axis=5), "axis"),
    ],
)
def test_what_breaks_the_rules(node: Any, message: str) -> None:
    inputs: dict[str, Any] = {"x": (FLOAT, ("m", 3)), "i": (INT64, ("m", 2)), "s": (INT32, ("m",)), "b": (BOOL, ("m",))}
    with pytest.raises(FileFormatError, match=message):
        imported(model_of([node], inputs, ["y"]))


def test_an_axis_that_the_program_is_given() -> None:
    model = model_of(
        [helper.make_node("CumSum", ["x", "a"], ["y"])], {"x": (FLOAT, ("m", "n")), "a": (INT64, ())}, ["y"]
    )
    check_compiled(model, *({"x": floats(3, 4), "a": np.array(axis)} for axis in (0, 1, -1, -2)))
