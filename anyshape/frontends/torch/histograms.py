"""Histograms, whose edges export has no rule for, in ops that it can take."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def _outer_edges(x: Tensor, bounds: Sequence[float] | None) -> tuple[Tensor, Tensor]:
    """The least and the largest element, 0 and 1 of none, or the bounds that are given; where they are equal ½ more on each side."""
    if bounds is not None and bounds[0] != bounds[1]:
        return torch.full((), bounds[0], dtype=x.dtype), torch.full((), bounds[1], dtype=x.dtype)
    if bounds is None:
        ends = (torch.full((1,), sign * math.inf, dtype=x.dtype) for sign in (1, -1))
        low, high = (torch.cat([x.reshape(-1), end]) for end in ends)
        low, high = low.min(), high.max()
        is_empty = low > high
        low, high = torch.where(is_empty, 0.0, low), torch.where(is_empty, 1.0, high)
    else:
        low = high = torch.full((), bounds[0], dtype=x.dtype)
    more = torch.where(low == high, 0.5, 0.0).to(x.dtype)
    return low - more, high + more


def _edges(x: Tensor, bins: int, bounds: Sequence[float] | None) -> Tensor:
    """bins + 1 points at equal distances, each reckoned from the nearer end."""
    low, high = _outer_edges(x, bounds)
    place = torch.arange(bins + 1)
    step = (high - low) / bins
    from_low, from_high = low + step * place, high - step * (bins - place)
    return torch.where(place < (bins + 1) // 2, from_low, from_high)


def _histogram(points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, *, density: bool) -> Tensor:
    """How many rows of points [n, d], or what weight of them, lie in each box of d bins; the last bins have their upper edges too."""
    share = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    box, inside = torch.zeros_like(share, dtype=torch.int64), torch.ones_like(share, dtype=torch.bool)
    sizes = [each.shape[0] - 1 for each in edges]
    for column, edge, size in zip(points.unbind(-1), edges, sizes, strict=True):
        place = (torch.searchsorted(edge.contiguous(), column.contiguous(), right=True) - 1).clamp(max=size - 1)
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        box = box * size + place.clamp(min=0)
    share = torch.where(inside, share, torch.zeros_like(share))
    histogram = torch.zeros(math.prod(sizes), dtype=points.dtype).scatter_add(0, box, share).reshape(sizes)
    if density:
        histogram = histogram / histogram.sum()
        for axis, edge in enumerate(edges):
            widths = edge[1:] - edge[:-1]
            histogram = histogram / widths.reshape([-1 if each == axis else 1 for each in range(len(edges))])
    return histogram


def histogram(
    x: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """torch.histogram: how many elements, or what weight of them, lie in each bin; the last bin has its upper edge too."""
    edges = bins if isinstance(bins, Tensor) else _edges(x, bins, range)
    histogram = _histogram(x.reshape(-1, 1), [edges], weight, density=density)
    return torch.return_types.histogram((histogram, edges))


def histogramdd(
    x: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """torch.histogramdd: how many rows of x [.., d], or what weight of them, lie in each box of d bins; the last have upper edges too."""
    points = x.reshape(-1, x.shape[-1])
    count = points.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(f"torch.histogramdd: got {len(bins)} numbers of bins or edges for {count} dimensions")
    bounds = [None] * count if range is None else [range[2 * each : 2 * each + 2] for each in builtins.range(count)]
    edges = tuple(
        each if isinstance(each, Tensor) else _edges(column, each, bound)
        for each, column, bound in zip(bins, points.unbind(-1), bounds, strict=True)
    )
    return torch.return_types.histogramdd((_histogram(points, edges, weight, density=density), edges))


__all__ = ["histogram", "histogramdd"]
