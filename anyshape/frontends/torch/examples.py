"""Example inputs with other sizes: export specialises axes of size 0 and 1, so it never sees such sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

Axis: TypeAlias = tuple[int, int]
"""(leaf, axis): one axis of one flattened example input."""

SUBSTITUTES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
"""Primes that stand for a size of 0 or 1: distinct, so that no two axes agree by accident and messages tell them apart."""

_INTEGER = re.compile(r"\d+")


def resized(tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """A tensor of these sizes whose elements are those of `tensor`, repeated; zeros where it has none.

    Repeating keeps what the model may rely on: indices stay in range, masks stay masks.
    """
    if tuple(tensor.shape) == tuple(sizes):
        return tensor
    if tensor.numel() == 0:
        return torch.zeros(tuple(sizes), dtype=tensor.dtype, device=tensor.device)
    result = tensor.detach()
    for axis, size in enumerate(sizes):
        result = result.index_select(axis, torch.arange(size, device=tensor.device) % tensor.shape[axis])
    return result


@dataclass
class Substitution:
    """Which axes of size 0 or 1 get which size: axes of one group agree, axes in `static` keep theirs."""

    groups: list[list[Axis]]
    static: set[Axis] = field(default_factory=set[Axis])

    def sizes(self) -> Mapping[Axis, int]:
        """The substitute of every axis that has one."""
        used = [group for group in self.groups if not self.static.issuperset(group)]
        return {
            axis: SUBSTITUTES[index % len(SUBSTITUTES)]
            for index, group in enumerate(used)
            for axis in group
            if axis not in self.static
        }

    def refine(self, message: str) -> Substitution | None:
        """The next one to try after an export that failed with `message`.

        Two substitutes in it must agree; one alone disagrees with a size that the model fixes, so that its axes are broadcast
        and keep their size. None when the message names no substitute.
        """
        by_size = {size: axis for axis, size in reversed(self.sizes().items())}
        named = [by_size[int(n)] for n in dict.fromkeys(_INTEGER.findall(message)) if int(n) in by_size]
        if not named:
            return None
        touched = [next(group for group in self.groups if axis in group) for axis in named[:2]]
        if len(touched) == 2:
            merged = [axis for group in touched for axis in group]
            return Substitution([merged, *(g for g in self.groups if g not in touched)], self.static)
        return Substitution(self.groups, self.static | set(touched[0]))


def initial_substitution(leaves: Sequence[Any]) -> Substitution:
    """Axes at the same position with the same size 0 or 1 form a group: batches belong together, and so do lengths."""
    groups: dict[tuple[int, int], list[Axis]] = {}
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for axis, size in enumerate(leaf.shape):
                if size < 2:
                    groups.setdefault((axis, size), []).append((index, axis))
    return Substitution(list(groups.values()))


def substitute(leaves: Sequence[Any], sizes: Mapping[Axis, int]) -> list[Any]:
    """The leaves with the sizes of some axes replaced; every tensor is an object of its own, even if one was given twice."""
    seen: set[int] = set()
    made: list[Any] = []
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            target = [sizes.get((index, axis), size) for axis, size in enumerate(leaf.shape)]
            new = resized(leaf, target)
            leaf = new.clone() if id(new) in seen else new
            seen.add(id(leaf))
        made.append(leaf)
    return made


def path_name(path: pytree.KeyPath) -> str:
    """A place in `(args, kwargs)` as the caller writes it: `args[0]`, `kwargs['input_ids']`."""
    side = "kwargs" if isinstance(path[0], pytree.SequenceKey) and path[0].idx == 1 else "args"
    return side + pytree.keystr(path[1:])
