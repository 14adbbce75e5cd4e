"""A module that is traced keeps its numbers: some models store in themselves what they compute from sizes."""

# Attributes of modules are of any type.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_MISSING = object()
_NUMBERS = int | float | torch.SymInt | torch.SymFloat | torch.SymBool


@contextmanager
def left_as_it_was(module: nn.Module) -> Generator[None]:
    """Put back the attributes of a module and its parts that became numbers, or lists and tuples of numbers, inside, or other ones.

    They would be symbols of the trace, or sizes of an example of ours, and the next call of the module in eager mode would meet them. What
    else changes stays: flags and hooks that a library sets up at the first call belong together. Only what differs is touched, so that
    another thread may call the module meanwhile. Parameters and buffers are PyTorch's to restore.
    """
    before = [(part, dict(part.__dict__), _contents_of_lists(part)) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes, contents in before:
            for name, value in list(part.__dict__.items()):
                known = attributes.get(name, _MISSING)
                if known is not value and _is_numbers(value):
                    if known is _MISSING:
                        del part.__dict__[name]
                    else:
                        part.__dict__[name] = known
            for kept, items in contents:
                if _is_numbers(kept) and not _are_same(kept, items):
                    kept[:] = items


def _is_numbers(value: Any) -> bool:
    """Whether it is a number, no truth value, or a list or tuple of such, nested or not."""
    if isinstance(value, list | tuple):
        return all(map(_is_numbers, value))
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _contents_of_lists(part: nn.Module) -> list[tuple[list[Any], list[Any]]]:
    """The attributes that are lists of numbers, which a model may write to, and their elements."""
    return [(value, list(value)) for value in part.__dict__.values() if isinstance(value, list) and _is_numbers(value)]


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """Whether the elements are the same objects: comparing symbols would ask for conditions."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


__all__ = ["left_as_it_was"]
