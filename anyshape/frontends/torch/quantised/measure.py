"""How far quantised weights move the outputs of layers and of a model, by one run of each."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.quantised.layers import QuantisedLinear, QuantisedModule
from anyshape.frontends.torch.quantised.report import OutputError

BLOCK = 32
"""Elements of a row that kernels round with one scale."""


@dataclass
class Distance:
    """‖y − ŷ‖ / ‖y‖ over all that was added."""

    difference: float = 0.0
    norm: float = 0.0

    def add(self, expected: torch.Tensor, got: torch.Tensor) -> None:
        expected = expected.double()
        self.difference += (expected - got.double()).square().sum().item()
        self.norm += expected.square().sum().item()

    @property
    def relative(self) -> float:
        if self.difference == 0:
            return 0.0
        return (self.difference / self.norm) ** 0.5 if self.norm else float("inf")


class LayerDistances:
    """A forward hook of an original layer: compares its outputs with those of the quantised one for the same inputs."""

    def __init__(self, quantised: QuantisedModule) -> None:
        self._quantised = quantised
        self._exact, self._int8 = Distance(), Distance()
        self._calls = 0

    def __call__(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor) -> None:
        (x,) = (*args, *kwargs.values())
        self._calls += 1
        is_linear = isinstance(self._quantised, QuantisedLinear)
        exact, int8 = self._quantised(torch.stack([x, rounded(x) if is_linear else x]))  # weights are decoded once
        self._exact.add(output, exact)
        self._int8.add(output, int8)

    @property
    def error(self) -> OutputError | None:
        """None for a layer that was not called."""
        return OutputError(self._exact.relative, self._int8.relative) if self._calls else None


def rounded(x: torch.Tensor) -> torch.Tensor:
    """x with each 32 elements of a row as integers from −127 to 127 times a scale, as products with int8 activations take it."""
    blocks = x.unflatten(-1, (-1, BLOCK)).to(torch.promote_types(x.dtype, torch.float32))
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    return torch.where(scale == 0, blocks, (blocks / scale).round() * scale).flatten(-2).to(x.dtype)


def measure(
    model: nn.Module,
    quantised: nn.Module,
    pairs: Sequence[tuple[nn.Module, QuantisedModule]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[list[OutputError | None], OutputError]:
    """The errors of the layers in `pairs` (original, quantised), each for itself, and of the model's floating results."""
    distances = [LayerDistances(layer) for _, layer in pairs]
    linear = {layer for _, layer in pairs if isinstance(layer, QuantisedLinear)}
    with torch.no_grad(), ExitStack() as hooks:
        for (original, _), distance in zip(pairs, distances, strict=True):
            hooks.callback(original.register_forward_hook(distance, with_kwargs=True).remove)
        expected = model(*args, **kwargs)
        hooks.close()
        exact = _distance(expected, quantised(*args, **kwargs))
        for layer in linear:
            hooks.callback(layer.register_forward_pre_hook(_round_first).remove)
        int8 = _distance(expected, quantised(*args, **kwargs))
    return [distance.error for distance in distances], OutputError(exact, int8)


def _round_first(_module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(map(rounded, args))


def _distance(expected: Any, got: Any) -> float:
    distance = Distance()
    for a, b in zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True):
        if isinstance(a, torch.Tensor) and a.is_floating_point():
            distance.add(a, b)
    return distance.relative


__all__ = ["BLOCK", "measure", "rounded"]
