"""Facts about the symbols of a program, and proofs from them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd, lcm

from anyshape.symbolic.errors import ContradictionError, DivisorError, SizeError, SizeOverflowError
from anyshape.symbolic.expr import Monomial, Size, SizeLike, constant_divisor, make_size
from anyshape.symbolic.knowledge import EVERY_DIVISOR, Interval, Knowledge
from anyshape.symbolic.prove import is_nonnegative, lower_bound
from anyshape.symbolic.relation import Relation, RelationOp
from anyshape.symbolic.simplify import (
    divide_out_nonzero,
    expand_inner_mods,
    expand_mods,
    share_exact_quotients,
    simplify,
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What was said of a symbol: lo <= symbol <= hi (None: open), multiple_of | symbol, and its usual value."""

    lo: int | None
    hi: int | None
    multiple_of: int
    likely: int | None


class Facts:
    """All that is known about symbols, in one place.

    Every answer is sound: it holds at each assignment of ints to symbols that satisfies the facts and at which both
    sides are defined (no division by zero). A symbol that was not declared is >= 0.
    """

    def __init__(self) -> None:
        self._declarations: dict[str, Declaration] = {}
        self._assumed: dict[Relation, None] = {}
        self._known = Knowledge()
        self._simplified: dict[Size, Size] = {}
        self._proofs: dict[Relation, bool | None] = {}

    # Stating facts.

    def declare(
        self, symbol: str, lo: int | None = 0, hi: int | None = None, multiple_of: int = 1, likely: int | None = None
    ) -> None:
        """States lo <= symbol <= hi and multiple_of | symbol; a second declaration adds to the first.

        Raises:
            ContradictionError: no value is left for the symbol.
        """
        _check_divisor(multiple_of, symbol)
        before = self._declarations.get(symbol)
        if before is not None:
            lo = before.lo if lo is None else lo if before.lo is None else max(lo, before.lo)
            hi = before.hi if hi is None else hi if before.hi is None else min(hi, before.hi)
            multiple_of = lcm(multiple_of, before.multiple_of)
            likely = before.likely if likely is None else likely
        source = f"declare '{symbol}': lo={lo}, hi={hi}, multiple_of={multiple_of}"
        with self._all_or_nothing():
            if before is None and (lo is None or lo < 0):
                self._known.ranges[symbol] = (lo, None)
            self._declarations[symbol] = Declaration(lo, hi, multiple_of, likely)
            self._add_divisor(Size.symbol(symbol), multiple_of, source)
            if lo is not None:
                self._add_nonnegative(simplify(Size.symbol(symbol), self._known) - lo, source)
            if hi is not None:
                self._add_nonnegative(hi - simplify(Size.symbol(symbol), self._known), source)

    def assume(self, relation: Relation) -> None:
        """States that `relation` holds.

        Raises:
            ContradictionError: the facts prove the opposite.
        """
        source = f"assume '{relation}'"
        if self.prove(relation) is False:
            raise _contradiction(source, self)
        if relation in self._assumed:
            return
        with self._all_or_nothing():
            self._assumed[relation] = None
            difference = simplify(relation.rhs - relation.lhs, self._known)
            match relation.op:
                case "==":
                    self._add_zero(difference, source)
                case "!=":
                    self._add_nonzero(difference, source)
                case "<=":
                    self._add_nonnegative(difference, source)
                case "<":
                    self._add_nonnegative(difference - 1, source)

    # Asking.

    def prove(self, relation: Relation) -> bool | None:
        """True or False where the facts decide `relation`, None where no proof was found."""
        if relation not in self._proofs:
            try:
                self._proofs[relation] = self._prove(relation)
            except SizeOverflowError:  # the difference of two sizes may leave 64 bits; nothing is known then
                self._proofs[relation] = None
        return self._proofs[relation]

    def range_of(self, size: SizeLike) -> Interval:
        """(lo, hi) with lo <= size <= hi; None is an end about which nothing is known."""
        size = self.simplify(size)
        lo = lower_bound(size, self._known)
        try:
            negated = lower_bound(-size, self._known)
        except SizeOverflowError:
            negated = None
        return lo, None if negated is None else -negated

    def multiple_of(self, size: SizeLike) -> int:
        """The largest known divisor, >= 1; 2**62 for the size 0, which everything divides."""
        return self._known.multiple_of(self.simplify(size)) or EVERY_DIVISOR

    def is_multiple(self, size: SizeLike, k: int) -> bool | None:
        """Whether k | size, k >= 1; None where no proof was found. DivisorError for k < 1."""
        _check_divisor(k, size)
        return self.prove(Relation(Size.of(size) % k, "==", 0))

    def simplify(self, size: SizeLike) -> Size:
        """An equal size, simpler by what is known; the same object when there is nothing to do."""
        size = Size.of(size)
        found = self._simplified.get(size)
        if found is None:
            found = self._simplified[size] = simplify(size, self._known)
        return found

    def likely(self, symbol: str) -> int | None:
        """The usual value of `symbol`, when one was declared; a hint for cost models, never used in a proof."""
        declaration = self._declarations.get(symbol)
        return None if declaration is None else declaration.likely

    @property
    def symbols(self) -> tuple[str, ...]:
        """The declared symbols, in order of declaration."""
        return tuple(self._declarations)

    def relations(self) -> tuple[Relation, ...]:
        """Every fact as a relation, declarations first; `0 <= symbol`, which holds of every size, is left out."""
        found: dict[Relation, None] = {}
        for name, declaration in self._declarations.items():
            symbol = Size.symbol(name)
            if declaration.lo:
                found[symbol.ge(declaration.lo)] = None
            if declaration.hi is not None:
                found[symbol.le(declaration.hi)] = None
            if declaration.multiple_of > 1:
                found[(symbol % declaration.multiple_of).eq(0)] = None
        return (*found, *(relation for relation in self._assumed if relation not in found))

    def key(self) -> str:
        """A text equal for stores in which the same was stated, in whatever order; part of a kernel's cache key."""
        named = [
            f"{name}: lo={each.lo} hi={each.hi} multiple_of={each.multiple_of} likely={each.likely}"
            for name, each in sorted(self._declarations.items())
        ]
        return "; ".join(named + sorted(str(relation) for relation in self._assumed))

    def copy(self) -> Facts:
        """An independent store with the same facts."""
        other = Facts()
        other._declarations = dict(self._declarations)
        other._assumed = dict(self._assumed)
        other._known = self._known.copy()
        return other

    # Proving.

    def _prove(self, relation: Relation) -> bool | None:
        difference = self.simplify(relation.rhs - relation.lhs)
        if difference.symbols:
            difference = self.simplify(expand_mods(difference, self._known))
            difference = self.simplify(share_exact_quotients(difference, self._known))
        answer = self._decide(relation.op, difference)
        if answer is None:
            opened = self.simplify(expand_inner_mods(difference, self._known))
            answer = self._decide(relation.op, opened) if opened.is_constant else None
        return answer

    def _decide(self, op: RelationOp, difference: Size) -> bool | None:
        """Whether 0 `op` difference."""
        match op:
            case "==":
                return self._is_zero(difference)
            case "!=":
                return _negate(self._is_zero(difference))
            case "<=":
                return self._is_nonnegative(difference)
            case "<":  # 0 < a -> not (a <= 0)
                return _negate(self._is_nonnegative(-difference))

    def _is_zero(self, size: Size) -> bool | None:
        if size.is_constant:
            return size.value == 0
        if self._known.is_nonzero(divide_out_nonzero(size, self._known)):
            return False
        at_least = lower_bound(size, self._known, 1)
        if at_least is not None and at_least >= 1:
            return False
        at_most = lower_bound(-size, self._known, 1)
        if at_most is not None and at_most >= 1:
            return False
        if at_least is not None and at_most is not None and at_least >= 0 and at_most >= 0:
            return True
        return None

    def _is_nonnegative(self, size: Size) -> bool | None:
        if is_nonnegative(size, self._known):
            return True
        if is_nonnegative(-size - 1, self._known):
            return False
        # a >= -1 and a != -1 -> a >= 0; and the other way round
        if self._known.is_nonzero(size + 1) and is_nonnegative(size + 1, self._known):
            return True
        if self._known.is_nonzero(size) and is_nonnegative(-size, self._known):
            return False
        return None

    # Solving. Each `_add_` takes a simplified size; `source` names the statement in errors.

    @contextmanager
    def _all_or_nothing(self) -> Generator[None]:
        """Leaves the store as it was where the statement inside is refused."""
        before = self.copy()
        try:
            yield
        except SizeError:
            self._declarations, self._assumed, self._known = before._declarations, before._assumed, before._known
            self._forget()
            raise

    def _forget(self) -> None:
        self._simplified.clear()
        self._proofs.clear()
        self._known.intervals.clear()
        self._known.simplified.clear()

    def _add_nonnegative(self, size: Size, source: str) -> None:
        self._forget()
        if size.is_constant:
            if size.value < 0:
                raise _contradiction(source, self)
            return
        size = _tighten(size, self._known)
        hi = self._known.interval(size)[1]
        if hi is not None and hi < 0:
            raise _contradiction(source, self)
        if hi == 0:  # 0 <= e <= 0 -> e == 0
            self._add_zero(size, source)
            return
        name = make_size({size.terms[0][0]: 1}).as_symbol()
        if name is None or len(size.terms) > 1 + bool(size.constant_term):
            self._known.nonnegative[size] = None
            self._forget()
            return
        # c*x + k >= 0: a bound of x
        coefficient = size.terms[0][1]
        lo, hi = self._known.ranges.get(name, (0, None))
        bound = -size.constant_term
        if coefficient > 0:
            new = -(-bound // coefficient)
            lo = new if lo is None else max(lo, new)
        else:
            new = bound // coefficient
            hi = new if hi is None else min(hi, new)
        self._set_range(name, lo, hi, source)

    def _set_range(self, name: str, lo: int | None, hi: int | None, source: str) -> None:
        step = self._known.multiples.get(name, 1)
        lo = None if lo is None else -(-lo // step) * step
        hi = None if hi is None else hi // step * step
        if lo is not None and hi is not None and lo > hi:
            raise _contradiction(source, self)
        changed = self._known.ranges.get(name, (0, None)) != (lo, hi)
        self._known.ranges[name] = (lo, hi)
        self._forget()
        if changed and lo is not None and lo == hi:
            self._substitute_everywhere(source)

    def _add_divisor(self, size: Size, k: int, source: str) -> None:
        self._forget()
        size = simplify(size, self._known)
        if size.is_constant:
            if size.value % k:
                raise _contradiction(source, self)
            return
        if k == 1:
            return
        name = size.as_symbol()
        if name is None:
            self._known.divisors[size] = lcm(k, self._known.divisors.get(size, 1))
            self._forget()
        else:
            self._known.multiples[name] = lcm(k, self._known.multiples.get(name, 1))
            self._set_range(name, *self._known.ranges.get(name, (0, None)), source)
        self._divide_dividends(source)

    def _divide_dividends(self, source: str) -> None:
        """m | x and k | x floordiv m -> m*k | x"""
        for size, k in list(self._known.divisors.items()):
            quotient = (size if size.terms[0][1] > 0 else -size).as_atom()
            m = None if quotient is None else constant_divisor(quotient, "floordiv")
            if quotient is None or m is None:
                continue
            x = quotient.args[0]
            known = self._known.multiple_of(x)
            if known % m == 0 and known % (m * k):
                self._add_divisor(x, m * k, source)

    def _add_nonzero(self, size: Size, source: str) -> None:
        self._forget()
        if size.is_constant:
            if size.value == 0:
                raise _contradiction(source, self)
            return
        self._known.nonzero.add(size if size.terms[0][1] > 0 else -size)
        self._forget()
        for signed in (size, -size):
            if is_nonnegative(signed, self._known):  # e >= 0, e != 0 -> e >= 1
                self._add_nonnegative(signed - 1, source)
                return

    def _add_zero(self, size: Size, source: str) -> None:
        self._forget()
        size = divide_out_nonzero(size, self._known)
        if size.is_constant:
            if size.value != 0:
                raise _contradiction(source, self)
            return
        remainder = make_size({size.terms[0][0]: 1}).as_atom()
        k = None if remainder is None else constant_divisor(remainder, "mod")
        alone = len(size.terms) == 1 + bool(size.constant_term) and abs(size.terms[0][1]) == 1
        if remainder is not None and k is not None and alone:  # x mod k - r == 0 -> k | x - r
            self._add_divisor(remainder.args[0] + size.constant_term * size.terms[0][1], k, source)
            return
        solved = _solve_for_symbol(size)
        if solved is not None:
            self._eliminate(*solved, source)
            return
        monomial, coefficient = size.terms[0]
        rest = size - make_size({monomial: coefficient})
        if abs(coefficient) == 1 and not any(_occurs(factor.symbols, rest, factor.kind) for factor in monomial):
            self._known.products[monomial] = -coefficient * rest
            self._substitute_everywhere(source)
            return
        # No term to rewrite: e == 0 -> e >= 0, -e >= 0
        self._known.nonnegative[size] = None
        self._known.nonnegative[-size] = None
        self._forget()

    def _eliminate(self, name: str, value: Size, source: str) -> None:
        """Replaces symbol `name` by `value`, which does not contain it, here and in all that was known."""
        lo, hi = self._known.ranges.pop(name, (0, None))
        multiple = self._known.multiples.pop(name, 1)
        self._known.values[name] = value
        self._substitute_everywhere(source)
        self._add_divisor(value, multiple, source)
        if lo is not None:
            self._add_nonnegative(simplify(value - lo, self._known), source)
        if hi is not None:
            self._add_nonnegative(simplify(hi - value, self._known), source)

    def _substitute_everywhere(self, source: str) -> None:
        """Brings every solved fact up to date with the replacements."""
        self._forget()
        known = self._known
        known.values = {name: simplify(value, known) for name, value in known.values.items()}
        products, known.products = known.products, {}
        nonnegative, known.nonnegative = known.nonnegative, {}
        nonzero, known.nonzero = known.nonzero, set[Size]()
        divisors, known.divisors = known.divisors, {}
        self._forget()
        for monomial, value in products.items():
            self._readd_product(monomial, value, source)
        for size in nonnegative:
            self._add_nonnegative(simplify(size, known), source)
        for size in sorted(nonzero, key=lambda each: each.sort_key):
            self._add_nonzero(simplify(size, known), source)
        for size, k in divisors.items():
            self._add_divisor(size, k, source)

    def _readd_product(self, monomial: Monomial, value: Size, source: str) -> None:
        before = make_size({monomial: 1})
        after = simplify(before, self._known)
        updated = simplify(value, self._known)
        if after is before:
            self._known.products[monomial] = updated
            self._forget()
        else:
            self._add_zero(after - updated, source)


def _negate(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _check_divisor(k: int, size: SizeLike | str) -> None:
    if k < 1:
        raise DivisorError(f"facts: '{size}' as a multiple of {k}; expected an int >= 1")


def _contradiction(source: str, facts: Facts) -> ContradictionError:
    stated = "; ".join(str(relation) for relation in facts.relations()) or "none"
    return ContradictionError(f"facts: {source} contradicts what is known ({stated}); drop one of them")


def _tighten(size: Size, known: Knowledge) -> Size:
    """g*x + c >= 0 -> x + floor(c / g) >= 0"""
    g = gcd(*(coefficient for monomial, coefficient in size.terms if monomial))
    return make_size({monomial: coefficient // g for monomial, coefficient in size.terms})


def _occurs(symbols: frozenset[str], size: Size, kind: str) -> bool:
    """Whether a rewriting of a factor would meet itself again inside an operator of the replacement."""
    if kind == "symbol":
        return any(not symbols.isdisjoint(atom.symbols) for m, _ in size.terms for atom in m if atom.kind != "symbol")
    return not symbols.isdisjoint(size.symbols)


def _solve_for_symbol(size: Size) -> tuple[str, Size] | None:
    """(x, v) with size == 0 exactly where x == v, x not in v: the v with the fewest minus signs, then the last name."""
    best: tuple[int, str, Size] | None = None
    for monomial, coefficient in size.terms:
        if len(monomial) != 1 or monomial[0].kind != "symbol" or abs(coefficient) != 1:
            continue
        value = -coefficient * (size - make_size({monomial: coefficient}))
        name = monomial[0].name
        if name in value.symbols:
            continue
        minus = sum(c < 0 for m, c in value.terms if m)
        if best is None or minus < best[0] or (minus == best[0] and name > best[1]):
            best = (minus, name, value)
    return None if best is None else (best[1], best[2])
