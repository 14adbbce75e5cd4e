"""Sequences of tensors and optional values, which are there only while importing."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from anyshape.support.errors import FileFormatError, UnsupportedOps
from tests.frontends.onnx.models import FLOAT, INT64, check, floats, imported, model_of

X = {"x": (FLOAT, ("a", 3)), "y": (FLOAT, ("b", 3))}


def feeds(a: int, b: int) -> dict[str, np.ndarray]:
    return {"x": floats(a, 3), "y": floats(b, 3, seed=1)}


def test_built_and_taken_apart() -> None:
    nodes = [
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("SequenceInsert", ["none", "x"], ["one"]),
        helper.make_node("SequenceInsert", ["one", "y", "zero"], ["two"]),
        helper.make_node("SequenceConstruct", ["x", "y", "x"], ["three"]),
        helper.make_node("SequenceErase", ["three", "one_"], ["without"]),
        helper.make_node("SequenceErase", ["three"], ["shorter"]),
        helper.make_node("SequenceAt", ["two", "zero"], ["first"]),
        helper.make_node("SequenceAt", ["shorter", "last"], ["end"]),
        helper.make_node("SequenceLength", ["without"], ["count"]),
        helper.make_node("ConcatFromSequence", ["two"], ["joined"], axis=0),
    ]
    constants = {"zero": np.array(0), "one_": np.array(1), "last": np.array(-1)}
    check(model_of(nodes, X, ["first", "end", "count", "joined"], constants), feeds(2, 5), feeds(0, 1))


def test_split_at_sizes_of_the_call() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"]),
        helper.make_node("SequenceAt", ["parts", "one"], ["y"]),
        helper.make_node("SequenceLength", ["parts"], ["count"]),
    ]
    inputs = {"x": (FLOAT, ("a", 3)), "sizes": (INT64, (2,))}
    model = model_of(nodes, inputs, ["y", "count"], {"one": np.array(1)})
    check(model, *({"x": floats(a + b, 3), "sizes": np.array([a, b])} for a, b in ((1, 2), (0, 4), (3, 0))))


@pytest.mark.parametrize("keepdims", [0, 1])
def test_split_into_rows(keepdims: int) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=keepdims),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=-1, new_axis=1),
    ]
    check(model_of(nodes, {"x": (FLOAT, ("a", 3))}, ["y"]), {"x": floats(4, 3)})


def test_split_into_parts_with_a_rest() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "one"], ["y"]),
    ]
    check(
        model_of(nodes, {"x": (FLOAT, ("a", 3))}, ["y"], {"two": np.array(2), "one": np.array(1)}), {"x": floats(4, 3)}
    )


def test_what_is_refused() -> None:
    rows = [helper.make_node("SplitToSequence", ["x"], ["parts"]), helper.make_node("SequenceLength", ["parts"], ["z"])]
    with pytest.raises(UnsupportedOps, match="whose number each call says"):
        imported(model_of(rows, X, ["z"]))
    outside = [helper.make_node("SequenceConstruct", ["x"], ["s"]), helper.make_node("SequenceAt", ["s", "two"], ["z"])]
    with pytest.raises(FileFormatError, match="no position 2 in a sequence of 1"):
        imported(model_of(outside, X, ["z"], {"two": np.array(2)}))


def test_optional_values() -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["has"]),
        helper.make_node("OptionalHasElement", [""], ["has_not"]),
        helper.make_node("OptionalGetElement", ["x"], ["y"]),
    ]
    check(model_of(nodes, {"x": (FLOAT, ("a",))}, ["has", "has_not", "y"]), {"x": floats(3)})
