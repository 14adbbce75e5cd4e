"""Size expressions in normal form.

A `Size` is a polynomial over the integers: a sum of `coefficient * product of atoms`. An atom is a symbol, or a
`floordiv`, `mod`, `min` or `max` of sizes that are themselves in normal form. Sizes and atoms are hash-consed: two
sizes with the same normal form are the same object, so `==` and `hash` are those of identity and cost nothing.

Division is Python's: `floordiv` rounds down and `mod` has the divisor's sign. The normal form has the same value as the
written expression wherever that is defined; a division by a symbol is kept, because the symbol may be zero (see
`Facts.simplify`), unless its term cancels out of the sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import gcd
from typing import Literal, TypeVar

from anyshape.symbolic.errors import (
    SizeDivisionError,
    SizeNameError,
    SizeNotConstantError,
    SizeTypeError,
)
from anyshape.symbolic.fold import INT64_MAX, SizeAlgebra, check_int64, evaluate_size, fold_size
from anyshape.symbolic.relation import Relation
from anyshape.symbolic.text import format_size

T = TypeVar("T")
AtomKind = Literal["symbol", "floordiv", "mod", "min", "max"]
Monomial = tuple["Atom", ...]  # sorted; a power is a repetition; () is the constant term
Terms = tuple[tuple[Monomial, int], ...]

RESERVED_WORDS = frozenset({"floordiv", "mod", "min", "max"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_KIND_ORDER: dict[AtomKind, int] = {"symbol": 0, "floordiv": 1, "mod": 2, "min": 3, "max": 4}


class Atom:
    """A factor that the normal form does not open: a symbol (`name`) or an operator applied to sizes (`args`)."""

    __slots__ = ("args", "kind", "name", "sort_key", "symbols")
    kind: AtomKind
    name: str
    args: tuple[Size, ...]
    sort_key: tuple[object, ...]
    symbols: frozenset[str]

    def __reduce__(self) -> tuple[object, ...]:
        return (make_atom, (self.kind, self.name, self.args))

    def __repr__(self) -> str:
        return f"Atom({make_size({(self,): 1})})"


class Size:
    """A size in normal form. Made by `Size.const`, `Size.symbol`, the operators, `size_min`, `size_max`, `parse_size`.

    Attributes:
        terms: (monomial, coefficient) pairs, coefficients non-zero, highest degree first, the constant last.
        sort_key: a total order that does not depend on the order of creation.
        symbols: the names that occur anywhere inside.
    """

    __slots__ = ("_text", "sort_key", "symbols", "terms")
    terms: Terms
    sort_key: tuple[object, ...]
    symbols: frozenset[str]
    _text: str | None

    @staticmethod
    def const(value: int) -> Size:
        """The constant `value`; SizeOverflowError outside the signed 64-bit range."""
        return _CONSTANTS.get(value) or _CONSTANTS.setdefault(value, make_size({(): value}))

    @staticmethod
    def symbol(name: str) -> Size:
        """The symbol `name`; SizeNameError unless it matches `[A-Za-z_][A-Za-z0-9_.]*` and is no operator's word."""
        return make_size({(make_atom("symbol", name, ()),): 1})

    @staticmethod
    def of(value: SizeLike) -> Size:
        """`value` itself, or the constant that it is."""
        if isinstance(value, Size):
            return value
        if isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass foreign values
            return Size.const(value)
        raise SizeTypeError(f"size: expected a Size or an int, got {value!r} ({type(value).__name__})")

    # Reading.

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def value(self) -> int:
        """The int that a constant size is; SizeNotConstantError otherwise."""
        if not self.is_constant:
            names = ", ".join(sorted(self.symbols))
            raise SizeNotConstantError(f"size '{self}' is not a constant; it depends on {names}")
        return self.terms[0][1] if self.terms else 0

    def constant_or(self, default: T) -> int | T:
        """The int that a constant size is, or `default`."""
        return self.value if self.is_constant else default

    @property
    def constant_term(self) -> int:
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    def as_atom(self) -> Atom | None:
        """The atom that this size is, or None when it is a constant, a product or a sum."""
        if len(self.terms) != 1 or self.terms[0][1] != 1 or len(self.terms[0][0]) != 1:
            return None
        return self.terms[0][0][0]

    def as_symbol(self) -> str | None:
        """The name of the symbol that this size is, or None."""
        atom = self.as_atom()
        return atom.name if atom is not None and atom.kind == "symbol" else None

    def __str__(self) -> str:
        if self._text is None:
            self._text = format_size(self)
        return self._text

    def __repr__(self) -> str:
        return f"Size({self})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_size_of_terms, (self.terms,))

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Size:
        return self

    # Arithmetic.

    def __add__(self, other: SizeLike) -> Size:
        total = dict(self.terms)
        for monomial, coefficient in Size.of(other).terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return make_size(total)

    def __neg__(self) -> Size:
        return make_size({monomial: -coefficient for monomial, coefficient in self.terms})

    def __sub__(self, other: SizeLike) -> Size:
        total = dict(self.terms)
        for monomial, coefficient in Size.of(other).terms:
            total[monomial] = total.get(monomial, 0) - coefficient
        return make_size(total)

    def __rsub__(self, other: SizeLike) -> Size:
        return Size.of(other) - self

    def __mul__(self, other: SizeLike) -> Size:
        # (a + b) * c -> a*c + b*c
        total: dict[Monomial, int] = {}
        right = Size.of(other).terms
        for left_monomial, left in self.terms:
            for right_monomial, coefficient in right:
                monomial = multiply_monomials(left_monomial, right_monomial)
                total[monomial] = total.get(monomial, 0) + left * coefficient
        return make_size(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: SizeLike) -> Size:
        divisor = Size.of(other)
        if divisor.is_constant:
            return _floordiv_by_constant(self, divisor.value)
        return _atom_size("floordiv", (self, divisor))

    def __rfloordiv__(self, other: SizeLike) -> Size:
        return Size.of(other) // self

    def __mod__(self, other: SizeLike) -> Size:
        divisor = Size.of(other)
        if divisor.is_constant:
            return _mod_by_constant(self, divisor.value)
        return _atom_size("mod", (self, divisor))

    def __rmod__(self, other: SizeLike) -> Size:
        return Size.of(other) % self

    # Relations. Python's own `==` compares normal forms; `<` on sizes is an error on purpose.

    def eq(self, other: SizeLike) -> Relation:
        return Relation(self, "==", other)

    def ne(self, other: SizeLike) -> Relation:
        return Relation(self, "!=", other)

    def le(self, other: SizeLike) -> Relation:
        return Relation(self, "<=", other)

    def lt(self, other: SizeLike) -> Relation:
        return Relation(self, "<", other)

    def ge(self, other: SizeLike) -> Relation:
        return Relation(Size.of(other), "<=", self)  # a >= b -> b <= a

    def gt(self, other: SizeLike) -> Relation:
        return Relation(Size.of(other), "<", self)  # a > b -> b < a

    # Interpretations.

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The exact value when each symbol has its value in `env`.

        Raises:
            UnboundSymbolError: a symbol has no value.
            SizeDivisionError: a divisor is zero.
            SizeOverflowError: the value, or that of an operand of floordiv, mod, min or max, leaves 64 bits.
        """
        return evaluate_size(self, env)

    def substitute(self, env: Mapping[str, SizeLike]) -> Size:
        """The size with every symbol in `env` replaced, all at once, and the result in normal form."""
        if self.symbols.isdisjoint(env):
            return self
        return self.fold(_Substitution(env))

    def fold(self, algebra: SizeAlgebra[T]) -> T:
        """Interprets the size bottom-up in `algebra`; an atom that occurs twice is interpreted once."""
        return fold_size(self, algebra, {})


SizeLike = Size | int


def size_min(*sizes: SizeLike) -> Size:
    """The least of one or more sizes."""
    return _extremum("min", sizes)


def size_max(*sizes: SizeLike) -> Size:
    """The greatest of one or more sizes."""
    return _extremum("max", sizes)


def broadcast_size(a: SizeLike, b: SizeLike) -> Size:
    """The size of an axis on which `a` and `b` are broadcast, each being 1 or the common size n.

    Where the choice is open it is `max(a, b)*min(a, b, 1)`: n for (n, n), (1, n) and (n, 1), and 0 for (1, 0).
    """
    a, b = Size.of(a), Size.of(b)
    if a is b or b.constant_or(None) == 1:
        return a
    if a.constant_or(None) == 1:
        return b
    return size_max(a, b) * size_min(a, b, 1)


# Hash-consing. The tables only grow, by one entry for each distinct size of the process; `setdefault` makes them safe
# under threads.

_SIZES: dict[Terms, Size] = {}
_CONSTANTS: dict[int, Size] = {}
_ATOMS: dict[tuple[AtomKind, str, tuple[Size, ...]], Atom] = {}


def make_atom(kind: AtomKind, name: str, args: tuple[Size, ...]) -> Atom:
    """The unique atom with these parts, as they are: operators simplify before they come here."""
    key = (kind, name, args)
    found = _ATOMS.get(key)
    if found is not None:
        return found
    if kind == "symbol" and (not _NAME.match(name) or name in RESERVED_WORDS):
        words = ", ".join(sorted(RESERVED_WORDS))
        raise SizeNameError(f"symbol {name!r}: expected [A-Za-z_][A-Za-z0-9_.]* and none of {words}")
    atom = Atom()
    atom.kind, atom.name, atom.args = kind, name, args
    atom.sort_key = (_KIND_ORDER[kind], name, tuple(argument.sort_key for argument in args))
    atom.symbols = frozenset({name}) if kind == "symbol" else frozenset[str]().union(*(a.symbols for a in args))
    return _ATOMS.setdefault(key, atom)


def make_size(coefficients: Mapping[Monomial, int]) -> Size:
    """The unique size with these coefficients; zeros are dropped. SizeOverflowError outside the signed 64-bit range."""
    kept = [term for term in coefficients.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_term_order)
    terms = tuple(kept)
    found = _SIZES.get(terms)
    if found is not None:
        return found
    for _, coefficient in terms:
        check_int64(coefficient)
    size = Size()
    size.terms = terms
    size.sort_key = tuple((monomial_order(monomial), coefficient) for monomial, coefficient in terms)
    size.symbols = frozenset[str]().union(*(atom.symbols for monomial, _ in terms for atom in monomial))
    size._text = None  # pyright: ignore[reportPrivateUsage] - made here
    return _SIZES.setdefault(terms, size)


def multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    return tuple(sorted(left + right, key=_atom_order))


def monomial_order(monomial: Monomial) -> tuple[object, ...]:
    """Highest degree first, then by the atoms' own order."""
    return (-len(monomial), tuple(atom.sort_key for atom in monomial))


def _term_order(term: tuple[Monomial, int]) -> tuple[object, ...]:
    return monomial_order(term[0])


def _atom_order(atom: Atom) -> tuple[object, ...]:
    return atom.sort_key


def _size_of_terms(terms: Terms) -> Size:
    return make_size(dict(terms))


def _atom_size(kind: AtomKind, args: tuple[Size, ...]) -> Size:
    return make_size({(make_atom(kind, "", args),): 1})


# Division by a constant.


def constant_divisor(atom: Atom, kind: AtomKind) -> int | None:
    """The divisor of a `kind` atom (`floordiv` or `mod`) when it is a constant, which is then > 1."""
    return atom.args[1].constant_or(None) if atom.kind == kind else None


def _divide_terms(size: Size, k: int) -> tuple[Size, Size]:
    """(q, r) with size = k*q + r; r's coefficients lie in (-k, k), its constant in [0, k)."""
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    for monomial, c in size.terms:
        # Rounding towards zero leaves -x as it is; rounding down would write (-x) floordiv 4 as (3*x) floordiv 4 - x.
        q = c // k if c > 0 or not monomial else -(-c // k)
        quotient[monomial], remainder[monomial] = q, c - k * q
    return make_size(quotient), make_size(remainder)


def _content(size: Size, k: int) -> int:
    """The greatest common divisor of k and the coefficients of all but the constant term."""
    return gcd(k, *(coefficient for monomial, coefficient in size.terms if monomial))


def _floordiv_by_constant(x: Size, k: int) -> Size:
    if k == 0:
        raise SizeDivisionError(f"size: ({x}) floordiv 0; the divisor must not be zero")
    if k < 0:  # x floordiv -k -> (-x) floordiv k
        return _floordiv_by_constant(-x, -k)
    if k == 1:  # x floordiv 1 -> x
        return x
    # (k*q + r) floordiv k -> q + r floordiv k
    quotient, rest = _divide_terms(x, k)
    if rest.is_constant:  # r floordiv k -> 0 for 0 <= r < k
        return quotient
    g = _content(rest, k)
    if g > 1:  # (g*x + r) floordiv (g*k) -> x floordiv k for 0 <= r < g
        reduced = make_size({monomial: c // g for monomial, c in rest.terms})
        return quotient + _floordiv_by_constant(reduced, k // g)
    offset = rest.constant_term
    atom = (rest - offset).as_atom()
    if atom is not None:
        a, m = constant_divisor(atom, "floordiv"), constant_divisor(atom, "mod")
        if a is not None and a * k <= INT64_MAX:  # (x floordiv a + c) floordiv b -> (x + a*c) floordiv (a*b)
            return quotient + _floordiv_by_constant(atom.args[0] + a * offset, a * k)
        if m is not None and m + offset <= k:  # (x mod m + c) floordiv k -> 0 for 0 <= c <= k - m
            return quotient
    return quotient + _atom_size("floordiv", (rest, Size.const(k)))


def _mod_by_constant(x: Size, k: int) -> Size:
    if k == 0:
        raise SizeDivisionError(f"size: ({x}) mod 0; the divisor must not be zero")
    if k < 0:  # x mod -k -> -((-x) mod k)
        return -_mod_by_constant(-x, -k)
    if k == 1:  # x mod 1 -> 0
        return Size.const(0)
    # (k*q + r) mod k -> r mod k
    _, rest = _divide_terms(_open_inner_mods(x, k), k)
    if rest.is_constant:  # r mod k -> r for 0 <= r < k
        return rest
    g = _content(rest, k)
    if g > 1:  # (g*x + r) mod (g*k) -> g*(x mod k) + r for 0 <= r < g
        reduced = make_size({monomial: c // g for monomial, c in rest.terms})
        return g * _mod_by_constant(reduced, k // g) + rest.constant_term % g
    offset = rest.constant_term
    atom = (rest - offset).as_atom()
    m = None if atom is None else constant_divisor(atom, "mod")
    if m is not None and m + offset <= k:  # (x mod m + c) mod k -> x mod m + c for 0 <= c <= k - m
        return rest
    return _atom_size("mod", (rest, Size.const(k)))


def _open_inner_mods(x: Size, k: int) -> Size:
    """(c*(y mod m) + z) mod k -> (c*y + z) mod k where k divides c*m: the argument of the right-hand side."""
    total = x
    for monomial, c in x.terms:
        m = constant_divisor(monomial[0], "mod") if len(monomial) == 1 else None
        if m is not None and (c * m) % k == 0:
            y = _divide_terms(monomial[0].args[0], k)[1]
            total = total - make_size({monomial: c}) + c * y
    return total


# Minimum and maximum.


def _extremum(kind: Literal["min", "max"], sizes: Iterable[SizeLike]) -> Size:
    choose = min if kind == "min" else max
    best: dict[Terms, int] = {}
    for size in _flatten(kind, sizes):
        # min(x + c, x + d) -> x + min(c, d): duplicates and constants fold here too
        offset = size.constant_term
        varying = size.terms[:-1] if offset else size.terms
        best[varying] = choose(best.get(varying, offset), offset)
    kept = [make_size({**dict(varying), (): offset}) for varying, offset in best.items()]
    kept = [size for size in kept if not _is_absorbed(kind, size, kept)]
    if not kept:
        raise SizeTypeError(f"size: {kind}() needs at least one argument")
    if len(kept) == 1:  # min(x) -> x
        return kept[0]
    return _atom_size(kind, tuple(sorted(kept, key=_size_order)))


def _flatten(kind: AtomKind, sizes: Iterable[SizeLike]) -> Iterable[Size]:
    """min(a, min(b, c)) -> min(a, b, c)"""
    for each in sizes:
        size = Size.of(each)
        atom = size.as_atom()
        if atom is not None and atom.kind == kind:
            yield from atom.args
        else:
            yield size


def _is_absorbed(kind: AtomKind, size: Size, others: list[Size]) -> bool:
    """min(a, max(a, b)) -> a, and the same with max and min exchanged"""
    atom = size.as_atom()
    if atom is None or atom.kind != ("max" if kind == "min" else "min"):
        return False
    return any(other in atom.args for other in others)


def _size_order(size: Size) -> tuple[object, ...]:
    # Symbolic arguments first: min(s, 512)
    return (size.is_constant, size.sort_key)


# Substitution.


class _Substitution:
    """The algebra of sizes in which some symbols stand for others."""

    def __init__(self, env: Mapping[str, SizeLike]) -> None:
        self.env = env

    def constant(self, value: int) -> Size:
        return Size.const(value)

    def symbol(self, name: str) -> Size:
        return Size.of(self.env[name]) if name in self.env else Size.symbol(name)

    def add(self, lhs: Size, rhs: Size) -> Size:
        return lhs + rhs

    def mul(self, lhs: Size, rhs: Size) -> Size:
        return lhs * rhs

    def floordiv(self, lhs: Size, rhs: Size) -> Size:
        return lhs // rhs

    def mod(self, lhs: Size, rhs: Size) -> Size:
        return lhs % rhs

    def min(self, lhs: Size, rhs: Size) -> Size:
        return size_min(lhs, rhs)

    def max(self, lhs: Size, rhs: Size) -> Size:
        return size_max(lhs, rhs)
