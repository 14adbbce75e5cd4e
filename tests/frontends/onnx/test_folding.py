"""Integer ops on sizes, and on constants, on their way into a shape: each leaves an expression, or numbers, and no op of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

import anyshape
from anyshape.support.errors import AnyshapeError, FileFormatError, GuardError, IndexOutOfRange, MemoryLimit
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT64,
    UINT8,
    assert_close,
    expected,
    floats,
    imported,
    interpreted,
    model_of,
)
from tests.frontends.onnx.test_sizes import PLACES, X, branch, ops_of, shape_chain

node = helper.make_node
CONSTANTS: dict[str, Any] = {
    **PLACES, "two": np.array(2), "three": np.array(3), "seven": np.array(7), "ones": np.array([1, 1]), "half": np.array([0.5], np.float32),
    "four": np.array([4], np.float32), "place": np.array([[1], [0]]), "last": np.array([2]),
    "at": np.array([[2]]), "pads": np.array([1, 0]),
    "minus8": np.array(-8), "u3": np.uint8(3), "six": np.array([6]),
}  # fmt: skip


def to_shape(*nodes: NodeProto) -> list[NodeProto]:
    """The op's result r, a number or a vector, as a shape."""
    return shape_chain(*nodes, node("Reshape", ["r", "minus"], ["row"]), node("ConstantOfShape", ["row"], ["y"]))


CHAINS: dict[str, Sequence[NodeProto]] = {
    "clip": [node("Clip", ["s", "two", "seven"], ["r"])],
    "clip from below": [node("Clip", ["s", "two"], ["r"])],
    "clip from above": [node("Clip", ["s", "", "seven"], ["r"])],
    "sum": [node("Sum", ["s", "b", "two"], ["r"])],
    "power": [node("Pow", ["s", "two"], ["r"])],
    "remainder": [node("Mod", ["s", "seven"], ["r"], fmod=1)],
    "low bits": [node("BitwiseAnd", ["s", "seven"], ["r"])],
    "whole blocks": [node("BitwiseAnd", ["s", "minus8"], ["r"])],
    "relu": [node("Relu", ["s"], ["r"])],
    "sign": [node("Sign", ["s"], ["r"])],
    "largest": [node("ReduceMax", ["shape"], ["r"])],
    "least": [node("ReduceMin", ["shape"], ["r"], keepdims=0)],
    "sum of no axes": [node("ReduceSum", ["shape"], ["r"], noop_with_empty_axes=1)],
    "running sum": [node("CumSum", ["shape", "i0"], ["r"])],
    "tile": [node("Unsqueeze", ["s", "zero"], ["s1"]), node("Tile", ["s1", "last"], ["r"])],
    "expand": [node("Expand", ["s", "last"], ["r"])],
    "flatten": [node("Flatten", ["shape"], ["rr"], axis=0), node("Squeeze", ["rr", "zero"], ["r"])],
    "gather vectors": [node("GatherND", ["shape", "place"], ["r"])],
    "gather elements": [node("GatherElements", ["shape", "last"], ["r"])],
    "scatter vectors": [node("ScatterND", ["shape", "at", "last"], ["r"])],
    "scatter elements": [node("ScatterElements", ["shape", "last", "last"], ["r"])],
    "pad": [node("Pad", ["shape", "pads", "i1"], ["r"])],
    "as another": [node("CastLike", ["shape", "i0"], ["r"])],
    "bits up": [
        node("Cast", ["s"], ["u"], to=UINT8),
        node("BitShift", ["u", "u3"], ["v"], direction="LEFT"),
        node("Cast", ["v"], ["r"], to=INT64),
    ],
    "half to even": [
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Mul", ["f", "half"], ["g"]),
        node("Round", ["g"], ["h"]),
        node("Cast", ["h"], ["r"], to=INT64),
    ],
    "fractions within bounds": [
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Max", ["f", "half"], ["g"]),
        node("Min", ["g", "four"], ["h"]),
        node("Cast", ["h"], ["r"], to=INT64),
    ],
    "mean": [
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Mean", ["four", "f"], ["g"]),
        node("Floor", ["g"], ["h"]),
        node("Cast", ["h"], ["r"], to=INT64),
    ],
    "a truth value": [node("Greater", ["s", "three"], ["c"]), node("Cast", ["c"], ["r"], to=INT64)],
    "a size as a condition": [
        node("Sub", ["s", "i1"], ["q"]),
        node("Cast", ["q"], ["c"], to=BOOL),
        node("Where", ["c", "s", "three"], ["r"]),
    ],
    "one of two conditions": [
        node("Greater", ["s", "three"], ["c"]),
        node("Less", ["b", "two"], ["e"]),
        node("Xor", ["c", "e"], ["g"]),
        node("Where", ["g", "s", "three"], ["r"]),
    ],
    "a number by the program's ops": [node("Sqrt", ["four"], ["q"]), node("Cast", ["q"], ["r"], to=INT64)],
    "a table's row": [node("OneHot", ["i1", "three", "ones"], ["r"])],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_sizes_are_followed(chain: str) -> None:
    model = model_of(to_shape(*CHAINS[chain]), X, ["y"], CONSTANTS)
    graph = imported(model)
    for b, s in ((0, 0), (1, 1), (3, 9), (2, 30), (4, 3), (1, 4)):
        feeds = {"x": floats(b, s, 6)}
        assert_close(interpreted(graph, feeds)[0], expected(model, feeds)[0])


def test_followed_sizes_leave_no_ops() -> None:
    model = model_of(to_shape(*CHAINS["clip"]), X, ["y"], CONSTANTS)
    assert ops_of(model) == ["constant", "func.return"]


def test_a_size_that_may_be_negative_is_a_condition() -> None:
    model = model_of(to_shape(node("Sub", ["s", "three"], ["r"])), X, ["y"], CONSTANTS)
    program = anyshape.compile(model)
    assert program(x=floats(1, 5, 6)).shape == (2,)
    with pytest.raises(GuardError, match=r"ConstantOfShape"):
        program(x=floats(1, 2, 6))


@pytest.mark.parametrize("shape", [[2**62, 8], [2**61], [2**32, 2**31]], ids=str)
def test_more_bytes_than_can_be_counted(shape: list[int]) -> None:
    model = model_of([node("ConstantOfShape", ["shape"], ["y"])], {}, ["y"], {"shape": np.array(shape)})
    with pytest.raises(FileFormatError, match=r"makes 'y' \(ConstantOfShape\)[^$]*more bytes than 64 bits count"):
        imported(model)


def test_more_bytes_than_there_are() -> None:
    model = model_of([node("ConstantOfShape", ["shape"], ["y"])], {}, ["y"], {"shape": np.array([2**45])})
    with pytest.raises(MemoryLimit, match=r"float32\[35184372088832\]"):
        anyshape.compile(model)()


# -- indices ---------------------------------------------------------------------------------------------------------

TABLE = {"x": (FLOAT, ("b", "c"))}


INDEXED: dict[str, tuple[NodeProto, tuple[int, ...], tuple[int, ...] | None]] = {
    "Gather": (node("Gather", ["x", "i"], ["y"], axis=1), (1,), None),
    "GatherElements": (node("GatherElements", ["x", "i"], ["y"], axis=1), (1, 1), None),
    "ScatterElements": (node("ScatterElements", ["x", "i", "u"], ["y"], axis=1), (1, 1), (1, 1)),
    "ScatterND": (node("ScatterND", ["x", "i", "u"], ["y"]), (1, 1), (1, 4)),
}
"""The op, and the sizes of its indices and updates."""


@pytest.mark.parametrize("index", [-5, 4, -(2**40)])
@pytest.mark.parametrize("op", INDEXED)
def test_an_index_is_shown_as_it_is_written(op: str, index: int) -> None:
    """Also a negative one, which counts from the end."""
    made, sizes, updated = INDEXED[op]
    inputs: dict[str, Any] = {**TABLE, "i": (INT64, sizes)}
    feeds = {"x": floats(4, 4), "i": np.full(sizes, index)}
    if updated is not None:
        inputs["u"], feeds["u"] = (FLOAT, updated), floats(*updated)
    program = anyshape.compile(model_of([made], inputs, ["y"]))
    with pytest.raises(IndexOutOfRange, match=rf"\({op}\): index {index} is out of range \[0, 4\)"):
        program(**feeds)


def test_a_constant_index_is_shown_as_it_is_written() -> None:
    model = model_of([node("Gather", ["x", "i"], ["y"])], {"x": (FLOAT, (4,))}, ["y"], {"i": np.array(-9)})
    with pytest.raises(FileFormatError, match="index -9 into an axis of size 4"):
        imported(model)


CHOICES: dict[str, tuple[NodeProto, int]] = {
    "vector": (node("Gather", ["x", "pair"], ["g"], axis=1), 3),
    "vector of one": (node("Gather", ["x", "single"], ["g"], axis=1), 3),
    "number": (node("Gather", ["x", "three"], ["g"], axis=1), 2),
    "vectors": (node("GatherND", ["x", "deep"], ["g"], batch_dims=1), 1),
}
"""What is read, and the rank of what was read."""


@pytest.mark.parametrize("choice", CHOICES)
def test_a_branch_reads_where_it_is_taken_alone(choice: str) -> None:
    """`if x.shape[1] > 3: x[:, [3, 0]].max()`: of a shorter x, or an empty one, nothing is read out of place."""
    read, rank = CHOICES[choice]
    taken, other = branch(read, node("ReduceMax", ["g"], ["p"])), branch(node("Relu", ["least"], ["q"]))
    nodes = shape_chain(
        node("Greater", ["s", "three"], ["c"]),
        node("If", ["c"], ["y"], then_branch=taken, else_branch=other),
    )
    constants = {
        **PLACES, "three": np.array(3), "pair": np.array([3, 0]), "single": np.array([3]), "deep": np.array([[3, 5]]),
        "least": np.ones([1] * rank, np.float32),
    }  # fmt: skip
    model = model_of(nodes, {"x": (FLOAT, (1, "s", 6))}, ["y"], constants)
    program = anyshape.compile(model)
    for s in (0, 1, 3, 4, 9):
        feeds = {"x": floats(1, s, 6)}
        assert_close(program(**feeds), expected(model, feeds)[0])


def test_a_branch_that_is_taken_still_fails() -> None:
    taken, other = branch(node("Gather", ["x", "i"], ["p"])), branch(node("Neg", ["i"], ["q"]))
    model = model_of(
        [node("If", ["c"], ["y"], then_branch=taken, else_branch=other)],
        {"x": (INT64, ("n",)), "i": (INT64, ("m",)), "c": (BOOL, ())},
        ["y"],
    )
    program = anyshape.compile(model)
    indices = np.array([5, -1, 0])
    for size in (0, 3):
        assert_close(program(x=np.arange(size), i=indices, c=np.array(False)), -indices)
        with pytest.raises(AnyshapeError) as raised:
            program(x=np.arange(size), i=indices, c=np.array(True))
        assert isinstance(raised.value, IndexOutOfRange)
    assert_close(program(x=np.arange(6), i=indices, c=np.array(True)), np.array([5, 5, 0]))
