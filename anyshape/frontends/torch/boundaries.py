"""Conditions of the model's Python that do not matter: the graph is the model on both sides of the branch.

A model pads to a multiple, and asks first whether there is anything to pad: `if right > 0: x = F.pad(x, (0, right))`. Padding by 0 changes
nothing, so the graph of one side holds on the other too. Such conditions ask for a remainder, or how much is missing from a
size: both sides of each are run at sizes of the kind, by the graph and by the model (`trials`). Where they agree, `sides` has to show it.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import sympy
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions as symbolic

from anyshape.frontends.torch.derived import USUAL, Derived
from anyshape.frontends.torch.examples import Axis
from anyshape.frontends.torch.guards import asked_by_model, relations_of_guards
from anyshape.frontends.torch.remainders import is_boundary
from anyshape.frontends.torch.sides import ExportAt, Exported, Sides, remainder_that_is_not_zero
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.trials import Trial, holds, holds_all, is_symbol, points, tensor_inputs
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation, Size
from anyshape.symbolic.expr import constant_divisor, make_size

_PROBES = 3
"""Calls for each remainder on the other side, and for each set of conditions that are broken at once."""

_MOST_PROBES = 24
"""Calls in all."""

_FEW = 3
"""Conditions that one more export is worth: with more, sizes become so long that it takes minutes, and may be refused after all."""

_NONE = frozenset[sympy.Basic]()


@dataclass(frozen=True)
class Needless:
    """What of an export's conditions is none.

    Attributes:
        guards: identities of guards that need not hold.
        rounded_up: remainders a mod k that are k where k divides a, as k minus them, what is missing to a multiple, is 0 there.
    """

    guards: frozenset[int] = frozenset()
    rounded_up: frozenset[sympy.Basic] = frozenset()


NOTHING = Needless()
"""All conditions matter."""


class Boundaries:
    """What a model's Python asked of sizes while it was exported.

    Args:
        program: the export, before decomposition.
        examples: the flattened example inputs that it was traced with.
        about_strides, derived: see `Capture`.

    Attributes:
        found: conditions that may be none, with their guards: those on the side on which there is something to pad.
        sizes: of each leaf of a call that is a tensor.
        axes: the input axes that a symbol is.
        example: the value of each symbol in the example.
    """

    def __init__(
        self,
        program: ExportedProgram,
        examples: Sequence[Any],
        about_strides: frozenset[int],
        derived: Mapping[sympy.Basic, Derived],
    ) -> None:
        self.program, self.examples = program, examples
        self._about_strides, self._derived = about_strides, derived
        self._environment = shape_environment(node.meta.get("val") for node in program.graph.nodes)
        axes: list[Any] = [size for _, value in tensor_inputs(program) for size in value.shape]
        symbols = dict.fromkeys(size.node.expr for size in axes if is_symbol(size))
        self._called = {symbol: f"d{number}" for number, symbol in enumerate(symbols)}
        names = SizeNames(self._environment, self._called, {}, {}, derived)
        self.found: dict[Relation, list[Any]] = {}
        self._unpadded: list[Relation] = []
        self._conditions: list[Relation] = []
        self._others: dict[Relation, None] = {}
        self.sizes: dict[int, tuple[Size, ...]] = {}
        self.axes: dict[str, list[Axis]] = {}
        self.example: dict[str, int] = {}
        if self._may_ask():
            try:
                self._sort(names)
                self._bind(names)
            except Unsupported:
                self.found.clear()
                self._unpadded.clear()

    def _bind(self, names: SizeNames) -> None:
        """Find out which axes the symbols are, and their values."""
        self.sizes = {leaf: names.sizes(value.shape) for leaf, value in tensor_inputs(self.program)}
        for leaf, sizes in self.sizes.items():
            for axis, (size, value) in enumerate(zip(sizes, self.examples[leaf].shape, strict=True)):
                symbol = size.as_symbol()
                if symbol is not None:
                    self.axes.setdefault(symbol, []).append((leaf, axis))
                    self.example[symbol] = int(value)

    def _may_ask(self) -> bool:
        """Whether the model asked for anything that might be a boundary: most do not, and translating guards takes time."""
        guards: Any = () if self._environment is None else self._environment.guards
        kinds = (symbolic.Mod, symbolic.PythonMod, symbolic.Max, sympy.Max)
        return any(asked_by_model(guard) and guard.expr.has(*kinds) for guard in guards)

    def _sort(self, names: SizeNames) -> None:
        for guard, relation in relations_of_guards(self._environment, names, self._about_strides, self._derived):
            relation = _of_what_is_missing(relation) if asked_by_model(guard) else relation
            is_alone = isinstance(guard.expr, sympy.Rel)  # a guard of several comparisons is needed for the others
            is_models = is_alone and asked_by_model(guard) and is_boundary(relation)
            if is_models and not _holds_at_zero(relation):
                self.found.setdefault(relation, []).append(guard)
                continue
            self._others[relation] = None
            if asked_by_model(guard):
                (self._unpadded if is_models else self._conditions).append(relation)

    def needless(
        self, module: nn.Module, structure: pytree.TreeSpec, export: ExportAt, known: Sequence[Exported]
    ) -> Needless:
        """The conditions that need not hold for `module`.

        Args:
            structure: how `(args, kwargs)` flatten to the examples.
            export: one more export, at other sizes.
            known: exports that there are.
        """
        remainders = {each: self._remainder(each) for each in self.found}

        def found_with(rounded_up: frozenset[sympy.Basic]) -> frozenset[Relation]:
            trial = Trial(module, self.program, structure, self.examples, self.sizes, rounded_up)
            return _needless(trial, self, self._not_boundaries(rounded_up))

        found, rounded_up = found_with(_NONE) if self.found else frozenset[Relation](), _NONE
        tried = frozenset(each for relation, each in remainders.items() if relation not in found and each is not None)
        while tried:
            rounding = found_with(tried)
            kept = tried & frozenset(remainders[relation] for relation in rounding)
            if kept == tried:
                found, rounded_up = rounding, tried
                break
            tried = kept
        if found:
            trial = Trial(module, self.program, structure, self.examples, self.sizes, rounded_up)
            sides = Sides(self, trial, export, known, self._not_boundaries(rounded_up), rounded_up)
            found = sides.proven(found)
        rounded_up &= frozenset(remainders[relation] for relation in found)
        return Needless(frozenset(id(guard) for relation in found for guard in self.found[relation]), rounded_up)

    def _not_boundaries(self, rounded_up: frozenset[sympy.Basic]) -> list[Relation]:
        """All conditions under which the graph is the model, but the boundaries, and those that always hold."""
        relations = list(self._others)
        if rounded_up:
            names = self.names(rounded_up)
            guards = {id(guard) for guards in self.found.values() for guard in guards}
            found = relations_of_guards(self._environment, names, self._about_strides, self._derived)
            relations = list(dict.fromkeys(relation for guard, relation in found if id(guard) not in guards))
        facts = Facts()
        for symbol in self.example:
            facts.declare(symbol, lo=USUAL)
        return [relation for relation in relations if facts.prove(relation) is not True]

    def _remainder(self, boundary: Relation) -> sympy.Basic | None:
        """a mod k of the condition a mod k != 0."""
        found = (remainder_that_is_not_zero(guard.expr) for guard in self.found[boundary])
        return next((each for each in found if each is not None), None)

    def examples_beyond(self, needless: Needless) -> Iterator[dict[Axis, int]]:
        """Sizes on the other side of as many conditions as possible that are needed, the nearest ones first.

        An example that needs no padding is traced without: the graph of one that does holds for both.
        """
        needed, kept = list(dict.fromkeys(self._unpadded)), list(self._conditions)
        for relation, guards in self.found.items():
            (kept if {id(guard) for guard in guards} <= needless.guards else needed).append(relation)
        if not 0 < len(needed) <= _FEW:
            return
        symbols = sorted({symbol for each in needed for symbol in each.symbols})
        near = [point for point in points(self.example, symbols) if holds_all(kept, point)]
        broken = [(sum(not holds(each, point) for each in needed), point) for point in near]
        far = {id(point): sum(abs(point[name] - size) for name, size in self.example.items()) for point in near}
        for number, point in sorted(broken, key=lambda pair: (-pair[0], far[id(pair[1])])):
            if number:
                yield self.sizes_at(point)

    def sizes_at(self, point: Mapping[str, int]) -> dict[Axis, int]:
        """The sizes of the input axes that are a symbol, where the symbols have these values."""
        return {axis: point[name] for name, axes in self.axes.items() for axis in axes}

    def names(self, rounded_up: frozenset[sympy.Basic]) -> SizeNames:
        """The translation of sizes in which the symbols are `axes`."""
        return SizeNames(self._environment, self._called, {}, {}, self._derived, rounded_up=rounded_up)


def _of_what_is_missing(relation: Relation) -> Relation:
    """k·⌈n / k⌉ − n, as `padding` has it, in a condition as (−n) mod k; of n = a floordiv j it is k·((a + k·j − j) floordiv (k·j)) − n."""
    difference = relation.lhs - relation.rhs
    if difference.is_constant:
        return relation
    difference //= gcd(*(coefficient for _, coefficient in difference.terms))
    for monomial, coefficient in difference.terms:
        k, sign = abs(coefficient), 1 if coefficient > 0 else -1
        divided = None if len(monomial) != 1 else constant_divisor(monomial[0], "floordiv")
        if divided is None or divided % k:
            continue
        j = divided // k
        n = (monomial[0].args[0] - divided + j) // j
        rest = difference - sign * (k * make_size({monomial: 1}) - n)
        if rest.is_constant:
            return Relation(rest + sign * (-n % k), relation.op, 0)
    return relation


def _holds_at_zero(relation: Relation) -> bool:
    """Whether a condition on a remainder holds where that is 0: then the example needed no padding, and its graph has none."""
    difference = relation.lhs - relation.rhs
    atoms = [atom for monomial, _ in difference.terms for atom in monomial]
    return atoms[0].kind == "mod" and Relation(Size.const(difference.constant_term), relation.op, 0).evaluate({})


def _needless(probe: Trial, asked: Boundaries, others: Sequence[Relation]) -> frozenset[Relation]:
    """The boundaries that the graph does not need while `others` hold.

    Where graph and model differ, all that are broken there are needed; so is one that no two calls have been on the other side of.
    """
    symbols = sorted({symbol for each in asked.found for symbol in each.symbols})
    near = [point for point in points(asked.example, symbols) if holds_all(others, point)]
    free = list(asked.found)
    while free:
        needed = [each for each in asked.found if each not in free]
        allowed = [point for point in near if holds_all(needed, point)]
        agreeing: Counter[Relation] = Counter()
        differing: list[Relation] = []
        for point, broken in _chosen(allowed, free):
            agrees = probe.agrees(point)
            if agrees is False:
                differing = broken
                break
            if agrees:
                agreeing.update(broken)
        unproved = differing or [each for each in free if agreeing[each] < min(2, _PROBES)]
        if not unproved:
            break
        free = [each for each in free if each not in unproved]
    return frozenset(free)


def _chosen(
    near: Sequence[Mapping[str, int]], free: Sequence[Relation]
) -> list[tuple[Mapping[str, int], list[Relation]]]:
    """Points at which some conditions do not hold, with those: few at once first, and each remainder that breaks one."""
    taken: Counter[object] = Counter()
    chosen: list[tuple[Mapping[str, int], list[Relation]]] = []
    broken = [(point, [each for each in free if not holds(each, point)]) for point in near]
    shuffled = random.Random(0).sample(broken, len(broken))
    for point, relations in sorted(shuffled, key=lambda pair: len(pair[1])):
        kinds: list[object] = [(each, (each.lhs - each.rhs).evaluate(point)) for each in relations]
        if len(relations) > 1:
            kinds.append(tuple(relations))
        if any(taken[kind] < _PROBES for kind in kinds):
            taken.update(kinds)
            chosen.append((point, relations))
    return chosen[:_MOST_PROBES]


__all__ = ["NOTHING", "Boundaries", "Needless"]
