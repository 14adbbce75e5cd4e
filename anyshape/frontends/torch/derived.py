"""Sizes that PyTorch cannot state as they are: they become symbols of their own, whose definitions it never sees.

PyTorch takes every size for 2 or more. The length of `x[1:]`, which is max(n - 1, 0), is n - 1 to it, however it is written; and a
broadcast of two sizes, of which either may be 1, is one of them. A symbol instead says no more than what is asked of it in a guard, and
a guard is translated with the definition in the symbol's place.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from anyshape.frontends.torch.replacing import replaced
from anyshape.symbolic import Size


class Rule(Protocol):
    """How a size is computed from others; equal rules of equal sizes are one symbol."""

    def size(self, parts: Sequence[Size]) -> Size: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Derived:
    """A size: what it is computed from, and how."""

    rule: Rule
    parts: tuple[sympy.Basic, ...]

    def value(self, parts: Iterable[sympy.Basic]) -> int | None:
        """What it is where the parts have these values; None where one has none."""
        values = [int(part) if isinstance(part, sympy.Integer) else None for part in parts]
        sizes = [Size.const(value) for value in values if value is not None]
        return self.rule.size(sizes).value if len(sizes) == len(values) else None


def depth_of(symbol: sympy.Basic, derived: Mapping[sympy.Basic, Derived]) -> int:
    """How many steps a symbol is computed in: 0 for one that is not derived, more than for any that it is computed from."""
    if symbol not in derived:
        return 0
    symbols = (each for part in derived[symbol].parts for each in part.free_symbols)
    return 1 + max((depth_of(each, derived) for each in symbols), default=0)


@dataclass(frozen=True)
class Required:
    """What must hold of sizes for the model's arithmetic to be PyTorch's: a divisor is not 0, or `rule` of the parts is `result`."""

    parts: tuple[sympy.Basic, ...]
    rule: Rule | None = None
    result: sympy.Basic | None = None


class DerivedSizes:
    """The symbols that one export has got so; they stay known while its graph is decomposed and translated."""

    def __init__(self) -> None:
        self._symbols: dict[Derived, torch.SymInt] = {}
        self._known: dict[sympy.Basic, Derived] = {}
        self.stated: set[Derived] = set()
        """Sizes that PyTorch does state as they are in this model."""
        self.required: dict[Required, str] = {}
        """What the model's arithmetic takes for granted, in order, with the `file:line` that computes it."""

    @property
    def known(self) -> Mapping[sympy.Basic, Derived]:
        """What each symbol stands for."""
        return MappingProxyType(self._known)

    def found(self, rule: Rule, parts: Sequence[sympy.Basic]) -> torch.SymInt | None:
        """The symbol of a size, where it has one."""
        return self._symbols.get(Derived(rule, tuple(parts)))

    def symbol(self, environment: ShapeEnv, rule: Rule, parts: Sequence[sympy.Basic], value: int) -> torch.SymInt:
        """The symbol of a size.

        Args:
            environment: of the export.
            rule, parts: its definition.
            value: what it is in the example.
        """
        key = Derived(rule, tuple(parts))
        if key not in self._symbols:
            source = ConstantSource(f"derived_{len(self._symbols)}")
            made: Any = environment.create_symbol(
                value, source, DimDynamic.DYNAMIC, do_not_specialize_zero_one=value < USUAL
            )
            self._known[made] = key
            self._symbols[key] = environment.create_symintnode(made, hint=value, source=source)  # pyright: ignore
        return self._symbols[key]

    @contextmanager
    def kept(self) -> Generator[None]:
        """While inside, these are no business of the checks that PyTorch makes of inputs, and no size of an input is replaced by them."""

        def keeping(environment: ShapeEnv, symbol: sympy.Basic, target: sympy.Basic, message: str) -> None:
            if symbol in self._known or target.free_symbols.isdisjoint(self._known):
                set_replacement(environment, symbol, target, message)

        def of_inputs(environment: ShapeEnv, *args: Any, **keywords: Any) -> Any:
            guards = environment.guards
            environment.guards = [
                guard for guard in guards if environment.simplify(guard.expr).free_symbols.isdisjoint(self._known)
            ]
            try:
                return produce(environment, *args, **keywords)
            finally:
                environment.guards = guards

        set_replacement: Any = ShapeEnv._set_replacement  # pyright: ignore[reportPrivateUsage]
        produce: Any = ShapeEnv.produce_guards_verbose
        with (
            replaced(ShapeEnv, "_set_replacement", keeping),
            replaced(ShapeEnv, "produce_guards_verbose", of_inputs),
        ):
            yield


USUAL = 2
"""Sizes from here on are those that export takes for the general case."""


__all__ = ["USUAL", "Derived", "DerivedSizes", "Required", "Rule", "depth_of"]
