"""Runs one case of the suite through our `Backend`, and says whether its results are right."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.test.runner import Runner

import anyshape
from anyshape.driver import onnx_backend
from anyshape.support.errors import UnsupportedOps
from tests.onnx_suite.cases import Case

RANDOM = frozenset(
    {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
)
"""Ops whose results have a type and a shape, but no expected values."""
INNERMOST = 300
"""Characters of a reason that are kept."""


@dataclass
class Outcome:
    """What became of a case: exactly one of the first four is 1.

    Attributes:
        reasons: why it is not right.
        bound: the inputs whose values became part of the program, as shapes and axes do.
    """

    right: int = 0
    refused: int = 0
    wrong: int = 0
    failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    bound: tuple[str, ...] = ()
    seconds: float = 0.0


def run(case: Case, mode: str, options: anyshape.Options) -> Outcome:
    """Compile the case's model, with every axis of every input symbolic where `mode` says so, and compare its results."""
    start, outcome = time.perf_counter(), Outcome()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run(case, mode, options, outcome)
        outcome.right = 1
    except UnsupportedOps as error:
        outcome.refused = 1
        outcome.reasons = {f"{op.name}: {op.reason}": 1 for op in error.ops}
    except AssertionError as error:
        outcome.wrong = 1
        outcome.reasons = {_one_line(error): 1}
    except Exception as error:
        outcome.failed = 1
        outcome.reasons = {f"{type(error).__name__}: {_one_line(error)}": 1}
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome


def _run(case: Case, mode: str, options: anyshape.Options, outcome: Outcome) -> None:
    shapes = symbolic_shapes(case.model) if mode == "symbolic" else None
    prepared = onnx_backend.prepare(case.model, dynamic_shapes=shapes, options=options)
    for inputs, expected in case.data:
        results = prepared.run(inputs)
        outcome.bound = prepared.bound
        if case.ops & RANDOM or _drops(case, inputs):
            _same_kinds(results, expected)
        else:
            Runner.assert_similar_outputs(expected, list(results), case.relative, case.absolute)


def _drops(case: Case, inputs: Sequence[Any]) -> bool:
    """Whether a Dropout in training makes results random: one whose ratio is 0 drops nothing."""
    given = dict(zip((each.name for each in case.model.graph.input), inputs, strict=False))
    for node in case.model.graph.node:
        if node.op_type == "Dropout" and len(node.input) > 2 and given.get(node.input[2]):
            return bool(given[node.input[1]]) if node.input[1] else True
    return False


def symbolic_shapes(model: ModelProto) -> dict[str, tuple[str, ...]]:
    """A symbol of its own for every axis of every input that has a rank."""
    constants = {each.name for each in model.graph.initializer}
    return {
        value.name: tuple(f"{value.name}.{axis}" for axis in range(len(value.type.tensor_type.shape.dim)))
        for value in model.graph.input
        if value.name not in constants and value.type.tensor_type.HasField("shape")
    }


def _same_kinds(results: Sequence[Any], expected: Sequence[Any]) -> None:
    """AssertionError where shapes or dtypes differ."""
    kinds = [[(np.shape(each), each.dtype) for each in values] for values in (results, expected)]
    assert kinds[0] == kinds[1], f"{kinds[0]} instead of {kinds[1]}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:INNERMOST]


__all__ = ["Outcome", "run", "symbolic_shapes"]
