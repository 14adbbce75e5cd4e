"""The steps that random PyTorch graphs are made of: continuous, so that f32 stays near f64, and values stay moderate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Attributes = tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """`apply` of `arity` tensors and some attributes, which `draw` draws for a first operand of some rank."""

    arity: int
    apply: Callable[..., Tensor]
    draw: Callable[[Random, int], Attributes] = lambda choose, rank: ()


def _axis(choose: Random, rank: int) -> Attributes:
    return (choose.randrange(max(rank, 1)),)


def _two_axes(choose: Random, rank: int) -> Attributes:
    return choose.randrange(max(rank, 1)), choose.randrange(max(rank, 1))


def _axis_and_amount(choose: Random, rank: int) -> Attributes:
    return choose.randrange(max(rank, 1)), choose.choice((-2, -1, 1, 2, 3))


def _cut(x: Tensor, axis: int, part: slice) -> Tensor:
    return x[(slice(None),) * axis + (part,)]


def _weights(*shape: int) -> Tensor:
    """The same numbers wherever a graph has weights of this shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64) / 3


def _like(x: Tensor, weights: Tensor) -> Tensor:
    return weights.to(x.dtype)


def _linear(x: Tensor, width: int) -> Tensor:
    return F.linear(x, _like(x, _weights(width, 12)), _like(x, _weights(width)))


def _convolution(x: Tensor, stride: int) -> Tensor:
    return F.conv1d(x, _like(x, _weights(5, 4, 3)), None, stride, padding=1).tanh()


def _masked(x: Tensor, first: int, second: int) -> Tensor:
    """Lower triangles stay."""
    rows, columns = (
        torch.arange(x.shape[axis]).view([-1 if a == axis else 1 for a in range(x.dim())]) for axis in (first, second)
    )
    return torch.where(rows >= columns, x, -1.0)


UNARY: Mapping[str, Op] = {
    name: Op(1, function)
    for name, function in {
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
        "neg": torch.neg,
        "abs": torch.abs,
        "gelu": F.gelu,
        "silu": F.silu,
        "softplus": F.softplus,
        "exp": lambda x: x.tanh().exp(),
        "sin": torch.sin,
        "square": lambda x: x.tanh().square(),
        "sqrt": lambda x: (x.abs() + 0.25).sqrt(),
        "reciprocal": lambda x: 1 / (x.abs() + 0.5),
        "clamp": lambda x: x.clamp(-0.5, 1),
        "flatten": lambda x: x.flatten(),
        "reversed": lambda x: x.reshape(x.shape[::-1]),
        "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
        "sum": lambda x: x.sum().tanh(),
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1),
        "attention": lambda x: F.scaled_dot_product_attention(x, x.tanh(), x),
        "max_pool": lambda x: F.max_pool1d(x, 3, 2, 1),
        "pad": lambda x: F.pad(x, (1, 2), value=0.5),
    }.items()
}

ALONG: Mapping[str, Op] = {
    name: Op(1, function, _axis)
    for name, function in {
        "softmax": lambda x, axis: x.softmax(axis),
        "log_softmax": lambda x, axis: x.log_softmax(axis),
        "sum_along": lambda x, axis: x.sum(axis).tanh(),
        "sum_kept": lambda x, axis: x - x.sum(axis, keepdim=True).tanh(),
        "mean": lambda x, axis: x.mean(axis),
        "centred": lambda x, axis: x - x.mean(axis, keepdim=True),
        "variance": lambda x, axis: x.tanh().var(axis, correction=0),
        "amax": lambda x, axis: x.amax(axis, keepdim=True),
        "amin": lambda x, axis: x.amin(axis),
        "logsumexp": lambda x, axis: x.logsumexp(axis),
        "cumsum": lambda x, axis: x.tanh().cumsum(axis).tanh(),
        "cummax": lambda x, axis: x.cummax(axis).values,
        "flip": lambda x, axis: x.flip(axis),
        "unsqueeze": lambda x, axis: x.unsqueeze(axis),
        "rest": lambda x, axis: _cut(x, axis, slice(1, None)),
        "differences": lambda x, axis: _cut(x, axis, slice(1, None)) - _cut(x, axis, slice(None, -1)),
        "first": lambda x, axis: _cut(x, axis, slice(None, 3)),
        "every_second": lambda x, axis: _cut(x, axis, slice(None, None, 2)),
        "half": lambda x, axis: x.narrow(axis, 0, x.shape[axis] // 2),
        "sorted": lambda x, axis: x.sort(axis).values,
        "repeated": lambda x, axis: torch.cat([x, x], axis),
        "picked": lambda x, axis: x.index_select(axis, torch.arange(x.shape[axis]).flip(0)),
        "flatten_from": lambda x, axis: x.flatten(axis),
    }.items()
}

OPS: Mapping[str, Op] = {
    **UNARY,
    **ALONG,
    "roll": Op(1, lambda x, axis, amount: x.roll(amount, axis), _axis_and_amount),
    "transpose": Op(1, lambda x, a, b: x.transpose(a, b), _two_axes),
    "masked": Op(1, _masked, _two_axes),
    "linear": Op(1, _linear, lambda choose, rank: (choose.choice((12, 5, 70)),)),
    "convolution": Op(1, _convolution, lambda choose, rank: (choose.choice((1, 2)),)),
    "add": Op(2, lambda x, y: x + y),
    "sub": Op(2, lambda x, y: x - y),
    "mul": Op(2, lambda x, y: x * y.tanh()),
    "div": Op(2, lambda x, y: x / (y.abs() + 0.5)),
    "maximum": Op(2, torch.maximum),
    "minimum": Op(2, torch.minimum),
    "lerp": Op(2, lambda x, y: torch.lerp(x, y, 0.25)),
    "cat": Op(2, lambda x, y, axis: torch.cat([x, y], axis), _axis),
    "stack": Op(2, lambda x, y, axis: torch.stack([x, y], axis), _axis),
    "matmul": Op(2, lambda x, y: (x.tanh() @ y.tanh().transpose(-1, -2)) / 4),
    "outer": Op(2, lambda x, y: x.unsqueeze(-1) * y.tanh().unsqueeze(-2)),
}


def apply(name: str, operands: list[Tensor], attributes: Attributes) -> Any:
    """The result of a step."""
    return OPS[name].apply(*operands, *attributes)
