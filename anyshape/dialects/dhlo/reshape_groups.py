"""Which axes of a reshape's operand become which axes of its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from anyshape.symbolic import Size, SizeLike

AxisGroup: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def reshape_groups(source: Sequence[SizeLike], target: Sequence[SizeLike]) -> list[AxisGroup]:
    """Pairs (source axes, target axes) that a row-major reshape maps on each other, every axis in exactly one pair.

    [b, s, 384] -> [b, s, 12, 32] gives ((0,), (0,)), ((1,), (1,)), ((2,), (2, 3)). Groups are as small as equality of normal forms
    can show. An axis of constant size 1 is a pair of its own with (). Where the products of two sides are equal only by
    facts, what the leading and the trailing axes cannot match is one group, whose products are then equal by construction.
    """
    sources, targets = [Size.of(size) for size in source], [Size.of(size) for size in target]
    if any(size.is_constant and size.value == 0 for size in (*sources, *targets)):
        return [(tuple(range(len(sources))), tuple(range(len(targets))))]
    kept_source, kept_target = _not_one(sources), _not_one(targets)
    cuts = _cuts([sources[axis] for axis in kept_source], [targets[axis] for axis in kept_target])
    groups: list[AxisGroup] = [((axis,), ()) for axis in range(len(sources)) if axis not in kept_source]
    groups += [((), (axis,)) for axis in range(len(targets)) if axis not in kept_target]
    for (i, j), (next_i, next_j) in pairwise(cuts):
        groups.append((tuple(kept_source[i:next_i]), tuple(kept_target[j:next_j])))
    return sorted(groups, key=_order)


def _not_one(sizes: Sequence[Size]) -> list[int]:
    return [axis for axis, size in enumerate(sizes) if not (size.is_constant and size.value == 1)]


def _products(sizes: Iterable[Size]) -> list[Size]:
    """The products of the first 0, 1, 2, … sizes."""
    products = [Size.const(1)]
    for size in sizes:
        products.append(products[-1] * size)
    return products


def _cuts(source: Sequence[Size], target: Sequence[Size]) -> list[tuple[int, int]]:
    """Positions (i, j), increasing in both, at which both sides have as many elements before, or as many after."""
    end = (len(source), len(target))
    positions = {product: j for j, product in enumerate(_products(target))}
    leading = [(i, positions[product]) for i, product in enumerate(_products(source)) if product in positions]
    if leading[-1] == end:
        return leading
    positions = {product: len(target) - k for k, product in enumerate(_products(reversed(target)))}
    backward = enumerate(_products(reversed(source)))
    trailing = [(len(source) - k, positions[product]) for k, product in backward if product in positions]
    last = leading[-1]
    cuts = leading + [cut for cut in reversed(trailing) if cut[0] > last[0] and cut[1] > last[1]]
    if cuts[-1] != end:  # one side is used up: what the other has left, 1 by facts, joins the last group
        cuts[max(1, len(cuts) - 1) :] = [end]
    return cuts


def _order(group: AxisGroup) -> tuple[int, int]:
    source, target = group
    return (source[0] if source else target[0], 0 if source else 1)


__all__ = ["AxisGroup", "reshape_groups"]
