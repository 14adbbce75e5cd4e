"""A module that is traced keeps its attributes: some models store in themselves what they compute from sizes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torch import nn

_MISSING = object()


@contextmanager
def left_as_it_was(module: nn.Module) -> Generator[None]:
    """Put back the attributes of a module and its parts that were set, added or deleted inside.

    They would be symbols of the trace, and the next call of the module in eager mode would meet them. Only what differs is touched, so that
    another thread may call the module meanwhile. Parameters and buffers are PyTorch's to restore.
    """
    before = [(part, dict(part.__dict__)) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            for name in part.__dict__.keys() - attributes.keys():
                del part.__dict__[name]
            for name, value in attributes.items():
                if part.__dict__.get(name, _MISSING) is not value:
                    part.__dict__[name] = value


__all__ = ["left_as_it_was"]
