"""Cases of the domain `com.microsoft`: one node each at several sizes, and how its results compare with ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper

import anyshape

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Call: TypeAlias = Mapping[str, Array]

MICROSOFT = "com.microsoft"
OPSET = 17


_state: Any = onnxruntime.capi.onnxruntime_pybind11_state
_REFUSALS: Any = (_state.NotImplemented, _state.Fail, _state.RuntimeException)


class NotImplementedByPeer(Exception):
    """ONNX Runtime has no kernel for the case."""


@dataclass(frozen=True)
class ContribCase:
    """One node and its calls.

    Attributes:
        op: of the domain `com.microsoft`.
        variant: what is particular about the case.
        inputs: the node's, in order; an empty name is an input that is left out.
        calls: the inputs that the caller gives. Axes that differ between calls are symbolic, each with a symbol of its own.
        constants: the other inputs.
        outputs: how many the node has.
        relative, absolute: how far from ONNX Runtime results may be; the absolute one for a tensor whose largest element is 1.
        codes: how far integers may be: by one where both round a number that lies between two.
    """

    op: str
    variant: str
    inputs: Sequence[str]
    calls: Sequence[Call]
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    relative: float = 1e-4
    absolute: float = 1e-5
    codes: int = 0

    @property
    def name(self) -> str:
        return f"contrib/{self.op}/{self.variant}"

    def model(self) -> ModelProto:
        """The node as a model."""
        results = [f"y{number}" for number in range(self.outputs)]
        node = helper.make_node(self.op, list(self.inputs), results, domain=MICROSOFT, name="node", **self.attributes)
        first = self.calls[0]
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), self._sizes(name))
            for name, array in first.items()
        ]
        graph = helper.make_graph(
            [node],
            "contrib",
            infos,
            [helper.make_empty_tensor_value_info(name) for name in results],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _sizes(self, name: str) -> list[int | str]:
        shapes = [call[name].shape for call in self.calls]
        return [
            sizes[0] if len(set(sizes)) == 1 else f"{name}.{axis}"
            for axis, sizes in enumerate(zip(*shapes, strict=True))
        ]


def compared(case: ContribCase) -> str:
    """Compile the case once and compare all of its calls; says how near they came. AssertionError where one is not near enough."""
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expected = [session.run(None, dict(call)) for call in case.calls]
    except _REFUSALS as error:
        raise NotImplementedByPeer(" ".join(str(error).split())[:200]) from error
    program = anyshape.compile(model)
    worst = 0.0
    for call, wanted in zip(case.calls, expected, strict=True):
        results = program(**call)
        listed = list(results) if isinstance(results, tuple) else [results]
        assert len(listed) == len(wanted), f"{len(listed)} results instead of {len(wanted)}"
        for got, want in zip(listed, wanted, strict=True):
            worst = max(worst, _distance(got, np.asarray(want), case))
    return f"{len(case.calls)} calls, {worst:.1e} off at most"


def _distance(got: Array, want: Array, case: ContribCase) -> float:
    """The largest difference: relative to the largest element, or in codes."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    )
    if got.dtype.kind in "iu":
        off = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        assert off <= case.codes, f"{off} codes away: {got.ravel()[:8]} instead of {want.ravel()[:8]}"
        return float(off)
    largest = float(np.abs(want).max(initial=0))
    wide, wanted = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(wide, wanted, rtol=case.relative, atol=case.absolute * max(largest, 1e-30))
    return float(np.abs(wide - wanted).max(initial=0)) / max(largest, 1e-30)


# -- numbers -------------------------------------------------------------------------------------------------------------


def floats(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + 7 * sum(shape) + len(shape)).standard_normal(shape).astype(dtype)


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed + sum(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights_of(dtype: Any, *shape: int, seed: int = 0) -> Array:
    """Codes of the right factor of a product: of i8 seven bits, since ONNX Runtime's sums of two products saturate without VNNI."""
    drawn = codes(*shape, dtype=dtype, seed=seed)
    return drawn >> 1 if dtype == np.int8 else drawn


def tolerance(dtype: Any) -> dict[str, float]:
    """What f16 is held to beside f32."""
    return {} if dtype == np.float32 else {"relative": 5e-3, "absolute": 4e-3}


FLOATS = (np.float32, np.float16)
CODES = (np.uint8, np.int8)
SEQUENCES = ((1, 1), (2, 5), (3, 17))
"""Batch and length of calls."""
