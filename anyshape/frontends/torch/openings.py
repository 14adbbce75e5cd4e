"""Input axes that are broadcast: one that is 1 in the example, beside n, may be 1 or n in a call.

Export has no such size: it makes the axis the constant 1, or the same as n. Here the axis keeps a symbol of its own. Where PyTorch works
out the sizes of a broadcast it is told that this one is 1, so that the result has n, and the condition "1 or n" is noted for the program.
Where all axes that meet are 1 in the example, any of them may be 1 or n in a call: n is a size derived from them.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import sympy
import torch
from torch import _meta_registrations, _refs
from torch._decomp import decomposition_table
from torch._subclasses import fake_impls

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.askers import asking
from anyshape.frontends.torch.derived import Derived, DerivedSizes
from anyshape.frontends.torch.examples import SUBSTITUTES
from anyshape.frontends.torch.origins import BROADCAST
from anyshape.frontends.torch.replacing import replaced, replaced_item
from anyshape.frontends.torch.sizes import SizeNames, TorchSize
from anyshape.symbolic import Relation, Size, size_max, size_min

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

    def relations(self, names: SizeNames, derived: Mapping[sympy.Basic, Derived]) -> Iterator[Relation]:
        """What a call must keep to."""
        size, target = self.sizes(names)
        parts = parts_of(self.target, derived)
        if not parts_of(self.size, derived) <= parts:
            yield one_or(size, target)
        elif self.size in parts:
            for part in sorted(parts - {self.size}, key=str):
                yield alike(*sorted((size, names.expression(part)), key=str))


@dataclass(frozen=True)
class CommonSize:
    """The size of a broadcast: a `Rule` of sizes of which each is 1 or the same n."""

    def size(self, parts: Sequence[Size]) -> Size:
        """max(a, b, …)·min(a, b, …, 1): n, where n is 0 too."""
        first, *others = dict.fromkeys(parts)
        return size_max(first, *others) * size_min(first, *others, 1) if others else first


def parts_of(size: sympy.Basic, derived: Mapping[sympy.Basic, Derived]) -> frozenset[sympy.Basic]:
    """The sizes of which this one is the common size; itself where it is no such size."""
    found = derived.get(size)
    return frozenset(found.parts if found is not None and isinstance(found.rule, CommonSize) else (size,))


def one_or(size: Size, target: Size) -> Relation:
    """size ∈ {1, target}, as (size − 1)·(size − target) == 0."""
    return ((size - 1) * (size - target)).eq(0)


def alike(a: Size, b: Size) -> Relation:
    """a and b are equal, or one of them is 1, as (a − 1)·(b − 1)·(a − b) == 0."""
    return ((a - 1) * (b - 1) * (a - b)).eq(0)


class Meeting(Enum):
    """What becomes of input axes that are 1 in the example and are broadcast to each other, the freest first."""

    COMMON = "each is 1 or their common size"
    FIRST = "the others are 1 or the size of the first input's axis"
    LAST = "the others are 1 or the size of the last input's axis"
    EQUAL = "they are the same size"


class Broadcasts:
    """What is broadcast in one export.

    Args:
        stand_ins: the sizes that stand for 1 in the example.
        derived: gets the common sizes of axes that all are 1 in the example.
        meeting: what becomes of such axes.

    Attributes:
        found: the input axes that may be 1.
        met: whether there are axes to which `meeting` matters.
    """

    def __init__(self, stand_ins: Collection[int], derived: DerivedSizes, meeting: Meeting) -> None:
        self.found: dict[Opening, None] = {}
        self.met = False
        self._stand_ins = stand_ins
        self.derived = derived
        self.meeting = meeting
        self._free = (size for size in reversed(SUBSTITUTES) if size not in stand_ins)

    @contextmanager
    def open(self) -> Generator[None]:
        """While inside, input axes with the sizes `stand_ins` are broadcast as if they were 1.

        This reaches what PyTorch decides in Python. Elsewhere a stand-in meets another size, and export fails as it would without this.
        """

        def of_two(a: Shape, b: Shape) -> Any:
            return infer_size(*self._opened((a, b)))

        def of_all(*shapes: Shape | None) -> Any:
            return broadcast_shapes(*self._opened(shapes))

        def expanded(x: torch.Tensor, *sizes: Any, **keywords: Any) -> torch.Tensor:
            shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
            for axis in range(-min(x.dim(), len(shape)), 0):
                if self._opens(x.shape[axis], shape[axis]):
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

    def _opened(self, shapes: Sequence[Shape | None]) -> list[Shape | None]:
        """The shapes with 1 for every stand-in that is broadcast to another size."""
        opened: list[list[TorchSize]] = [list(shape or ()) for shape in shapes]
        for last in range(1, max(map(len, opened)) + 1):
            column = [shape for shape in opened if len(shape) >= last]
            small = [shape for shape in column if self._may_be_one(shape[-last])]
            other = (shape[-last] for shape in column if _value(shape[-last]) not in (*self._stand_ins, 1, -1, None))
            target = next((size for size in other if not self._may_be_one(size)), None)
            if target is None and small:
                target = self._common([shape[-last] for shape in small])
                small[0][-last] = target
            for shape in small:
                if self._opens(shape[-last], target):
                    shape[-last] = 1
        return [None if before is None else shape for before, shape in zip(shapes, opened, strict=True)]

    def _may_be_one(self, size: TorchSize) -> bool:
        """Whether a size is that of an input axis which is 1 in the example, or a common size of such."""
        if not isinstance(size, torch.SymInt) or not size.node.expr.is_Symbol:
            return False
        return size.node.hint in self._stand_ins or self._is_common(size.node.expr)

    def _is_common(self, size: sympy.Basic) -> bool:
        return size in self.derived.known and isinstance(self.derived.known[size].rule, CommonSize)

    def _common(self, sizes: Sequence[TorchSize]) -> TorchSize:
        """The size of their broadcast."""
        expressions: dict[sympy.Basic, torch.SymInt] = {
            size.node.expr: size for size in sizes if isinstance(size, torch.SymInt)
        }
        first = next(iter(expressions.values()))
        if len(expressions) == 1:
            return first
        self.met = True
        if self.meeting is not Meeting.COMMON:
            order = list(first.node.shape_env.backed_var_to_val)  # inputs one after the other
            choose = max if self.meeting is Meeting.LAST else min
            return expressions[choose(expressions, key=order.index)]
        known = self.derived.known
        parts = frozenset[sympy.Basic]().union(*(parts_of(each, known) for each in expressions))
        whole = next((size for each, size in expressions.items() if parts_of(each, known) == parts), None)
        if whole is None:
            ordered = sorted(parts, key=str)
            whole = self.derived.symbol(first.node.shape_env, CommonSize(), ordered, next(self._free))
        for each, size in expressions.items():
            self._note(each, size, whole)
        return whole

    def _opens(self, size: TorchSize, target: TorchSize | None) -> bool:
        """Whether a size is noted as 1 or `target`."""
        if target is None or not self._may_be_one(size) or _value(target) in (1, -1, None):
            return False
        assert isinstance(size, torch.SymInt)
        if size.node.expr == _expression(target) or (self.meeting is Meeting.EQUAL and self._may_be_one(target)):
            return False
        self._note(size.node.expr, size, target)
        return True

    def _note(self, expression: sympy.Basic, size: torch.SymInt, target: TorchSize) -> None:
        if expression == _expression(target):
            return
        origin = asking() or Origin(BROADCAST)
        self.found.setdefault(Opening(expression, sympy.sympify(_expression(target)), size.node.hint, origin))


def _expression(size: TorchSize) -> object:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _value(size: TorchSize) -> int | None:
    """The size in the example; None where it depends on data."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


__all__ = ["Broadcasts", "CommonSize", "Meeting", "Opening", "one_or"]
