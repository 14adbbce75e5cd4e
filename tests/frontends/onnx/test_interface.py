"""What a file may say of inputs and outputs, and what a call may pass."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

import anyshape
from anyshape.support.errors import ArgumentError, DtypeError, FileFormatError, GuardError, RankError, UnsupportedOps
from tests.frontends.onnx.models import FLOAT, INT64, assert_close, floats, imported

node, info = helper.make_node, helper.make_tensor_value_info
X, Y = info("x", FLOAT, ["n", 3]), helper.make_empty_tensor_value_info("y")
W = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
RELU = node("Relu", ["x"], ["y"], name="r")
A = floats(2, 3)


def file_of(
    nodes: Sequence[Any] = (RELU,), inputs: Sequence[ValueInfoProto] = (X,), outputs: Sequence[ValueInfoProto] = (Y,), constants: Any = (),
    opset: int = 17, ir_version: int = 10,
) -> ModelProto:  # fmt: skip
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def test_names_are_texts() -> None:
    names = info("in put/ü:0", FLOAT, ["größe x", "a/b"]), helper.make_empty_tensor_value_info("o ut/é")
    program = anyshape.compile(file_of([node("Relu", ["in put/ü:0"], ["o ut/é"], name="a/b c")], names[:1], names[1:]))
    assert_close(program(**{"in put/ü:0": A}), np.maximum(A, 0))
    assert program.output_names == ("o ut/é",)


def test_nodes_may_have_one_name() -> None:
    program = anyshape.compile(file_of([node("Abs", ["x"], ["a"], name="n"), node("Neg", ["a"], ["y"], name="n")]))
    assert_close(program(A), -np.abs(A))


@pytest.mark.parametrize("ir_version", [3, 4, 10])
def test_an_input_with_a_value_is_a_constant(ir_version: int) -> None:
    """As files of before IR version 4 list every initialiser."""
    model = file_of(
        [node("Add", ["x", "w"], ["y"])], [X, info("w", FLOAT, [3])], constants=[W], opset=7, ir_version=ir_version
    )
    program = anyshape.compile(model)
    assert_close(program(A), A + np.array([1, 2, 3], np.float32))
    with pytest.raises(ArgumentError, match="remove its initialiser"):
        program(x=A, w=np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match="2 arguments"):
        program(A, np.zeros(3, np.float32))


def test_an_unused_input_is_passed() -> None:
    program = anyshape.compile(file_of(inputs=[X, info("z", INT64, ["q"])]))
    assert_close(program(A, np.arange(0)), np.maximum(A, 0))


def test_results_are_memory_of_their_own() -> None:
    """Outputs that are inputs, constants, or one value twice."""
    outputs = [X, Y, Y, info("w", FLOAT, [3])]
    program = anyshape.compile(file_of(outputs=outputs, constants=[W]))
    given = A.copy()
    results = program(given)
    for number, result in enumerate(results):
        result[...] = number
    assert_close(given, A)
    assert [float(result.flat[0]) for result in results] == [0, 1, 2, 3]
    again = program(given)
    for got, wanted in zip(
        again, (A, np.maximum(A, 0), np.maximum(A, 0), np.array([1, 2, 3], np.float32)), strict=True
    ):
        assert_close(got, wanted)


def test_inputs_that_are_left_out() -> None:
    bound = numpy_helper.from_array(np.float32(0), "hi")
    program = anyshape.compile(file_of([node("Clip", ["x", "", "hi"], ["y"])], constants=[bound]))
    assert_close(program(A), np.minimum(A, 0))
    assert_close(anyshape.compile(file_of([node("Clip", ["x", "", ""], ["y"])]))(A), A)
    with pytest.raises(FileFormatError, match="leaves out the input"):
        imported(file_of([node("Add", ["", "x"], ["y"])]))


@pytest.mark.parametrize(
    "dtype",
    [
        np.bool_, np.int16, np.uint16, np.uint32, np.uint64, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
    ],
)  # fmt: skip
def test_element_types_go_in_and_out(dtype: Any) -> None:
    array = np.array([[1, 0, 3]]).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    nodes = [node("Identity", ["x"], ["y"]), node("Cast", ["x"], ["z"], to=FLOAT)]
    outputs = [info("y", code, None), info("z", FLOAT, None)]
    same, real = anyshape.compile(file_of(nodes, [info("x", code, ["n", 3])], outputs))(array)
    assert same.dtype == array.dtype
    assert same.tolist() == array.tolist()
    assert_close(real, array.astype(np.float32))


@pytest.mark.parametrize("code", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_element_types_without_programs(code: int) -> None:
    with pytest.raises(UnsupportedOps, match="'x': programs have no"):
        imported(file_of([node("Identity", ["x"], ["y"])], [info("x", code, ["n"])]))


CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    "f64": (A.astype(np.float64), DtypeError, "got dtype f64, expected f32"),
    "rank 1": (A[0], RankError, "got rank 1, expected 2"),
    "size": (floats(2, 4), GuardError, "argument x, axis 1: got size 4"),
    "objects": (np.array([[None] * 3]), DtypeError, "dtype\\('O'\\)"),
    "other byte order": (A.astype(">f4"), DtypeError, "in native byte order"),
    "nothing": (None, DtypeError, "input 0 \\('x'\\)"),
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_that_do_not_fit(call: str) -> None:
    array, error, text = CALLS[call]
    program = anyshape.compile(file_of())
    with pytest.raises(error, match=text):
        program(array)
    assert_close(program(A), np.maximum(A, 0))


def test_memory_that_is_laid_out_otherwise() -> None:
    program = anyshape.compile(file_of())
    shifted = np.frombuffer(b"\0" + A.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    for array in (
        floats(3, 4)[::-1, :3],
        floats(3, 5).T,
        floats(0, 3),
        np.broadcast_to(np.float32(-1), (2, 3)),
        shifted,
    ):
        assert_close(program(array), np.maximum(array, 0))


@pytest.mark.parametrize(
    "given",
    [{"x": {0: -3}}, {"x": {0: 1.5}}, {"x": {0: True}}, {"x": {0: ""}}, {"x": {"0": "b"}}, {"x": {True: "b"}}, {"x": 3}, {"x": ("n", -1)}],
    ids=str,
)  # fmt: skip
def test_sizes_that_are_none(given: Any) -> None:
    with pytest.raises(ArgumentError, match="sizes are not understood"):
        imported(file_of(), **given)


def test_outputs_are_what_the_file_says() -> None:
    """The element type and the number of axes; sizes may be those of an example."""
    for output, text in ((info("y", INT64, None), "element type"), (info("y", FLOAT, [2]), "number of axes")):
        with pytest.raises(FileFormatError, match=f"another {text} than the file says"):
            imported(file_of(outputs=[output]))
    assert_close(anyshape.compile(file_of(outputs=[info("y", FLOAT, [7, 7])]))(A), np.maximum(A, 0))


def test_operands_of_two_types() -> None:
    wrong = numpy_helper.from_array(np.arange(3), "w")
    with pytest.raises(FileFormatError, match="they are f32 and i64"):
        imported(file_of([node("Add", ["x", "w"], ["y"])], constants=[wrong]))


def test_an_input_of_more_bytes_than_can_be_counted() -> None:
    with pytest.raises(FileFormatError, match="more bytes than 64 bits count"):
        imported(file_of(inputs=[info("x", FLOAT, [2**62, 8])]))


def test_calls_from_threads() -> None:
    table = floats(3, 5)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    programs = [anyshape.compile(file_of(nodes, constants=[numpy_helper.from_array(table * k, "w")])) for k in (1, 2)]
    wrong: list[tuple[int, int]] = []

    def call(number: int) -> None:
        for size in range(30):
            x = floats((size * number) % 7, 3)
            for factor, program in enumerate(programs, 1):
                if not np.allclose(program(x), np.maximum(x @ table * factor, 0), atol=1e-5):
                    wrong.append((number, size))

    threads = [Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
