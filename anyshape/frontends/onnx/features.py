"""Ops on features of the domain ai.onnx.ml that are tensor ops."""

from __future__ import annotations

from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.movement import from_start
from anyshape.frontends.onnx.places import gathered
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value

CLASSICAL = "ai.onnx.ml"


@lowers("ArrayFeatureExtractor", domain=CLASSICAL)
def lower_array_feature_extractor(b: GraphBuilder, x: Value, indices: Value) -> Value:
    """result[…, i] = x[…, indices[i]]; a vector x is one row"""
    b.check_rank(x, 1)
    at = b.convert(b.reshape(indices, (numel(indices.sizes),)), I64)
    rows = b.reshape(x, (1, *x.sizes)) if x.rank == 1 else b.tensor(x)
    last = rows.rank - 1
    return gathered(b, rows, (last,), [from_start(b, at, rows.sizes[last])], last)


@lowers("Binarizer", domain=CLASSICAL)
def lower_binarizer(b: GraphBuilder, x: Value, *, threshold: float = 0.0) -> Value:
    """1 where x > threshold, else 0"""
    return b.convert(b.compare("gt", x, b.constant(threshold, x.dtype)), x.dtype)


__all__: list[str] = []
