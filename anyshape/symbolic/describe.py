"""Relations in words, for reports and errors; `str` of a relation is for parsers."""

from __future__ import annotations

import itertools

from anyshape.symbolic.expr import Atom, Size, constant_divisor, make_size
from anyshape.symbolic.relation import Relation


def describe_relation(relation: Relation) -> str:
    """The relation as a reader would say it.

    - `4*(d0 mod 3) == 0`, `d0 == 3*(d0 floordiv 3)` -> `d0 is a multiple of 3`
    - `d1*(d0 mod 3) == 0` -> `d0 is a multiple of 3 or d1 is 0`
    - `d0 mod 3 != 0` -> `d0 is not a multiple of 3`
    - `1 < d0` -> `d0 > 1`
    - `(d1 - 1)*(d1 - d0) == 0` -> `d1 is 1 or d0`
    - `(d0 - 1)*(d1 - 1)*(d0 - d1) == 0` -> `d0 is 1 or d1, or d1 is 1`
    """
    if relation.op == "==":
        choice = _one_or(relation.lhs - relation.rhs)
        if choice is not None:
            return f"{choice[0]} is 1 or {choice[1]}"
        pair = _alike(relation.lhs - relation.rhs)
        if pair is not None:
            return f"{pair[0]} is 1 or {pair[1]}, or {pair[1]} is 1"
    if relation.op in ("==", "!="):
        found = _remainder(relation.lhs - relation.rhs)
        if found is not None:
            return _multiple(*found, negated=relation.op == "!=")
    if relation.lhs.is_constant:
        swapped = {"<": ">", "<=": ">="}.get(relation.op, relation.op)
        return f"{relation.rhs} {swapped} {relation.lhs}"
    return str(relation)


def _multiple(size: Size, divisor: Size, factor: Size, *, negated: bool) -> str:
    """`factor * (size mod divisor)` being 0, or not being 0, in words."""
    always = factor.is_constant
    if negated:
        return f"{size} is not a multiple of {divisor}" + ("" if always else f" and {factor} is not 0")
    return f"{size} is a multiple of {divisor}" + ("" if always else f" or {factor} is 0")


def _one_or(difference: Size) -> tuple[Size, Size] | None:
    """(a, n) where `difference` is (a - 1)·(a - n) for a symbol a, or the negative of that."""
    for name in sorted(difference.symbols):
        symbol = Size.symbol(name)
        for product in (difference, -1 * difference):
            ((factor,), _) = symbol.terms[0]
            other = make_size({monomial: count for monomial, count in product.terms if factor not in monomial})
            if product == (symbol - 1) * (symbol - other):
                return symbol, other
    return None


def _alike(difference: Size) -> tuple[Size, Size] | None:
    """(a, b) where `difference` is (a - 1)·(b - 1)·(a - b) for two symbols, or the negative of that."""
    symbols = [Size.symbol(name) for name in sorted(difference.symbols)]
    for a, b in itertools.combinations(symbols, 2):
        if difference in ((a - 1) * (b - 1) * (a - b), (a - 1) * (b - 1) * (b - a)):
            return a, b
    return None


def _remainder(difference: Size) -> tuple[Size, Size, Size] | None:
    """(e, k, f) where `difference` is f·(e mod k), f not the constant 0; also as f·(e - k·(e floordiv k))."""
    for monomial, coefficient in difference.terms:
        for position, atom in enumerate(monomial):
            rest = make_size({(*monomial[:position], *monomial[position + 1 :]): coefficient})
            if atom.kind == "mod" and len(difference.terms) == 1:
                size, divisor = atom.args
                return size, divisor, _unsigned(rest)
            if atom.kind == "floordiv":
                found = _as_quotient(difference, atom, rest)
                if found is not None:
                    return found
    return None


def _as_quotient(difference: Size, quotient: Atom, rest: Size) -> tuple[Size, Size, Size] | None:
    """(e, k, f) where `difference` is f·(e - k·q), q = e floordiv k for a constant k, and its term in q is rest·q."""
    k = constant_divisor(quotient, "floordiv")
    if k is None or rest.terms[0][1] % k:
        return None
    size = quotient.args[0]
    factor = make_size({monomial: -coefficient // k for monomial, coefficient in rest.terms})
    if difference != factor * (size - k * make_size({(quotient,): 1})):
        return None
    return size, Size.const(k), _unsigned(factor)


def _unsigned(term: Size) -> Size:
    """A product of symbols without its number, which decides nothing where it is compared with 0."""
    ((monomial, _),) = term.terms
    return make_size({monomial: 1})


__all__ = ["describe_relation"]
