"""ONNX's losses of classes."""

from __future__ import annotations

from anyshape.dialects.dhlo import Divide, LogSoftmax, Mean, Multiply, Negate, Reduce, Select
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.movement import from_start
from anyshape.frontends.onnx.places import gathered, taken
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor


@lowers("NegativeLogLikelihoodLoss")
def lower_negative_log_likelihood_loss(
    b: GraphBuilder,
    x: Value,
    target: Value,
    weight: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    """−weight[t]·x[n, t, …] for the class t = target[n, …], 0 where that is ignored; their sum, or that over the sum of the weights"""
    if x.rank < 2 or reduction not in ("none", "sum", "mean"):
        raise Malformed(f"x has {x.rank} axes, and the reduction is {reduction!r}")
    batch, classes, *rest = x.sizes
    at = b.convert(b.with_sizes(target, (batch, *rest), "the classes"), I64)
    ignored = None if ignore_index is None else b.compare("eq", at, ignore_index)
    if ignored is not None:
        at = b.emit(Select, ignored, b.constant(0, I64, at.sizes), at)
    at = from_start(b, at, classes)
    picked = b.reshape(taken(b, b.tensor(x), b.reshape(at, (batch, ONE, *rest)), 1), at.sizes)
    loss = b.emit(Negate, picked)
    factors = b.constant(1, x.dtype, at.sizes)
    if weight is not None:
        factors = gathered(b, b.with_sizes(weight, (classes,), "the weights of classes"), (0,), [at], 0)
    if ignored is not None:
        factors = b.select(ignored, 0.0, factors)
        loss = b.select(ignored, 0.0, loss)
    if weight is None and ignored is None and reduction == "mean":
        return b.emit(Mean, loss, axes=tuple(range(loss.rank)))
    loss = b.emit(Multiply, loss, factors)
    if reduction == "none":
        return loss
    total = _sum(b, loss)
    return total if reduction == "sum" else b.emit(Divide, total, _sum(b, factors))


def _sum(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.emit(Reduce, b.reshape(x, (numel(x.sizes),)), axes=(0,), kind="sum")


@lowers("SoftmaxCrossEntropyLoss")
def lower_softmax_cross_entropy_loss(
    b: GraphBuilder,
    scores: Value,
    labels: Value,
    weights: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> list[Value]:
    """(the loss of the logarithms of the softmax over classes, these logarithms)"""
    if scores.rank < 2:
        raise Malformed(f"the scores have {scores.rank} axes")
    logarithms = b.emit(LogSoftmax, scores, axis=1)
    loss = lower_negative_log_likelihood_loss(
        b, logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction
    )
    return [loss, logarithms]


__all__: list[str] = []
