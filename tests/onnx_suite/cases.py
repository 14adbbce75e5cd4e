"""The cases of the ONNX backend suite that need no download, and which of them are asked of a compiler of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
MODES = ("fixed", "symbolic")
"""As the file has its sizes, and with every axis of every input a symbol of its own."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
NO_NUMBERS = frozenset({TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128, TensorProto.UNDEFINED})

Values = Sequence[Any]


@dataclass(frozen=True)
class Case:
    """One model of the suite.

    Attributes:
        name: as ONNX calls it, without the device.
        data: (inputs, expected outputs), arrays or lists of arrays.
        outside: why it is none of the cases whose types are numeric tensors and that need no control flow; empty where it is.
    """

    name: str
    kind: str
    model: onnx.ModelProto
    data: tuple[tuple[Values, Values], ...]
    relative: float
    absolute: float
    outside: str

    @property
    def ops(self) -> frozenset[str]:
        """The ops of its nodes, also of those in subgraphs."""
        return frozenset(node.op_type for node in nodes_of(self.model.graph.node))


@cache
def all_cases() -> dict[str, Case]:
    """Every case by its name, sorted; those of one op are neighbours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # expected values are computed here, also those of overflows
        found = [_case(each) for kind in KINDS for each in load_model_tests(kind=kind)]
    return {case.name: case for case in sorted(found, key=lambda case: case.name)}


def _case(test: TestCase) -> Case:
    if test.model is not None:
        model, data = test.model, tuple((tuple(inputs), tuple(outputs)) for inputs, outputs in test.data_sets or ())
    else:
        folder = Path(test.model_dir or "")
        model = onnx.load(folder / "model.onnx")
        data = tuple(_stored(each) for each in sorted(folder.glob("test_data_set_*")))
    normal = tuple((tuple(map(_normal, inputs)), tuple(map(_normal, outputs))) for inputs, outputs in data)
    return Case(test.name, test.kind, model, normal, test.rtol, test.atol, outside(model))


def _stored(folder: Path) -> tuple[Values, Values]:
    """The tensors of a data set on disk."""
    return tuple(_tensors(folder, "input")), tuple(_tensors(folder, "output"))


def _tensors(folder: Path, what: str) -> Iterator[TensorProto]:
    for number in range(len(list(folder.glob(f"{what}_*.pb")))):
        tensor = TensorProto()
        tensor.ParseFromString((folder / f"{what}_{number}.pb").read_bytes())
        yield tensor


def _normal(value: Any) -> Any:
    """Tensors as numpy arrays, also those that the suite gives as protos, as numbers or in lists."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_normal(each) for each in value]
    if isinstance(value, onnx.SequenceProto | onnx.OptionalProto | onnx.SparseTensorProto) or value is None:
        return value
    return np.asarray(value)


def outside(model: onnx.ModelProto) -> str:
    """Why a model is not one of numeric tensors without control flow; empty where it is."""
    graph = model.graph
    for value in (*graph.input, *graph.output):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"'{value.name}' is no tensor but a {(kind or 'value without a type').removesuffix('_type')}"
        element = value.type.tensor_type.elem_type
        if element in NO_NUMBERS:
            return f"'{value.name}' has {TensorProto.DataType.Name(element)} elements"
    for node in nodes_of(graph.node):
        if node.op_type in CONTROL_FLOW:
            return f"control flow: {node.op_type}"
    return ""


def nodes_of(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from nodes_of(graph.node)


__all__ = ["KINDS", "MODES", "Case", "all_cases", "nodes_of"]
