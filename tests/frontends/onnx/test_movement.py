"""Ops that move elements, and reductions, against ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import GuardError, IndexOutOfRange
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    SIZES,
    check,
    check_compiled,
    expected,
    floats,
    imported,
    interpreted,
    model_of,
)

ROWS = {"x": (FLOAT, ("n", 4))}
FAR = 2**63 - 1
BOUNDS = (
    (0, 3, 1), (1, -1, 1), (-2, FAR, 1), (2, FAR, 2), (0, -3, 3), (5, 2, 1), (9, 0, -1), (-1, -FAR, -1), (-1, -FAR, -2), (3, 1, -1),
    (FAR, 1, -2), (-100, 100, 7),
)  # fmt: skip


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_slice_clamps_as_python_does(bounds: tuple[int, int, int]) -> None:
    start, end, step = bounds
    constants = {"s": np.array([start]), "e": np.array([end]), "a": np.array([0]), "t": np.array([step])}
    model = model_of([helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])], ROWS, ["y"], constants)
    graph = imported(model)
    for n in (*SIZES, 10):
        x = floats(n, 4)
        np.testing.assert_array_equal(interpreted(graph, {"x": x})[0], x[start:end:step])


def test_slice_by_attributes() -> None:
    node = helper.make_node("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, -1], axes=[1, 0])
    model = model_of([node], ROWS, ["y"], opset=7)
    for n in (1, 2, 7):
        x = floats(n, 4)
        np.testing.assert_array_equal(interpreted(model, {"x": x})[0], x[0:-1, 1:3])


def test_slice_up_to_a_size() -> None:
    """x[:, : y.shape[0]]: the bound is clamped by the axis."""
    nodes = [
        helper.make_node("Shape", ["y"], ["end"]),
        helper.make_node("Slice", ["x", "zero", "end", "zero"], ["z"]),
    ]
    model = model_of(nodes, {**ROWS, "y": (FLOAT, ("m",))}, ["z"], {"zero": np.array([0])})
    check_compiled(model, *({"x": floats(n, 4), "y": floats(m)} for n, m in ((3, 2), (2, 3), (0, 1), (5, 5))))


def test_split() -> None:
    equal = model_of([helper.make_node("Split", ["x"], ["a", "b"], axis=0)], ROWS, ["a", "b"], opset=13)
    check(equal, *({"x": floats(n, 4)} for n in (0, 2, 6)))
    with pytest.raises(GuardError):
        interpreted(equal, {"x": floats(3, 4)})
    uneven = model_of([helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2)], ROWS, ["a", "b"])
    check(uneven, *({"x": floats(n, 4)} for n in (1, 3, 7, 8)))
    stated = model_of(
        [helper.make_node("Split", ["x", "parts"], ["a", "b"], axis=1)], ROWS, ["a", "b"], {"parts": np.array([1, 3])}
    )
    check(stated, *({"x": floats(n, 4)} for n in SIZES))
    by_attribute = model_of(
        [helper.make_node("Split", ["x"], ["a", "b"], axis=-1, split=[1, 3])], ROWS, ["a", "b"], opset=7
    )
    check(by_attribute, {"x": floats(3, 4)})


INDICES = {
    "scalar": np.array(-1),
    "one": np.array([1]),
    "several": np.array([[0, -1], [3, 2]]),
    "none": np.zeros((0,), np.int64),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("axis", [1, -1])
def test_gather_constant(name: str, axis: int) -> None:
    model = model_of([helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)], ROWS, ["y"], {"i": INDICES[name]})
    check(model, *({"x": floats(n, 4)} for n in SIZES))


def test_gather_checks_its_indices() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=0, name="look_up")
    model = model_of([node], {**ROWS, "i": (INT32, ("m",))}, ["y"])
    check_compiled(
        model,
        {"x": floats(5, 4), "i": np.array([0, -5, 4], np.int32)},
        {"x": floats(2, 4), "i": np.array([-1], np.int32)},
    )
    program = anyshape.compile(model)
    for index in (5, -6):
        with pytest.raises(IndexOutOfRange, match="small: node 'look_up' \\(Gather\\)"):
            program(floats(5, 4), np.array([index], np.int32))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    model = model_of([node], ROWS, ["y"], {"pads": np.array([2, 1, 1, 3])})
    for n in (3, 7):
        x = floats(n, 4)
        np.testing.assert_array_equal(interpreted(model, {"x": x})[0], np.pad(x, ((2, 1), (1, 3)), mode=mode))  # pyright: ignore


def test_pad_value_axes_and_cuts() -> None:
    constants = {"pads": np.array([-1, 2]), "value": np.float32(7.5), "axes": np.array([1])}
    model = model_of([helper.make_node("Pad", ["x", "pads", "value", "axes"], ["y"])], ROWS, ["y"], constants)
    for n in SIZES:
        x = floats(n, 4)
        wanted = np.pad(x[:, 1:], ((0, 0), (0, 2)), constant_values=7.5)
        np.testing.assert_array_equal(interpreted(model, {"x": x})[0], wanted)
    old = model_of([helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 0, 2], value=2.0)], ROWS, ["y"], opset=7)
    x = floats(3, 4)
    np.testing.assert_array_equal(interpreted(old, {"x": x})[0], np.pad(x, ((0, 0), (1, 2)), constant_values=2.0))


MOVES: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "Transpose": ([], {}, {}),
    "Flatten": ([], {"axis": 0}, {}),
    "Tile": (["r"], {}, {"r": np.array([2, 3])}),
    "Unsqueeze": (["a"], {}, {"a": np.array([0, -1])}),
    "Expand": (["s"], {}, {"s": np.array([2, 1, 4])}),
    "Concat": (["x"], {"axis": -1}, {}),
    "Reshape": (["s"], {}, {"s": np.array([0, 2, -1])}),
}


@pytest.mark.parametrize("op", MOVES)
def test_moves(op: str) -> None:
    inputs, attributes, constants = MOVES[op]
    model = model_of([helper.make_node(op, ["x", *inputs], ["y"], **attributes)], ROWS, ["y"], constants)
    sizes = [n for n in SIZES if n or op != "Reshape"]
    check(model, *({"x": floats(n, 4)} for n in sizes))


def test_squeeze_and_unsqueeze_by_version() -> None:
    for opset in (11, 13):
        named = opset >= 13
        nodes = [
            helper.make_node("Unsqueeze", ["x", "a"] if named else ["x"], ["u"], **({} if named else {"axes": [1]})),
            helper.make_node("Squeeze", ["u", "a"] if named else ["u"], ["y"], **({} if named else {"axes": [1]})),
        ]
        check(model_of(nodes, ROWS, ["y"], {"a": np.array([1])}, opset=opset), {"x": floats(3, 4)})


REDUCTIONS = ("Sum", "Prod", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keepdims"), [(None, 1), ([1], 0), ([0, -1], 1)], ids=str)
def test_reductions(kind: str, axes: list[int] | None, keepdims: int) -> None:
    inputs = {"x": (FLOAT, ("n", 3, "m"))}
    new = helper.make_node(f"Reduce{kind}", ["x"] if axes is None else ["x", "a"], ["y"], keepdims=keepdims)
    model = model_of([new], inputs, ["y"], {"a": np.array(axes or [])})
    graph = imported(model)
    for n, m in ((1, 2), (2, 1), (7, 5)):
        x = np.abs(floats(n, 3, m)) + np.float32(0.1)
        np.testing.assert_allclose(interpreted(graph, {"x": x})[0], expected(model, {"x": x})[0], rtol=1e-5)
    old = model_of(
        [helper.make_node(f"Reduce{kind}", ["x"], ["y"], keepdims=keepdims, **({"axes": axes} if axes else {}))],
        inputs,
        ["y"],
        opset=11,
    )
    assert [str(each) for each in imported(old).inputs] == [str(each) for each in graph.inputs]


def test_reduction_without_axes_does_nothing() -> None:
    node = helper.make_node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)
    check(model_of([node], ROWS, ["y"]), {"x": floats(3, 4)})


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_positions(op: str, last: int) -> None:
    node = helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
    check(
        model_of([node], {"x": (INT64, ("n", 4))}, ["y"]), {"x": np.array([[1, 5, 5, 1], [2, 2, 2, 2], [0, 3, -1, 3]])}
    )


def test_bools_have_extremes() -> None:
    for op in ("ReduceMax", "ReduceMin"):
        model = model_of(
            [helper.make_node(op, ["x", "a"], ["y"])], {"x": (BOOL, ("n", 2))}, ["y"], {"a": np.array([1])}
        )
        check(model, {"x": np.array([[True, False], [True, True], [False, False]])})
