"""Small ONNX models, and a check of what they give against ONNX's own evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import anyshape
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.frontends.onnx import ImportedModel, import_model, load_model

NEWEST = 23
SIZES = (0, 1, 2, 3, 7, 33)

Shape = Sequence[int | str | None]


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = NEWEST,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
) -> ModelProto:
    """A model with these parts; `inputs` are (element type, shape) by name."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, code, list(shape)) for name, (code, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*each) for each in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def imported(model: ModelProto, **given: Any) -> ImportedModel:
    return import_model(load_model(model), given or None)


def interpreted(model: ModelProto | ImportedModel, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs by the reference interpreter of the imported graph."""
    graph = model if isinstance(model, ImportedModel) else imported(model)
    arrays = [np.asarray(feeds[spec.name]) for spec in graph.inputs]
    return evaluate(graph.module, arrays, graph.store)


def expected(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(ReferenceEvaluator(model).run(None, dict(feeds)))


def assert_close(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Equal shapes and dtypes, and values within the tolerance."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, wanted)


def check(model: ModelProto, *calls: Mapping[str, Any], tolerance: float = 1e-5) -> None:
    """The imported graph gives what ONNX's evaluator gives, in each call."""
    graph = imported(model)
    for feeds in calls:
        for got, wanted in zip(interpreted(graph, feeds), expected(model, feeds), strict=True):
            assert_close(got, wanted, tolerance)


def check_compiled(model: ModelProto, *calls: Mapping[str, Any], tolerance: float = 1e-5) -> None:
    """The compiled program gives what ONNX's evaluator gives, in each call."""
    program = anyshape.compile(model)
    for feeds in calls:
        result = program(**feeds)
        results = result if isinstance(result, tuple) else (result,)
        for got, wanted in zip(results, expected(model, feeds), strict=True):
            assert_close(got, wanted, tolerance)


FLOAT, DOUBLE, INT64, INT32, BOOL, UINT8 = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.BOOL,
    TensorProto.UINT8,
)
IMAGE = (FLOAT, ("n", 2, "h", "k"))
"""Pictures of two channels, of any number and size."""
