"""Conditions on sizes as sizes of 0 or 1, so that what a model chooses by them is an expression: `Where(heads != 1, heads, 4)`."""

from __future__ import annotations

from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.symbolic import Facts, Relation, Size, size_max, size_min


def truth(relation: Relation) -> Size:
    """1 where the relation holds, else 0."""
    difference = relation.rhs - relation.lhs
    match relation.op:
        case "==":
            return 1 - _at_most_one(size_max(difference, -difference))
        case "!=":
            return _at_most_one(size_max(difference, -difference))
        case "<=":
            return _at_most_one(size_max(difference + 1, 0))
        case "<":
            return _at_most_one(size_max(difference, 0))


def _at_most_one(size: Size) -> Size:
    return size_min(size, 1)


def both_of(b: GraphBuilder, first: Relation, second: Relation) -> Relation:
    """One relation that holds where both do.

    That one size divides another, both of which calls say, is taken to hold, which is a guard: a model that asks for it repeats heads,
    or channels, in groups, and has no way to go on where they do not come out even.
    """
    for one, other in ((first, second), (second, first)):
        divisor = _divisor(one)
        if divisor is not None:
            b.require(divisor.ge(1), "a size that divides another")
            b.require(one, "a size that divides another")
            return other
    return (truth(first) * truth(second)).eq(1)


def _divisor(relation: Relation) -> Size | None:
    """The divisor, which has symbols, of a relation `a mod divisor == 0`; None of any other one."""
    difference = relation.rhs - relation.lhs
    atom = (-difference).as_atom() or difference.as_atom()
    if relation.op != "==" or atom is None or atom.kind != "mod":
        return None
    divisor = Size.of(atom.args[1])
    return None if divisor.is_constant else divisor


def any_of(first: Relation, second: Relation) -> Relation:
    """One relation that holds where at least one does."""
    return (truth(first) + truth(second)).ge(1)


def chosen_size(facts: Facts, test: Relation, yes: Size, no: Size) -> Size:
    """yes where the relation holds, else no: no + truth · (yes − no). Both must have a value in either case.

    One of them alone where it is the same as the other in the case that is left: `q // k` of q != k and 1 are `q // k`.
    """
    if yes == no:
        return yes
    if test.op in ("==", "!="):
        general, special = (no, yes) if test.op == "==" else (yes, no)
        if _agree(facts, test, general, special):
            return general
    return facts.simplify(no + truth(test) * (yes - no))


def _agree(facts: Facts, equation: Relation, general: Size, special: Size) -> bool:
    """Whether two sizes are the same where two sides, of which one is a symbol, are equal."""
    for one, other in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
        name = one.as_symbol()
        if name is not None and name not in other.symbols:
            at = {name: other}
            return facts.simplify(general.substitute(at)) == facts.simplify(special.substitute(at))
    return False


__all__ = ["any_of", "both_of", "chosen_size", "truth"]
