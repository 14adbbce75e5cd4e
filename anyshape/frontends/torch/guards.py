"""What export found out about sizes, as facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sympy
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from anyshape.frontends.torch.sizes import SizeNames
from anyshape.symbolic import Facts, Relation

_LAYOUT = re.compile(r"contiguous|stride|dense|memory_format|channels_last|overlapping|_reshape_view_helper")
"""Functions of PyTorch that compare sizes in order to choose strides or a cheaper view, which is no business of values."""

_SPECIALISED_LOWER_BOUND = 2
"""Every symbol starts with this lower bound, because export assumes sizes of at least 2; by itself it says nothing."""


def guard_relations(environment: ShapeEnv | None, names: SizeNames) -> Iterator[Relation]:
    """The conditions under which the graph is the model: equalities always, inequalities unless they are about layout."""
    if environment is None:
        return
    for guard in environment.guards:
        expression = environment.simplify(environment.replace(guard.expr))
        frame = guard.sloc.framework_loc
        about_layout = _LAYOUT.search(getattr(frame, "name", None) or str(frame or "")) is not None
        if expression in (sympy.true, sympy.false) or (about_layout and not isinstance(expression, sympy.Eq)):
            continue
        if environment._maybe_evaluate_static(expression) is not None:  # pyright: ignore[reportPrivateUsage]
            continue
        relation = names.relation(expression)
        if relation is not None:
            yield relation


def range_relations(program: ExportedProgram, names: SizeNames) -> Iterator[Relation]:
    """Bounds of symbols that export kept apart from guards."""
    for symbol, bounds in program.range_constraints.items():
        size = names.expression(symbol)
        if not size.symbols:
            continue
        if bounds.lower.is_Integer and int(bounds.lower) > _SPECIALISED_LOWER_BOUND:
            yield size.ge(int(bounds.lower))
        if bounds.upper.is_Integer:
            yield size.le(int(bounds.upper))


def assume_all(facts: Facts, relations: Iterable[Relation]) -> None:
    """Add what is not known yet."""
    for relation in relations:
        if facts.prove(relation) is not True:
            facts.assume(relation)
