"""What export found out about sizes, as facts."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from traceback import FrameSummary
from types import MappingProxyType
from typing import Any, TypeAlias

import sympy
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions as symbolic
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.askers import in_model
from anyshape.frontends.torch.conditions import plain_form
from anyshape.frontends.torch.derived import Derived, depth_of
from anyshape.frontends.torch.origins import CALLER, CONDITION, origin_of_guard
from anyshape.frontends.torch.sizes import SizeNames
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation

Condition: TypeAlias = tuple[Relation, Origin]
"""What must hold of sizes, and who asked for it."""

_SPECIALISED_LOWER_BOUND = 2
"""Every symbol starts with this lower bound, because export assumes sizes of at least 2; by itself it says nothing."""

_NEVER_A_SIZE = 2**62
"""No tensor has as many elements, of however few bits."""

_SIMPLIFIED = (symbolic.Max, symbolic.Min, symbolic.TruncToInt)
"""What PyTorch simplifies for sizes of 2 and more, and quotients that are not negative, only."""

_ANY_SIZE = ValueRanges(0, int_oo)


def cancelled_equalities(
    environment: ShapeEnv | None, derived: Mapping[sympy.Basic, Derived] = MappingProxyType({})
) -> dict[sympy.Symbol, sympy.Symbol]:
    """Equalities of symbols behind equalities of products: c·x·a == c·x·b says a == b.

    They come from a view of one input with the sizes of another. Where x is 0 this asks for more than PyTorch does. Of a derived symbol
    and another it is the derived one that is replaced: the other may be what it is computed from.
    """
    equal: dict[Any, Any] = {}
    if environment is None:
        return equal
    for guard in environment.guards:
        expression: Any = environment.replace(guard.expr).xreplace(equal)
        if not isinstance(expression, sympy.Eq):
            continue
        factors = sympy.Mul.make_args(sympy.factor_terms(expression.lhs - expression.rhs))  # pyright: ignore[reportOperatorIssue]
        sums = [factor for factor in factors if not factor.is_Symbol and not factor.is_Number]
        if len(sums) != 1 or len(factors) == 1:
            continue
        symbols: list[Any] = sorted(sums[0].free_symbols, key=lambda each: (depth_of(each, derived), str(each)))
        if len(symbols) == 2 and sums[0] in (symbols[0] - symbols[1], symbols[1] - symbols[0]):
            equal = {key: symbols[0] if value == symbols[1] else value for key, value in equal.items()}
            equal[symbols[1]] = symbols[0]
    return equal


def constant_sizes(environment: ShapeEnv | None, needless: Collection[int] = ()) -> dict[sympy.Basic, sympy.Integer]:
    """Derived sizes that a guard holds at a constant: e of e == c. At size 0, where e may divide by zero, c is what the model asked for.

    `needless` identifies guards that need not hold.
    """
    guards: Any = environment.guards if environment is not None else ()
    constants: dict[sympy.Basic, sympy.Integer] = {}
    for guard in guards:
        if isinstance(guard.expr, sympy.Eq) and id(guard) not in needless:
            derived, constant = guard.expr.args
            if isinstance(constant, sympy.Integer) and not derived.is_Symbol:
                constants[derived] = constant
    return constants


def derived_relations(
    environment: ShapeEnv | None, names: SizeNames, derived: Iterable[sympy.Basic], origins: Mapping[int, Origin]
) -> Iterator[Condition]:
    """Derived symbols for which PyTorch has put an expression: it equals their definition."""
    if environment is None:
        return
    for symbol in derived:
        expression = names.replaced(symbol)
        if expression != symbol:
            about = (guard for guard in environment.guards if symbol in guard.expr.free_symbols)
            origin = next((origin_of_guard(guard, origins) for guard in about), Origin(CONDITION))
            yield names.definition(symbol).eq(names.expression(expression)), origin


def guard_relations(
    environment: ShapeEnv | None,
    names: SizeNames,
    about_strides: Collection[int],
    origins: Mapping[int, Origin] = MappingProxyType({}),
    derived: Collection[sympy.Basic] = (),
    needless: Collection[int] = (),
) -> Iterator[Condition]:
    """The conditions under which the graph is the model; `origins` says of guards, by their identities, who asked for them, `needless`
    identifies guards that need not hold; see `relations_of_guards` for the others."""
    for guard, relation in relations_of_guards(environment, names, about_strides, derived):
        if id(guard) not in needless:
            yield relation, origin_of_guard(guard, origins)


def relations_of_guards(
    environment: ShapeEnv | None,
    names: SizeNames,
    about_strides: Collection[int],
    derived: Collection[sympy.Basic] = (),
) -> Iterator[tuple[Any, Relation]]:
    """The guards that matter, with what they ask; `about_strides` identifies guards that are known to be about layout, `derived` are
    symbols that may be 0 or 1 in the example too.

    A guard of several comparisons of the model's, `a & b`, comes once with each; of `a | b` counts the one that holds in the example.

    Of what PyTorch's own code asked, equalities count always, and bounds unless they are about layout. An inequality there only
    means that no special case applied: the general one holds for the special sizes too. So does an equality of strides that is a bound.
    """
    if environment is None:
        return
    # What the environment knows has taken in every guard, those about layout too: ask with its ranges of the start.
    anything = ValueRanges(_SPECIALISED_LOWER_BOUND, int_oo)
    ranges: Any = tuple((symbol, _ANY_SIZE if symbol in derived else anything) for symbol in environment.var_to_range)
    for guard in environment.guards:
        expression: Any = environment.simplify(names.replaced(guard.expr))  # pyright: ignore[reportArgumentType]
        known = environment._maybe_evaluate_static(expression, axioms=(), var_to_range=ranges)  # pyright: ignore
        if known is not None:
            continue
        if is_bound_by_integers(expression):
            continue
        is_bound = not isinstance(expression, sympy.Eq) or is_bound_by_one(expression)
        if not asked_by_model(guard) and is_bound and (id(guard) in about_strides or isinstance(expression, sympy.Ne)):
            continue
        parts: Iterable[Any] = (expression,)
        if asked_by_model(guard):
            if guard.expr.has(*_SIMPLIFIED) and id(guard) not in about_strides:
                expression = names.replaced(guard.expr)
            parts = _conjuncts(expression, environment.backed_var_to_val)
        for part in parts:
            try:
                relation = names.relation(part)
            except Unsupported as error:
                raise Unsupported(f"{error}; asked for by {origin_of_guard(guard, {})}") from error
            if relation is not None:
                yield guard, relation


def _conjuncts(condition: Any, example: Mapping[Any, Any]) -> Iterator[Any]:
    """Comparisons that imply a condition which holds in the example: all parts of a & b, of a | b the first that holds there."""
    if isinstance(condition, sympy.Not) and isinstance(condition.args[0], sympy.And | sympy.Or):
        inner: Any = condition.args[0]
        opposite: Any = sympy.Or if isinstance(inner, sympy.And) else sympy.And
        condition = opposite(*map(sympy.Not, inner.args))
    if isinstance(condition, sympy.And):
        for part in condition.args:
            yield from _conjuncts(part, example)
    elif isinstance(condition, sympy.Or):
        held = (part for part in condition.args if part.xreplace(example) == sympy.true)
        yield from _conjuncts(next(held, condition.args[0]), example)
    else:
        yield condition


def asked_by_model(guard: Any) -> bool:
    """Whether a line of the model, or of a layer of PyTorch's, asked for a guard of a `ShapeEnv`."""
    frame = guard.sloc.framework_loc
    return isinstance(frame, FrameSummary) and in_model(frame.filename)


def is_bound_by_integers(expression: Any) -> bool:
    """Whether only sizes near 2⁶³ could break it, such as a check of PyTorch's that the sum of two paddings does not overflow."""
    bounds = isinstance(expression, sympy.Le | sympy.Lt | sympy.Ge | sympy.Gt)
    return bounds and any(abs(int(number)) >= _NEVER_A_SIZE for number in expression.atoms(sympy.Integer))


def is_bound_by_one(expression: Any) -> bool:
    """c·max(1, e) == c·e, which row-major strides ask: that e is not 0."""
    difference = expression.lhs - expression.rhs
    greatest = difference.atoms(symbolic.Max, sympy.Max)
    unbound = {each: each.func(*(part for part in each.args if part != 1)) for each in greatest}
    return bool(greatest) and sympy.expand(difference.xreplace(unbound)) == 0


def range_relations(program: ExportedProgram, names: SizeNames) -> Iterator[Condition]:
    """Bounds of symbols that export kept apart from guards."""
    for symbol, bounds in program.range_constraints.items():
        if not symbol_is_type(symbol, SymT.SIZE):
            continue
        size = names.expression(symbol)
        if not size.symbols:
            continue
        if bounds.lower.is_Integer and int(bounds.lower) > _SPECIALISED_LOWER_BOUND:
            yield size.ge(int(bounds.lower)), Origin(CALLER)
        if bounds.upper.is_Integer:
            yield size.le(int(bounds.upper)), Origin(CALLER)


def assume_all(facts: Facts, conditions: Iterable[Condition]) -> dict[str, Origin]:
    """Add what is not known yet; returns who asked for it, by the texts of the relations."""
    added: dict[str, Origin] = {}
    for relation, origin in conditions:
        if facts.prove(relation) is not True:
            condition = plain_form(relation)
            facts.assume(condition)
            added[str(condition)] = origin
    return added
