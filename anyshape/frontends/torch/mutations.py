"""A module that is traced keeps its numbers: some models store in themselves what they compute from sizes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import nn

_MISSING = object()
_NUMBERS = int | float | torch.SymInt | torch.SymFloat | torch.SymBool


@contextmanager
def left_as_it_was(module: nn.Module) -> Generator[None]:
    """Put back the attributes of a module and its parts that became numbers inside, or other numbers.

    They would be symbols of the trace, or sizes of an example of ours, and the next call of the module in eager mode would meet them. What
    else changes stays: flags and hooks that a library sets up at the first call belong together. Only what differs is touched, so that
    another thread may call the module meanwhile. Parameters and buffers are PyTorch's to restore.
    """
    before = [(part, dict(part.__dict__)) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            for name, value in list(part.__dict__.items()):
                known = attributes.get(name, _MISSING)
                if known is value or isinstance(value, bool) or not isinstance(value, _NUMBERS):
                    continue
                if known is _MISSING:
                    del part.__dict__[name]
                else:
                    part.__dict__[name] = known


__all__ = ["left_as_it_was"]
