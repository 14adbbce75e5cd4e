"""What a model asks on the other sides of its conditions: exports there, and whether they are the graph that there is.

A condition of an export may be dropped where the model computes the same without it. That is shown as follows. The answers that a model
gets to its questions about sizes are a path in a tree, and one export is one path. For each question of a path, the other answer is either
impossible by what is known, or leads to another path, which is exported too. Each of those must be the same graph where its
own conditions hold (`same_graph`); then the paths cover all sizes, and the condition is none.

Values decide, of model and graph at some sizes, where that does not: of graphs whose equality is not found; of sizes 0 and 1 that export
does not ask for; and of most paths where the tree has too many. Then each condition is broken on one exported path at least, many at
once, and nothing may be asked there but what is known and questions about remainders. What ops ask on a path, rather than the
model's own code, counts where sizes near the example break it.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import sympy
from torch.export import ExportedProgram
from torch.utils._sympy import functions as symbolic

from anyshape.frontends.torch.branches import Record
from anyshape.frontends.torch.derived import USUAL, DerivedSizes
from anyshape.frontends.torch.examples import Axis
from anyshape.frontends.torch.guards import asked_by_model, derived_relations, relations_of_guards
from anyshape.frontends.torch.origins import CONDITION, origin_of_guard
from anyshape.frontends.torch.remainders import exclude_each_other, is_boundary, periods, settled
from anyshape.frontends.torch.same_graph import Reading, differ_at, same_under
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.trials import (
    Point,
    Trial,
    aligned_points,
    holds,
    holds_all,
    is_symbol,
    points,
    tensor_inputs,
)
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation, SizeError

if TYPE_CHECKING:
    from anyshape.frontends.torch.boundaries import Boundaries

_MOST_EXPORTS = 8
"""Exports on other sides in all."""

_MOST_PATTERNS = 8
"""Combinations of answers up to which all paths are exported."""

_TRIES = 2
"""Sizes of one path that are tried: the model may refuse some."""

_VALUES = 3
"""Calls at sizes of one path where its graph is not found equal."""


_STRIDE = 20160
"""Sizes are far from an example by multiples of this, so that few remainders change."""

_FAR = tuple(_STRIDE << exponent for exponent in range(0, 13, 2))


class Exported(Protocol):
    """See `exports.Export`."""

    @property
    def program(self) -> ExportedProgram: ...
    @property
    def examples(self) -> tuple[Any, ...]: ...
    @property
    def record(self) -> Record: ...
    @property
    def derived(self) -> DerivedSizes: ...
    @property
    def openings(self) -> Sequence[object]: ...


ExportAt = Callable[[Mapping[Axis, int]], Exported]
"""Exports the model at these sizes; raises what the model and PyTorch raise."""


@dataclass(frozen=True)
class _Side:
    """An export and its conditions, in the names of the first one's sizes.

    Attributes:
        reading: its graph.
        relations: what the model asked, in order, and what PyTorch asked of it that some size near the example breaks.
        asked: those of them that the model's own code asked.
        branches: what the model asked that export answered for sizes of 2 and more without a guard.
    """

    reading: Reading
    relations: tuple[Relation, ...]
    asked: tuple[Relation, ...]
    branches: frozenset[Relation]


@dataclass(frozen=True)
class _Region:
    """Sizes for which some answers are given.

    Attributes:
        facts: what holds there.
        answers: what is not said of all sizes.
        near: examples of such sizes, those first at which an export is wanted.
    """

    facts: Facts
    answers: tuple[Relation, ...]
    near: Sequence[Point]

    def where(self, relation: Relation) -> _Region | None:
        """The part where `relation` holds; None where there is none."""
        facts = self.facts.copy()
        try:
            facts.assume(settled(relation))
        except SizeError:
            return None
        answers, near = (*self.answers, relation), [point for point in self.near if holds(relation, point)]
        return None if not near and exclude_each_other(answers) else _Region(facts, answers, near)


class _Unproven(Exception):
    """A part of the sizes where it is not shown that the graph is the model."""

    def __init__(self, region: _Region) -> None:
        super().__init__("; ".join(map(str, region.answers)))
        self.region = region


class _TooMany(Exception):
    """There are more paths than are worth an export each."""


class Sides:
    """The exports of a model on all sides of some conditions of one of them.

    Args:
        asked: the conditions of the first export.
        trial: calls of the model and of the first export's graph.
        export: one more export.
        known: exports that there are, the one in question first.
        others: its conditions that stay.
        rounded_up: how its remainders are read; see `Needless`.
    """

    def __init__(
        self,
        asked: Boundaries,
        trial: Trial,
        export: ExportAt,
        known: Sequence[Exported],
        others: Sequence[Relation],
        rounded_up: frozenset[sympy.Basic],
    ) -> None:
        self._asked, self._trial, self._export = asked, trial, export
        self._others = others
        self._is_rounded = bool(rounded_up)
        self._reading = Reading(asked.program, asked.names(rounded_up))
        self._branches = _branches(known[0].record, asked.names(frozenset()))
        self._known = list(known[1:])
        self._sides: list[_Side] = []
        self._count = 0
        example, symbols = asked.example, sorted(asked.example)

        def unwanted(point: Point) -> tuple[int, int]:
            """Larger sizes are better than smaller ones, from which the model may derive a 1, near ones better than far ones."""
            smaller = sum(max(example[name] - point[name], 0) for name in symbols)
            return smaller, sum(abs(example[name] - point[name]) for name in symbols)

        repeating = {name: [each for _, each in found] for name, found in periods(asked.found).items()}
        near = itertools.chain(points(example, symbols), aligned_points(example, symbols, repeating))
        self._points = sorted((point for point in near if holds_all(others, point)), key=unwanted)

    def proven(self, found: frozenset[Relation]) -> frozenset[Relation]:
        """Those of the conditions without which the graph is still the model."""
        while found:
            try:
                self._prove([each for each in self._asked.found if each in found])
            except _Unproven as unproven:
                facts = unproven.region.facts
                needed = frozenset(each for each in found if facts.prove(each) is False)
                found = found - needed if needed else frozenset()
            else:
                return found
        return found

    def _prove(self, free: Sequence[Relation]) -> None:
        """Raises _Unproven with the sizes for which the conditions that are not `free` do not suffice."""
        facts = Facts()
        for symbol in self._asked.example:
            facts.declare(symbol, lo=USUAL)
        everywhere = _Region(facts, (), self._points)
        for relation in (*self._others, *(each for each in self._asked.found if each not in free)):
            everywhere = everywhere.where(relation) or everywhere
        first = _Side(self._reading, tuple(free), tuple(free), self._branches)
        for export in self._known:
            self._add(export)
        self._known.clear()
        try:
            self._walk(everywhere, first, everywhere)
        except _TooMany:
            self._look_beyond(everywhere, first)

    def _walk(self, region: _Region, first: _Side, everywhere: _Region) -> None:
        """Follow all paths through a region. Raises _TooMany, too."""
        questions = list(dict.fromkeys(each for side in (first, *self._sides) for each in side.relations))
        if len({tuple(holds(each, point) for each in questions) for point in everywhere.near}) > _MOST_PATTERNS:
            raise _TooMany
        side = self._side_in(region, first)
        for relation in side.relations:
            if relation in region.answers or region.facts.prove(relation) is True:
                continue
            other, here = region.where(relation.negate()), region.where(relation)
            if other is not None:
                self._walk(other, first, everywhere)
            if here is None:
                return
            region = here
        self._require_same(region, side, first)

    def _look_beyond(self, everywhere: _Region, first: _Side) -> None:
        """Follow paths that break the conditions, many at once; what else is asked there is known, or about remainders and broken, too."""
        unbroken = list(first.relations)
        seen: list[Point] = [self._asked.example]
        while unbroken:
            best = max(
                everywhere.near, key=lambda point: sum(not holds(each, point) for each in unbroken), default=None
            )
            if best is None or all(holds(each, best) for each in unbroken):
                if all(everywhere.where(each.negate()) is None for each in unbroken):
                    return
                raise _Unproven(everywhere)
            seen.append(best)
            region = _Region(everywhere.facts, everywhere.answers, [best])
            side = self._side_in(region, first)
            for relation in side.asked:
                is_known = relation in region.answers or region.facts.prove(relation) is True
                if not is_known and not is_boundary(relation):
                    raise _Unproven(everywhere)
                if not is_known:
                    unbroken.append(relation)
                region = region.where(relation) or region
            self._require_same(region, side, first)
            unbroken = [each for each in dict.fromkeys(unbroken) if all(holds(each, point) for point in seen)]

    def _side_in(self, region: _Region, first: _Side) -> _Side:
        """An export whose conditions hold somewhere in a region: a new one if need be."""
        for side in (first, *self._sides):
            if any(holds_all(side.relations, point) for point in region.near):
                return side
        for point in region.near[:_TRIES]:
            if self._count == _MOST_EXPORTS:
                break
            self._count += 1
            try:
                export = self._export(self._asked.sizes_at(point))
            except Exception:  # the model takes no such sizes, which the graph would
                continue
            side = self._add(export)
            if side is not None and holds_all(side.relations, point):
                return side
        raise _Unproven(region)

    def _require_same(self, region: _Region, side: _Side, first: _Side) -> None:
        """Raises _Unproven where the first graph is not known to be this side's, or where the model asks more here of sizes 0 and 1."""
        if side is first:
            return
        further = side.branches - {*self._branches, *region.answers}
        if not all(self._agree_at_small_sizes(relation, region) for relation in sorted(further, key=str)):
            raise _Unproven(region)
        if same_under(region.facts, self._reading, side.reading):
            return
        # A call computes k minus a remainder anew, but the sizes that PyTorch derived from it are what its expressions say: of graphs
        # that cannot be compared, values show nothing of that.
        are_other = differ_at(_near_and_far(region), self._reading, side.reading, if_unknown=self._is_rounded)
        if are_other or not self._agree(region.near):
            raise _Unproven(region)

    def _agree(self, near: Sequence[Point]) -> bool:
        """Whether model and graph give the same values at some sizes."""
        answers = [self._trial.agrees(point) for point in near[:_VALUES]]
        return False not in answers and answers.count(True) >= min(2, len(near)) > 0

    def _agree_at_small_sizes(self, relation: Relation, region: _Region) -> bool:
        """Whether model and graph agree where sizes of 0 and 1 break what the model asked on another side."""
        symbols = sorted(relation.symbols)
        for value, chosen in itertools.product((1, 0), dict.fromkeys((tuple(symbols), *((each,) for each in symbols)))):
            point = {**region.near[0], **dict.fromkeys(chosen, value)}
            if not holds(relation, point) and holds_all(region.answers, point) and self._trial.agrees(point) is False:
                return False
        return True

    def _add(self, export: Exported) -> _Side | None:
        """Note an export; None where its inputs have other sizes."""
        side = self._side(export)
        if side is not None:
            self._sides.append(side)
        return side

    def _side(self, export: Exported) -> _Side | None:
        if export.openings:
            return None
        called: dict[Any, str] = {}
        environment = shape_environment(node.meta.get("val") for node in export.program.graph.nodes)
        inputs = dict(tensor_inputs(export.program))
        for leaf, value in inputs.items():
            for size, ours in zip(value.shape, self._asked.sizes[leaf], strict=True):
                if is_symbol(size):
                    expression: Any = size.node.expr
                    called.setdefault(expression, ours.as_symbol() or f"e{len(called)}")
        derived = export.derived.known
        names = SizeNames(environment, called, {}, {}, derived)
        try:
            if any(names.sizes(value.shape) != self._asked.sizes[leaf] for leaf, value in inputs.items()):
                return None
            strides = export.record.about_strides
            asked = [
                (_asked_in_python(guard, export.record), relation)
                for guard, relation in relations_of_guards(environment, names, strides, derived)
            ]
            asked += [(False, relation) for relation, _ in derived_relations(environment, names, derived, {})]
        except Unsupported:
            return None
        own = tuple(dict.fromkeys(each for is_own, each in asked if is_own))
        here = [point for point in self._points if holds_all(own, point)]
        kept = (each for is_own, each in asked if is_own or not all(holds(each, point) for point in here))
        # Where a mod k is not 0, k minus it may be read as what is missing to a multiple.
        guards: Any = () if environment is None else environment.guards
        rounded_up = frozenset(filter(None, (remainder_that_is_not_zero(guard.expr) for guard in guards)))
        rounding = SizeNames(environment, called, {}, {}, derived, rounded_up=rounded_up)
        branches = _branches(export.record, names)
        return _Side(Reading(export.program, rounding), tuple(dict.fromkeys(kept)), own, branches)


def _near_and_far(region: _Region) -> list[Point]:
    """A few sizes of a region: its nearest ones, and some so far from them that quotients which are 0 nearby are not."""
    near = list(region.near[:_VALUES])
    moved = (
        {**point, **{name: point[name] + distance for name in names}}
        for point in near[:1]
        for names in dict.fromkeys((tuple(point), *((name,) for name in point)))
        for distance in _FAR
    )
    return [*near, *(point for point in moved if holds_all(region.answers, point))]


def remainder_that_is_not_zero(condition: Any) -> sympy.Basic | None:
    """a mod k of the condition a mod k != 0."""
    if not isinstance(condition, sympy.Ne | sympy.Gt | sympy.Lt):
        return None
    sides: list[Any] = list(condition.args)
    remainder = next((side for side in sides if isinstance(side, symbolic.Mod | symbolic.PythonMod)), None)
    return remainder if remainder is not None and 0 in sides and remainder.args[1].is_Integer else None


def _asked_in_python(guard: Any, record: Record) -> bool:
    """Whether the model's own code asked for a guard, rather than an op that it called."""
    return asked_by_model(guard) and origin_of_guard(guard, record.origins).asker == CONDITION


def _branches(record: Record, names: SizeNames) -> frozenset[Relation]:
    """The model's questions that were answered without a guard."""
    found: set[Relation] = set()
    for branch in record.branches:
        try:
            relation = names.relation(branch.condition)
        except Unsupported:
            continue
        if relation is not None:
            found.add(relation)
    return frozenset(found)


__all__ = ["ExportAt", "Exported", "Sides", "remainder_that_is_not_zero"]
