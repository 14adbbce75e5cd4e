"""Output strides: PyTorch lays out code that follows by the strides of the fake tensor, so the real ones must be the same."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from anyshape.frontends.torch.sizes import SizeNames
from anyshape.symbolic import Facts, Size, size_max


@dataclass(frozen=True)
class Permuted:
    """Row-major in another order of axes: memory order `order`, outermost first."""

    order: tuple[int, ...]

    @property
    def inverse(self) -> tuple[int, ...]:
        """The permutation that takes a row-major tensor of the permuted sizes to the output."""
        return tuple(self.order.index(axis) for axis in range(len(self.order)))


@dataclass(frozen=True)
class Strided:
    """Any other strides, in elements."""

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]

    def placed(self, result: torch.Tensor, values: Mapping[str, int]) -> torch.Tensor:
        """A copy of `result` with these strides."""
        sizes, strides = _numbers(self.sizes, values), _numbers(self.strides, values)
        for axis, stride in enumerate(strides):
            if stride == 0 and sizes[axis] > 1:  # all its elements are one
                result = result.narrow(axis, 0, 1)
        target = torch.empty_strided(result.shape, strides, dtype=result.dtype)
        return target.copy_(result).expand(sizes)


def _numbers(sizes: Sequence[Size], values: Mapping[str, int]) -> list[int]:
    return [size.evaluate(values) for size in sizes]


Layout: TypeAlias = Permuted | Strided | None
"""How the elements of an output lie in memory; None is row-major."""


def layout_of(value: torch.Tensor, names: SizeNames, facts: Facts) -> Layout:
    """The layout that a fake tensor has."""
    sizes, strides = names.sizes(value.shape), names.sizes(value.stride())
    hints = [int(stride.node.hint) if isinstance(stride, torch.SymInt) else int(stride) for stride in value.stride()]
    extents = [int(size.node.hint) if isinstance(size, torch.SymInt) else int(size) for size in value.shape]
    order = tuple(sorted(range(len(sizes)), key=lambda axis: (-hints[axis], extents[axis] == 1, axis)))
    if not _is_row_major([sizes[axis] for axis in order], [strides[axis] for axis in order], facts):
        return Strided(sizes, strides)
    return None if order == tuple(range(len(sizes))) else Permuted(order)


def _is_row_major(sizes: Sequence[Size], strides: Sequence[Size], facts: Facts) -> bool:
    """Whether stride i is the product of the sizes after i; where a size is 1 its stride moves nothing, where 0 none does."""
    inner = Size.const(1)
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != Size.const(1) and stride != inner and facts.prove(stride.eq(inner)) is not True:
            return False
        # PyTorch counts an axis of 0 as 1 in the strides of those outside it.
        at_least_one = size if facts.prove(size.ge(1)) is True or not size.is_constant else size_max(size, 1)
        inner = inner * at_least_one
    return True


__all__ = ["Layout", "Permuted", "Strided", "layout_of"]
