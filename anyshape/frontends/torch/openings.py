"""Input axes that are broadcast: one that is 1 in the example, beside n, may be 1 or n in a call.

Export has no such size: it makes the axis the constant 1, or the same as n. Here the axis keeps a symbol of its own. Where PyTorch works
out the sizes of a broadcast it is told that this one is 1, so that the result has n, and the condition "1 or n" is noted for the program.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy
import torch
from torch import _meta_registrations, _refs
from torch._decomp import decomposition_table
from torch._subclasses import fake_impls

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.origins import BROADCAST, asking
from anyshape.frontends.torch.replacing import replaced, replaced_item
from anyshape.frontends.torch.sizes import SizeNames, TorchSize
from anyshape.symbolic import Relation, Size

Shape: TypeAlias = Sequence[TorchSize]


@dataclass(frozen=True)
class Opening:
    """An input axis of size `size`, a symbol with the value `stand_in` in the export, that is 1 or `target`."""

    size: sympy.Basic
    target: sympy.Basic
    stand_in: int
    origin: Origin = field(default=Origin(BROADCAST), compare=False)
    """The op that broadcasts it first."""

    def sizes(self, names: SizeNames) -> tuple[Size, Size]:
        """`size` and `target` in the names of a program."""
        return names.expression(self.size), names.expression(self.target)


def one_or(size: Size, target: Size) -> Relation:
    """size ∈ {1, target}, as (size − 1)·(size − target) == 0."""
    return ((size - 1) * (size - target)).eq(0)


@contextmanager
def broadcasts_open(stand_ins: Collection[int], found: dict[Opening, None]) -> Generator[None]:
    """While inside, input axes with the sizes `stand_ins` are broadcast as if they were 1; `found` is filled with where.

    This reaches what PyTorch decides in Python. Elsewhere a stand-in meets another size, and export fails as it would without this.
    """

    def of_two(a: Shape, b: Shape) -> Any:
        return infer_size(*_opened((a, b), stand_ins, found))

    def of_all(*shapes: Shape | None) -> Any:
        return broadcast_shapes(*_opened(shapes, stand_ins, found))

    def expanded(x: torch.Tensor, *sizes: Any, **keywords: Any) -> torch.Tensor:
        shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
        before, _ = _opened((x.shape, shape), stand_ins, found)
        for axis, opened in enumerate(before or ()):
            if isinstance(opened, int) and isinstance(x.shape[axis], torch.SymInt):
                x = x.narrow(axis, 0, 1)
        return expand(x, shape, **keywords)

    infer_size: Callable[..., Any] = fake_impls.infer_size
    broadcast_shapes: Callable[..., Any] = _refs._broadcast_shapes  # pyright: ignore[reportPrivateUsage]
    expand: Callable[..., Any] = decomposition_table[torch.ops.aten.expand.default]
    with ExitStack() as stack:
        stack.enter_context(replaced(fake_impls, "infer_size", of_two))
        stack.enter_context(replaced(_refs, "_broadcast_shapes", of_all))
        stack.enter_context(replaced(_meta_registrations, "_broadcast_shapes", of_all))
        stack.enter_context(replaced_item(decomposition_table, torch.ops.aten.expand.default, expanded))
        yield


def _opened(
    shapes: Sequence[Shape | None], stand_ins: Collection[int], found: dict[Opening, None]
) -> list[Shape | None]:
    """The shapes with 1 for every stand-in that is broadcast to another size; `found` gets these."""
    opened: list[list[TorchSize]] = [list(shape or ()) for shape in shapes]
    for last in range(1, max(map(len, opened)) + 1):
        column = [shape for shape in opened if len(shape) >= last]
        target = next((shape[-last] for shape in column if _value(shape[-last]) not in (*stand_ins, 1, -1, None)), None)
        if target is None:
            continue
        for shape in column:
            size, value = shape[-last], _value(shape[-last])
            if isinstance(size, torch.SymInt) and value in stand_ins and size.node.expr.is_Symbol:
                assert value is not None
                opening = Opening(
                    size.node.expr, sympy.sympify(_expression(target)), value, asking() or Origin(BROADCAST)
                )
                found.setdefault(opening)
                shape[-last] = 1
    return [None if before is None else shape for before, shape in zip(shapes, opened, strict=True)]


def _expression(size: TorchSize) -> object:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _value(size: TorchSize) -> int | None:
    """The size in the example; None where it depends on data."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


__all__ = ["Opening", "broadcasts_open", "one_or"]
