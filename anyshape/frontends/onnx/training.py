"""Steps of optimisers, of the domain ai.onnx.preview.training: each takes the tensors of one state after another, X₁ X₂ … G₁ G₂ …"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.dialects.dhlo import Add, Divide, Multiply, Power, Sqrt, Subtract
from anyshape.dialects.dtypes import DType
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor

TRAINING = "ai.onnx.preview.training"


def _stepped(values: Sequence[Value], states: int, step: Callable[..., tuple[Tensor, ...]]) -> list[Tensor]:
    """What `step` gives for the i-th of each of `states` groups of tensors, its results grouped like them."""
    if not values or len(values) % states:
        raise Malformed(f"{len(values)} tensors are not {states} for each that is optimised")
    count = len(values) // states
    results = [step(*values[place::count]) for place in range(count)]
    return [each for group in zip(*results, strict=True) for each in group]


def _regular(b: GraphBuilder, x: Value, gradient: Value, norm: float) -> Tensor:
    """The gradient of the loss plus norm/2·‖x‖²"""
    return b.binary(Add, b.binary(Multiply, x, norm), b.with_sizes(gradient, x.sizes, "the gradient"))


def _scaled(b: GraphBuilder, rate: Value, x: Value) -> Tensor:
    return b.binary(Multiply, b.convert(b.reshape(rate, ()), x.dtype), x)


@lowers("Momentum", domain=TRAINING)
def lower_momentum(
    b: GraphBuilder,
    rate: Value,
    count: Value,
    *values: Value,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> list[Tensor]:
    """v' = α·v + β·g, β being 1 in the first step; x' = x − rate·v', or x − rate·(g + α·v') where the mode is nesterov"""
    if mode not in ("standard", "nesterov"):
        raise Malformed(f"the mode is {mode!r}; expected standard or nesterov")

    def step(x: Value, gradient: Value, velocity: Value) -> tuple[Tensor, Tensor]:
        g = _regular(b, x, gradient, norm_coefficient)
        is_later = b.compare("gt", b.reshape(count, ()), 0)
        share = b.select(is_later, b.constant(beta, x.dtype), b.constant(1, x.dtype))
        kept = b.binary(Multiply, b.with_sizes(velocity, x.sizes, "the momentum"), alpha)
        new = b.binary(Add, kept, b.binary(Multiply, share, g))
        change = b.binary(Add, g, b.binary(Multiply, new, alpha)) if mode == "nesterov" else new
        return b.binary(Subtract, x, _scaled(b, rate, change)), new

    return _stepped(values, 3, step)


@lowers("Adagrad", domain=TRAINING)
def lower_adagrad(
    b: GraphBuilder,
    rate: Value,
    count: Value,
    *values: Value,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Tensor]:
    """h' = h + g²; x' = x − rate/(1 + t·decay)·g/(√h' + ε)"""

    def step(x: Value, gradient: Value, squares: Value) -> tuple[Tensor, Tensor]:
        g = _regular(b, x, gradient, norm_coefficient)
        steps = b.convert(b.reshape(count, ()), x.dtype)
        slower = b.binary(Add, b.binary(Multiply, steps, decay_factor), 1)
        new = b.binary(Add, b.with_sizes(squares, x.sizes, "the squares"), b.binary(Multiply, g, g))
        change = _scaled(b, rate, b.binary(Divide, g, b.binary(Add, b.emit(Sqrt, new), epsilon)))
        return b.binary(Subtract, x, b.binary(Divide, change, slower)), new

    return _stepped(values, 3, step)


@lowers("Adam", domain=TRAINING)
def lower_adam(
    b: GraphBuilder,
    rate: Value,
    count: Value,
    *values: Value,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Tensor]:
    """v' = α·v + (1 − α)·g; h' = β·h + (1 − β)·g²; x' = (1 − post)·(x − rate·√(1 − βᵗ)/(1 − αᵗ)·v'/(√h' + ε)), the factor 1 for t = 0"""

    def step(x: Value, gradient: Value, mean: Value, squares: Value) -> tuple[Tensor, Tensor, Tensor]:
        g = _regular(b, x, gradient, norm_coefficient)
        new = _moving(b, b.with_sizes(mean, x.sizes, "the mean"), g, alpha)
        spread = _moving(b, b.with_sizes(squares, x.sizes, "the squares"), b.binary(Multiply, g, g), beta)
        change = _scaled(b, rate, b.binary(Divide, new, b.binary(Add, b.emit(Sqrt, spread), epsilon)))
        change = b.binary(Multiply, change, _correction(b, count, alpha, beta, x.dtype))
        return b.binary(Multiply, b.binary(Subtract, x, change), 1 - norm_coefficient_post), new, spread

    return _stepped(values, 4, step)


def _moving(b: GraphBuilder, old: Tensor, new: Tensor, share: float) -> Tensor:
    """share·old + (1 − share)·new"""
    return b.binary(Add, b.binary(Multiply, old, share), b.binary(Multiply, new, 1 - share))


def _correction(b: GraphBuilder, count: Value, alpha: float, beta: float, dtype: DType) -> Tensor:
    """√(1 − βᵗ)/(1 − αᵗ), or 1 for t = 0"""
    t = b.reshape(count, ())
    above, below = (
        b.binary(Subtract, 1, b.emit(Power, b.constant(base, dtype), b.convert(t, dtype))) for base in (beta, alpha)
    )
    return b.select(b.compare("gt", t, 0), b.binary(Divide, b.emit(Sqrt, above), below), 1)


__all__: list[str] = []
