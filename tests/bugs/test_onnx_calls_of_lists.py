"""What is no array is a typed error of the call, inputs may be called as Python calls its own, and sequences are refused at once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import anyshape
from anyshape.driver import onnx_backend
from anyshape.support.errors import ArgumentError, UnsupportedOps
from tests.frontends.onnx.models import FLOAT, assert_close, floats, imported, model_of

RELU = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, ("n", 3))}, ["y"])


def test_lists_of_several_lengths() -> None:
    ragged = [[1.0, 2.0], [3.0]]
    with pytest.raises(ArgumentError, match="no array"):
        anyshape.compile(RELU)(ragged)
    with pytest.raises(ArgumentError, match="no array"):
        onnx_backend.prepare(RELU).run([ragged])


@pytest.mark.parametrize("name", ["self", "args", "kwargs", "x", "if"])
def test_inputs_called_as_python_calls_its_own(name: str) -> None:
    model = model_of([helper.make_node("Neg", [name], ["y"])], {name: (FLOAT, ("n", 3))}, ["y"])
    x = floats(2, 3)
    assert_close(anyshape.compile(model)(**{name: x}), -x)


def of_a_sequence() -> ModelProto:
    """A sequence, and a number that could be part of the program."""
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n"])
    index = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    graph = helper.make_graph(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"])],
        "g",
        [sequence, index],
        [helper.make_empty_tensor_value_info("y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_no_value_of_an_input_makes_a_sequence_a_tensor() -> None:
    with pytest.raises(UnsupportedOps, match="'s' is no tensor but a sequence"):
        onnx_backend.prepare(of_a_sequence())


@pytest.mark.parametrize("name", ["0", "2", "-1"])
def test_a_size_called_by_a_number_is_a_name(name: str) -> None:
    graph = imported(model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, (name, "n"))}, ["y"]))
    (spec,) = graph.inputs
    assert all(size.as_symbol() is not None for size in spec.sizes)
    assert len({str(size) for size in spec.sizes}) == 2
    assert np.prod([len(size.symbols) for size in spec.sizes]) == 1
