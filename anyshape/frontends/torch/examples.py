"""Example inputs with other sizes: export specialises axes of size 0 and 1, so it never sees such sizes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

Axis: TypeAlias = tuple[int, int]
"""(leaf, axis): one axis of one flattened example input."""

SUBSTITUTES = tuple(n for n in range(5, 500) if all(n % d for d in range(2, n)))
"""Primes that stand for a size of 0 or 1: distinct, so that no two axes agree by accident and messages tell them apart."""

SMALL_SUBSTITUTES = (3, 2, 4, *SUBSTITUTES)
"""For models that compute something else for larger sizes than for the example's."""

DIVISIBLE = 48
"""By which substitutes of 0 are multiplied: the numbers of heads, blocks and patches that models divide sizes by divide it."""

_INTEGER = re.compile(r"\d+")
_PRODUCT = re.compile(r"(\d+)x(\d+) and (\d+)x(\d+)|\[\d+, (\d+)\] X \[(\d+), \d+\]")
"""The shapes of two factors."""
_LIST = re.compile(r"\[([\d, ]+)\]")


def disagreeing(message: str) -> list[int]:
    """The sizes in a message of PyTorch's, those first that do not fit each other where it has whole shapes."""
    sizes = [int(number) for number in _INTEGER.findall(message)]
    product = _PRODUCT.search(message)
    if product is not None:
        return [int(number) for number in (product[2] or product[5], product[3] or product[6])] + sizes
    shapes = [[int(number) for number in _INTEGER.findall(text)] for text in _LIST.findall(message)]
    if len(shapes) < 2:
        return sizes
    pairs = zip(reversed(shapes[-2]), reversed(shapes[-1]), strict=False)
    return [size for pair in pairs if pair[0] != pair[1] and 1 not in pair for size in pair] + sizes


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


def standing_alone(leaf: Any) -> Any:
    """A row-major copy of a tensor that is a view or strided, anything else itself: export looks for a view's base in the call."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return leaf
    if leaf._base is None and leaf.is_contiguous():
        return leaf
    return leaf.detach().clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class Substitution:
    """Which axes of size 0 or 1 get which size.

    Attributes:
        groups: axes that get the same size.
        ones: axes of size 1, the others have size 0.
        taken: sizes that other axes of the example have.
        guessed: whether the groups are the first guess, rather than what exports have shown.
        candidates: the substitutes, of which those are used that are not taken.
        divisible: whether a size of 0, which every number divides, gets a substitute with many divisors.
    """

    groups: tuple[tuple[Axis, ...], ...]
    ones: frozenset[Axis]
    taken: frozenset[int]
    guessed: bool
    candidates: tuple[int, ...] = SUBSTITUTES
    divisible: bool = False

    def sizes(self) -> dict[Axis, int]:
        """The substitute of every axis that has one."""
        free = (size for size in self.candidates if size not in self.taken)
        return {
            axis: size * DIVISIBLE if self.divisible and axis not in self.ones else size
            for group, size in zip(self.groups, free, strict=False)
            for axis in group
        }

    def without_substitute(self, leaves: Sequence[Any]) -> list[Axis]:
        """The axes of size 0 or 1 of the example that keep it."""
        axes = [axis for group in initial_substitution(leaves).groups for axis in group]
        return [axis for axis in axes if axis not in self.sizes()]

    def keeping(self, axes: Collection[Axis]) -> Substitution:
        """The same without substitutes for these axes."""
        groups = (tuple(axis for axis in group if axis not in axes) for group in self.groups)
        return replace(self, groups=tuple(group for group in groups if group))

    def refine(self, message: str) -> Substitution | None:
        """The next one to try after an export that failed with `message`; None when it names no substitute.

        Before a size is given up, substitutes of 0 that the model can divide are tried. Two substitutes in the message must agree: a guess
        is then given up for axes that are each on their own, other groups are merged, but a 1 beside a 0 is broadcast and keeps its
        size. So does a substitute alone, which disagrees with a fixed size.
        """
        group_of = {size: group for group in self.groups for axis, size in self.sizes().items() if axis in group}
        named = [group_of[size] for size in dict.fromkeys(disagreeing(message)) if size in group_of]
        rest = tuple(group for group in self.groups if group not in named[:2])
        broadcast = [group for group in named[:2] if group[0] in self.ones]
        agreeing = len(named) > 1 and len(broadcast) != 1
        if not agreeing and not self.divisible and any(axis not in self.ones for axis in self.sizes()):
            return replace(self, divisible=True)
        if not named:
            return None
        if len(named) == 1:
            return replace(self, groups=rest)
        if len(broadcast) == 1:
            return replace(self, groups=tuple(group for group in self.groups if group != broadcast[0]))
        if self.guessed and any(len(group) > 1 for group in self.groups):
            return replace(self, groups=tuple((axis,) for group in self.groups for axis in group), guessed=False)
        return replace(self, groups=(named[0] + named[1], *rest), guessed=False)


def initial_substitution(leaves: Sequence[Any]) -> Substitution:
    """Guesses that axes at the same position with the same size 0 or 1 belong together: batches, lengths."""
    groups: dict[tuple[int, int], list[Axis]] = {}
    taken: set[int] = set()
    for index, leaf in enumerate(leaves):
        for axis, size in enumerate(leaf.shape if isinstance(leaf, torch.Tensor) else ()):
            if size < 2:
                groups.setdefault((axis, size), []).append((index, axis))
            taken.add(size)
    ones = frozenset(axis for (_, size), group in groups.items() if size == 1 for axis in group)
    return Substitution(tuple(tuple(group) for group in groups.values()), ones, frozenset(taken), guessed=True)


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
    return "".join(split_path(path))


def split_path(path: pytree.KeyPath) -> tuple[str, str]:
    """`args` or `kwargs`, and the place inside."""
    side = "kwargs" if isinstance(path[0], pytree.SequenceKey) and path[0].idx == 1 else "args"
    return side, pytree.keystr(path[1:])
