"""What the zoo knows about a model: how to make it at two scales, and its inputs at any batch and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

Inputs = Mapping[str, torch.Tensor]
SEED = 0


@dataclass(frozen=True)
class Entry:
    """A model that people run, with random weights.

    Attributes:
        name: as in the tables.
        small: makes the architecture with few and narrow layers, for tests.
        real: makes it with the sizes that people run.
        inputs: (model, batch, size) -> the arguments of a call, all by name; random values by PyTorch's generator.
        size: what the second number of a shape counts.
        sizes: sizes that tests call the small model with; the first is not the example's.
        example: the size that a model is compiled from.
        real_size: the size that tables measure the real model at.
        tolerance: how far results may be from eager in f32, of the largest magnitude of each result.
    """

    name: str
    small: Callable[[], nn.Module]
    real: Callable[[], nn.Module]
    inputs: Callable[[nn.Module, int, int], Inputs]
    size: str = "length"
    sizes: tuple[int, ...] = (1, 2, 9, 33)
    example: int = 6
    real_size: int = 128
    tolerance: float = 2e-5

    def make(self, *, small: bool) -> nn.Module:
        """The model in inference mode, with the same weights at each call."""
        torch.manual_seed(SEED)
        return (self.small if small else self.real)().eval()

    def call(self, module: nn.Module, batch: int, size: int) -> Inputs:
        """The inputs of a shape, the same at each call."""
        torch.manual_seed(1000 * batch + size)
        return self.inputs(module, batch, size)


class Outputs(nn.Module):
    """A model of `transformers` or `diffusers` whose call returns named results, of which these are wanted, as a tuple."""

    def __init__(self, model: nn.Module, *names: str, **settings: object) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.settings = settings

    def forward(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(**inputs, **self.settings)
        return tuple(getattr(results, name) for name in self.names)


__all__ = ["SEED", "Entry", "Inputs", "Outputs"]
