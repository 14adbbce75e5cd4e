"""Conditions on remainders by constants: which of them no size meets, and which one remainder alone meets."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, lcm

from anyshape.symbolic import Relation, Size
from anyshape.symbolic.expr import Atom, constant_divisor, make_size

_SMALL_DIVISOR = 64
"""Up to which a condition on a remainder is tried for each."""

_MOST_SIZES = 1 << 13
"""Sizes of which one period may consist."""


def is_boundary(relation: Relation) -> bool:
    """Whether it asks for a mod k with a constant k, or for max(a, b): how much is missing from a size."""
    atoms = [atom for monomial, _ in (relation.lhs - relation.rhs).terms for atom in monomial]
    if len(atoms) != 1:
        return False
    return atoms[0].kind == "max" or (atoms[0].kind == "mod" and atoms[0].args[1].is_constant)


def settled(relation: Relation) -> Relation:
    """A condition on a mod k that one remainder alone meets, as that equality: a mod 2 != 1 as a mod 2 == 0."""
    difference = relation.lhs - relation.rhs
    monomials = [(monomial, coefficient) for monomial, coefficient in difference.terms if monomial]
    if len(monomials) != 1 or len(monomials[0][0]) != 1:
        return relation
    ((remainder,), coefficient) = monomials[0]
    k = constant_divisor(remainder, "mod")
    if k is None or k > _SMALL_DIVISOR:
        return relation
    values = [
        value
        for value in range(k)
        if Relation(Size.const(coefficient * value + difference.constant_term), relation.op, 0).evaluate({})
    ]
    return make_size({(remainder,): 1}).eq(values[0]) if len(values) == 1 else relation


def periods(relations: Iterable[Relation]) -> dict[str, list[tuple[Relation, int]]]:
    """Those of the conditions that repeat with one symbol, with their periods."""
    found: dict[str, list[tuple[Relation, int]]] = {}
    for relation in relations:
        if len(relation.symbols) == 1:
            (symbol,) = relation.symbols
            repeats = _repeats(relation.lhs - relation.rhs)
            if repeats is not None and repeats[1] == 0:
                found.setdefault(symbol, []).append((relation, repeats[0]))
    return found


def exclude_each_other(relations: Iterable[Relation]) -> bool:
    """Whether no size meets those of the conditions that repeat with one symbol: all sizes of one period are tried."""
    for symbol, found in periods(relations).items():
        period = lcm(*(each for _, each in found))
        if period <= _MOST_SIZES and not any(
            all(relation.evaluate({symbol: size}) for relation, _ in found) for size in range(period, 2 * period)
        ):
            return True
    return False


def _repeats(size: Size) -> tuple[int, int] | None:
    """(P, c) with e(n + P) == e(n) + c for an expression e of one symbol n; None where there is no such P."""
    parts: list[tuple[int, int]] = []
    for monomial, coefficient in size.terms:
        if not monomial:
            continue
        repeats = _repeats_of_atom(monomial[0]) if len(monomial) == 1 else None
        if repeats is None:
            return None
        parts.append((repeats[0], coefficient * repeats[1]))
    period = lcm(*(each for each, _ in parts))
    return period, sum(growth * (period // each) for each, growth in parts)


def _repeats_of_atom(atom: Atom) -> tuple[int, int] | None:
    if atom.kind == "symbol":
        return 1, 1
    if atom.kind not in ("floordiv", "mod"):
        return None
    k, inner = constant_divisor(atom, atom.kind), _repeats(atom.args[0])
    if k is None or inner is None:
        return None
    times = k // gcd(inner[1], k)  # until what the dividend grows by is a multiple of k
    return inner[0] * times, inner[1] * times // k if atom.kind == "floordiv" else 0


__all__ = ["exclude_each_other", "is_boundary", "periods", "settled"]
