"""Conditions on sizes as a reader would write them: what views and slices ask comes with the sizes that they computed in it."""

from __future__ import annotations

from anyshape.symbolic import Relation, Size
from anyshape.symbolic.expr import Atom, make_size


def plain_form(relation: Relation) -> Relation:
    """An equivalent relation that is shorter, or the same one.

    - `max(d0 - 1, 0) + 1 == d0`, `d0 - 1 == max(d0 - 1, 0)`, `0 <= d0 - 1` -> `1 <= d0`
    - `min(d0, 2) == 2` -> `2 <= d0`
    - `d0 - 1 <= 9` -> `d0 <= 10`
    - `d0 - 4 != 0` -> `d0 != 4`
    """
    if relation.op == "==":
        order = _order(relation.lhs - relation.rhs)
        return relation if order is None else plain_form(order)
    if relation.op in ("<=", "!="):
        return _constant_aside(relation)
    return relation


def _order(difference: Size) -> Relation | None:
    """a <= b where `difference`, or the negative of it, is max(a, b) - b or a - min(a, b)."""
    for monomial, coefficient in difference.terms:
        if len(monomial) != 1 or abs(coefficient) != 1 or monomial[0].kind not in ("min", "max"):
            continue
        extremum: Atom = monomial[0]
        other = make_size({monomial: 1}) - coefficient * difference
        if len(extremum.args) == 2 and other in extremum.args:
            (rest,) = (
                (arg for arg in extremum.args if arg != other) if extremum.args[0] != extremum.args[1] else (other,)
            )
            return other.le(rest) if extremum.kind == "min" else rest.le(other)
    return None


def _constant_aside(relation: Relation) -> Relation:
    """The constant on one side and all else on the other, where that needs no minus."""
    difference = relation.rhs - relation.lhs
    constant = sum(coefficient for monomial, coefficient in difference.terms if not monomial)
    rest = difference - constant
    if relation.op == "!=":
        first = rest if rest.terms and rest.terms[0][1] > 0 else -rest
        return first.ne(-constant if first is rest else constant) if len(rest.terms) == 1 else relation
    if rest.terms and all(coefficient > 0 for _, coefficient in rest.terms):
        return Size.const(-constant).le(rest)
    if rest.terms and all(coefficient < 0 for _, coefficient in rest.terms):
        return (-1 * rest).le(constant)
    return relation


__all__ = ["plain_form"]
