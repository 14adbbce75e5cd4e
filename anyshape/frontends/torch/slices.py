"""Slices with constant bounds: `x[:3]` of two elements has two, and export must not read the bound as a condition on the axis."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.overrides import TorchFunctionMode

from anyshape.frontends.torch.derived import Derived, DerivedSizes
from anyshape.frontends.torch.replacing import replaced_item
from anyshape.symbolic import Size, size_max, size_min


@dataclass(frozen=True)
class SliceLength:
    """The length of `x[start:end:step]`: a `Rule` of the axis' size.

    Attributes:
        start: a constant; counted from the end where it is negative.
        end: the same; None for the end of the axis.
        step: at least 1.
    """

    start: int
    end: int | None
    step: int

    def size(self, parts: Sequence[Size]) -> Size:
        """ceil(n / step) for the number n of elements between the bounds, where they are clamped by the axis."""
        return (self._between(*parts) + self.step - 1) // self.step

    def _between(self, axis: Size) -> Size:
        start, end = self.start, self.end
        if end is None:
            return size_max(axis - start, 0) if start >= 0 else size_min(axis, -start)
        if start >= 0 and end < 0:
            return size_max(axis + end - start, 0)
        if (start < 0) == (end < 0) and end <= start:
            return Size.const(0)
        if start < 0 <= end:
            return size_max(clamped_bound(end, axis) - clamped_bound(start, axis), 0)
        return clamped_bound(end, axis) - clamped_bound(start, axis)

    def value(self, axis: int) -> int:
        """The length in an axis of that size."""
        return len(range(axis)[self.start : self.end : self.step])

    @property
    def is_clamped(self) -> bool:
        """Whether the length at some size is another than that between the bounds as they stand.

        One element at either end is none: nearly all models that take one have one, and an axis of size 1 is worth more to
        them than the same program for no element.
        """
        if (self.start, self.end) in ((0, 1), (-1, None)):
            return False
        return self.end is not None or self.start < 0 or self.start >= self.step


@contextmanager
def slices_clamp(derived: DerivedSizes) -> Generator[None]:
    """While inside, a slice of a dynamic axis with constant bounds that the axis may be shorter than has a length among `derived`."""

    def clamped(
        mode: Any,
        op: Any,
        x: torch.Tensor,
        dim: int = 0,
        start: Any = None,
        end: Any = None,
        step: Any = 1,
    ) -> torch.Tensor:
        if x.dim() == 0 or not -x.dim() <= dim < x.dim():
            return plain(mode, op, x, dim, start, end, step)
        axis, rule = x.shape[dim], constant_bounds(start, end, step)
        if rule is None or not rule.is_clamped or not isinstance(axis, torch.SymInt) or axis.node.hint is None:
            return plain(mode, op, x, dim, start, end, step)
        node = axis.node
        if narrows.inside:
            derived.stated.add(Derived(rule, (node.expr,)))
        if Derived(rule, (node.expr,)) in derived.stated:
            return plain(mode, op, x, dim, start, end, step)
        length = derived.symbol(node.shape_env, rule, (node.expr,), rule.value(node.hint))
        sizes, strides = list[Any](x.shape), list[Any](x.stride())
        first: Any = torch.sym_min(rule.start, axis) if rule.start >= 0 else torch.sym_max(axis + rule.start, 0)
        offset = x.storage_offset() + first * strides[dim]
        sizes[dim], strides[dim] = length, strides[dim] * step
        return torch.as_strided(x, sizes, strides, offset)

    plain: Callable[..., torch.Tensor] = fake_impls.op_implementations_dict[torch.ops.aten.slice.Tensor]
    narrows = _Narrows()
    with narrows, replaced_item(fake_impls.op_implementations_dict, torch.ops.aten.slice.Tensor, clamped):
        yield


class _Narrows(TorchFunctionMode):
    """Notices calls of `narrow`, which become slices, but are errors where the axis is shorter than asked."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        before, self.inside = self.inside, self.inside or func in _NARROWS
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.inside = before


_NARROWS = (torch.narrow, torch.Tensor.narrow)


def constant_bounds(start: object, end: object, step: object) -> SliceLength | None:
    """What the bounds of a slice say of its length; None where one of them is no constant."""
    start = 0 if start is None else start
    end = None if isinstance(end, int) and end >= _OPEN_END else end
    if not isinstance(start, int) or not isinstance(end, int | None) or not isinstance(step, int) or step < 1:
        return None
    return SliceLength(start, end, step)


def clamped_bound(bound: int, size: Size) -> Size:
    """A constant bound as a position in an axis of that size."""
    if bound == 0:
        return Size.const(0)
    return size_min(size, bound) if bound >= 0 else size_max(size + bound, 0)


_OPEN_END = 2**62
"""Bounds from here on mean the end of the axis."""


__all__ = ["SliceLength", "clamped_bound", "constant_bounds", "slices_clamp"]
