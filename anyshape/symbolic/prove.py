"""Lower bounds of sizes, from intervals, known inequalities and case distinction.

To bound e from below, look for a known h >= 0 and a product c >= 0 of symbols and constants such that e - c*h has a
better interval: e = (e - c*h) + c*h >= e - c*h. This is Fourier-Motzkin elimination, extended to products, with a
budget. Before that each min or max is, in turn, each of its arguments, which are then compared. Upper bounds are
lower bounds of -e.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anyshape.symbolic.errors import SizeOverflowError
from anyshape.symbolic.expr import Atom, Monomial, Size, make_size, multiply_monomials
from anyshape.symbolic.knowledge import Knowledge

_DEPTH = 4  # inequalities combined in one proof
_SPLITS = 4  # min and max distinguished in one proof
_BUDGET = 300  # sizes looked at in one proof
_TERMS = 8  # terms of a size that count as one more size


def lower_bound(size: Size, known: Knowledge, goal: int | None = None) -> int | None:
    """Some lo <= size, None when none was found; the search ends early at lo >= goal."""
    return _Search(known).lower(size, goal, _DEPTH, _SPLITS, tuple(known.nonnegative))


def is_nonnegative(size: Size, known: Knowledge) -> bool:
    """Whether size >= 0 could be shown."""
    lo = lower_bound(size, known, 0)
    return lo is not None and lo >= 0


def divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """monomial / divisor, or None."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def top_level_atoms(size: Size) -> list[Atom]:
    """The distinct factors of the terms, in their order."""
    return list(dict.fromkeys(atom for monomial, _ in size.terms for atom in monomial))


class _Search:
    """One search for a bound; its budget is shared by all branches."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        self.budget = _BUDGET

    def lower(self, size: Size, goal: int | None, depth: int, splits: int, hypotheses: tuple[Size, ...]) -> int | None:
        best = self.known.interval(size)[0]
        self.budget -= 1 + len(size.terms) // _TERMS
        if self.budget <= 0 or not size.terms or (goal is not None and best is not None and best >= goal):
            return best
        if splits > 0:
            found = self._lower_by_cases(size, goal, depth, splits - 1, hypotheses)
            if found is not None:
                best = found if best is None else max(best, found)
                if goal is not None and best >= goal:
                    return best
        if depth > 0:
            for candidate, scale in self._candidates(size, hypotheses):
                if self.budget <= 0:
                    return best
                inner_goal = None if goal is None else scale * (goal - 1) + 1  # the least whose ceil(x/scale) is goal
                found = self.lower(candidate, inner_goal, depth - 1, 0, hypotheses)
                if found is not None:
                    best = -(-found // scale) if best is None else max(best, -(-found // scale))
                    if goal is not None and best >= goal:
                        return best
        return best

    def _candidates(self, size: Size, hypotheses: tuple[Size, ...]) -> Iterator[tuple[Size, int]]:
        """(t*size - c*h, t) for known h >= 0, products c >= 0 and ints t >= 1 that cancel a term of `size`."""
        axioms = (*hypotheses, *_axioms(size, self.known))
        # The terms that may be negative are in the way; where there are none, any term may have a better bound.
        in_the_way = [term for term in size.terms if not self._is_nonnegative_term(*term)]
        for monomial, coefficient in in_the_way or size.terms:
            for h in axioms:
                if h.symbols.isdisjoint(size.symbols):
                    continue
                for h_monomial, h_coefficient in h.terms:
                    if (h_coefficient < 0) != (coefficient < 0):
                        continue
                    cofactor = divide_monomial(monomial, h_monomial)
                    if cofactor is None or not self._is_nonnegative_term(cofactor, 1):
                        continue
                    candidate = _cancel(size, coefficient, h, h_coefficient, cofactor)
                    room = 1 if h_monomial else 0
                    if candidate is not None and len(candidate[0].terms) <= len(size.terms) + room:
                        yield candidate

    def _is_nonnegative_term(self, monomial: Monomial, coefficient: int) -> bool:
        lo = self.known.interval_of_term(monomial, coefficient)[0]
        return lo is not None and lo >= 0

    def _lower_by_cases(
        self, size: Size, goal: int | None, depth: int, splits: int, hypotheses: tuple[Size, ...]
    ) -> int | None:
        atom = next((atom for atom in top_level_atoms(size) if atom.kind in ("min", "max")), None)
        if atom is None:
            return None
        worst: int | None = None
        for choice in atom.args:
            try:
                sign = 1 if atom.kind == "min" else -1
                others = [sign * (other - choice) for other in atom.args if other is not choice]
                case = _replace_atom(size, atom, choice)
            except SizeOverflowError:
                return None
            found = self.lower(case, goal, depth, splits, (*hypotheses, *others))
            if found is None:
                return None
            worst = found if worst is None else min(worst, found)
        return worst


def _cancel(size: Size, coefficient: int, h: Size, h_coefficient: int, cofactor: Monomial) -> tuple[Size, int] | None:
    """(t*size - u*cofactor*h, t), t and u >= 1 the least that cancel the term; None outside 64 bits."""
    t, u = abs(h_coefficient), abs(coefficient)
    if u % t == 0:
        t, u = 1, u // t
    elif t % u == 0:
        t, u = t // u, 1
    total = {monomial: t * value for monomial, value in size.terms}
    for monomial, value in h.terms:
        product = multiply_monomials(cofactor, monomial)
        total[product] = total.get(product, 0) - u * value
    try:
        return make_size(total), t
    except SizeOverflowError:
        return None


def _axioms(size: Size, known: Knowledge) -> list[Size]:
    """Sizes >= 0 that hold by the meaning of the operators and by the ranges of the symbols in `size`."""
    found: list[Size] = []
    nonlinear = any(len(monomial) > 1 for monomial, _ in size.terms)
    for atom in top_level_atoms(size):
        try:
            found.extend(_axioms_of_range(atom, known) if nonlinear else ())
            found.extend(_axioms_of_operator(atom, known))
        except SizeOverflowError:
            continue
    return found


def _axioms_of_range(atom: Atom, known: Knowledge) -> Iterable[Size]:
    # A linear size has these in its interval; in a product they multiply other factors.
    lo, hi = known.interval_of_atom(atom)
    itself = make_size({(atom,): 1})
    if lo:
        yield itself - lo
    if hi is not None:
        yield hi - itself


def _axioms_of_operator(atom: Atom, known: Knowledge) -> Iterable[Size]:
    if atom.kind == "symbol":
        return
    itself = make_size({(atom,): 1})
    if atom.kind == "min":  # min(a, b) <= a
        yield from (argument - itself for argument in atom.args)
        return
    if atom.kind == "max":  # a <= max(a, b)
        yield from (itself - argument for argument in atom.args)
        return
    x, d = atom.args
    d_lo = known.interval(d)[0]
    if d_lo is None or d_lo < 0:
        return
    if atom.kind == "floordiv":  # d*(x floordiv d) <= x <= d*(x floordiv d) + d - 1, for d > 0
        yield x - d * itself
        yield d * itself + d - 1 - x
        return
    yield d - 1 - itself  # x mod d <= d - 1, for d > 0
    x_lo = known.interval(x)[0]
    if x_lo is not None and x_lo >= 0:  # x mod d <= x, for x >= 0
        yield x - itself


def _replace_atom(size: Size, atom: Atom, value: Size) -> Size:
    total = Size.const(0)
    for monomial, coefficient in size.terms:
        term = make_size({tuple(other for other in monomial if other is not atom): coefficient})
        for _ in range(monomial.count(atom)):
            term = term * value
        total = total + term
    return total
