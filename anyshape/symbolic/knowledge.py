"""What is known about symbols, in the forms that the prover reads, and interval arithmetic over it.

`None` is an open end of an interval. Every statement below holds at each assignment that satisfies the facts and at
which the size is defined; so a divisor that cannot be negative is at least 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

from anyshape.symbolic.expr import Atom, Monomial, Size, make_size

Interval = tuple[int | None, int | None]
EVERY_DIVISOR = 1 << 62  # the known divisor of a size that is 0: every power of two up to here divides it


@dataclass(slots=True)
class Knowledge:
    """The facts, solved as far as they can be.

    Attributes:
        ranges: symbol -> interval; a symbol that is not here is >= 0.
        multiples: symbol -> known divisor.
        values: symbol -> the size that replaces it.
        products: monomial -> the size that replaces it, smaller in the order of monomials.
        nonnegative: sizes known to be >= 0.
        nonzero: sizes known to be != 0, with a positive first coefficient.
        divisors: size -> known divisor.
    """

    ranges: dict[str, Interval] = field(default_factory=dict[str, Interval])
    multiples: dict[str, int] = field(default_factory=dict[str, int])
    values: dict[str, Size] = field(default_factory=dict[str, Size])
    products: dict[Monomial, Size] = field(default_factory=dict[Monomial, Size])
    nonnegative: dict[Size, None] = field(default_factory=dict[Size, None])
    nonzero: set[Size] = field(default_factory=set[Size])
    divisors: dict[Size, int] = field(default_factory=dict[Size, int])
    intervals: dict[Atom, Interval] = field(default_factory=dict[Atom, Interval])  # memo
    simplified: dict[Atom, Size] = field(default_factory=dict[Atom, Size])  # memo

    def copy(self) -> Knowledge:
        return Knowledge(
            dict(self.ranges), dict(self.multiples), dict(self.values), dict(self.products),
            dict(self.nonnegative), set(self.nonzero), dict(self.divisors),
        )  # fmt: skip

    # Intervals.

    def interval(self, size: Size) -> Interval:
        """[lo, hi] with lo <= size <= hi, each term taken by itself."""
        lo: int | None = 0
        hi: int | None = 0
        for monomial, coefficient in size.terms:
            term = self.interval_of_term(monomial, coefficient)
            lo = None if lo is None or term[0] is None else lo + term[0]
            hi = None if hi is None or term[1] is None else hi + term[1]
        return lo, hi

    def interval_of_term(self, monomial: Monomial, coefficient: int) -> Interval:
        product: Interval = (coefficient, coefficient)
        for atom in monomial:
            product = _multiply(product, self.interval_of_atom(atom))
        return product

    def interval_of_atom(self, atom: Atom) -> Interval:
        if atom.kind == "symbol":
            return self.ranges.get(atom.name, (0, None))
        found = self.intervals.get(atom)
        if found is None:
            found = self.intervals[atom] = self._interval_of_operator(atom)
        return found

    def _interval_of_operator(self, atom: Atom) -> Interval:
        arguments = [self.interval(argument) for argument in atom.args]
        lows = [lo for lo, _ in arguments if lo is not None]
        highs = [hi for _, hi in arguments if hi is not None]
        match atom.kind:
            case "min":
                return min(lows) if len(lows) == len(arguments) else None, min(highs, default=None)
            case "max":
                return max(lows, default=None), max(highs) if len(highs) == len(arguments) else None
            case "floordiv":
                return _floordiv(*arguments)
            case _:
                return _mod(*arguments)

    # Signs.

    def is_nonzero(self, size: Size) -> bool:
        """Whether `size` is known to differ from 0, by its interval or as a product of such factors."""
        lo, hi = self.interval(size)
        if (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return True
        if size in self.nonzero or -size in self.nonzero:
            return True
        if len(size.terms) == 1:
            factors = [make_size({(atom,): 1}) for atom in size.terms[0][0]]
            return (len(factors) > 1 or size.terms[0][1] != 1) and all(self.is_nonzero(factor) for factor in factors)
        # 4*s + 2 != 0: every term but the constant is a multiple of a step that does not divide the constant
        step = gcd(*(coefficient * self.multiple_of_monomial(m) for m, coefficient in size.terms if m))
        return step != 0 and size.constant_term % step != 0

    # Divisors.

    def multiple_of(self, size: Size) -> int:
        """A known divisor of `size`, 0 when `size` is 0."""
        found = self._multiple_by_terms(size, use_divisors=True)
        for known, divisor in self.divisors.items():
            scale = scale_of(size, known)
            if scale:
                # size = scale*known + rest, and divisor | known. The rest does without `divisors`: it may hold, inside
                # an operator, the size that is being asked about.
                other = gcd(scale * divisor, self._multiple_by_terms(size - scale * known, use_divisors=False))
                found = lcm(found, other)  # both divide, so their least common multiple does
        return found

    def multiple_of_monomial(self, monomial: Monomial, use_divisors: bool = True) -> int:
        product = 1
        for atom in monomial:
            product *= self._multiple_of_atom(atom, use_divisors)
        return product

    def _multiple_by_terms(self, size: Size, use_divisors: bool) -> int:
        return gcd(*(c * self.multiple_of_monomial(monomial, use_divisors) for monomial, c in size.terms))

    def _multiple_of_atom(self, atom: Atom, use_divisors: bool) -> int:
        if atom.kind == "symbol":
            return self.multiples.get(atom.name, 1)
        divisors = [self.multiple_of(x) if use_divisors else self._multiple_by_terms(x, False) for x in atom.args]
        if atom.kind != "floordiv":  # g | x, g | y -> g | min(x, y), max(x, y), x mod y
            return gcd(*divisors) or EVERY_DIVISOR
        divisor = atom.args[1].constant_or(0)
        # k*m | x -> m | x floordiv k
        return divisors[0] // divisor if divisor and divisors[0] and divisors[0] % divisor == 0 else 1


def scale_of(size: Size, known: Size) -> int:
    """The c for which c*known cancels the first term of `known` in `size`, 0 where there is none."""
    monomial, coefficient = known.terms[0]
    for other, value in size.terms:
        if other == monomial:
            return value // coefficient if value % coefficient == 0 else 0
    return 0


def _multiply(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        corners = [x * y for x in a for y in b if x is not None and y is not None]
        return min(corners), max(corners)
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]
    if a[1] is not None and a[1] <= 0:  # a*b -> -((-a)*b)
        return _negate(_multiply(_negate(a), b))
    if b[1] is not None and b[1] <= 0:
        return _negate(_multiply(a, _negate(b)))
    if a[0] is not None and a[0] >= 0 and a[1] is not None:  # 0 <= a <= a1, b open on one side
        return (
            None if b[0] is None else min(a[1] * b[0], a[0] * b[0]),
            None if b[1] is None else max(a[1] * b[1], a[0] * b[1]),
        )
    if b[0] is not None and b[0] >= 0 and b[1] is not None:
        return _multiply(b, a)
    return None, None


def _negate(a: Interval) -> Interval:
    return None if a[1] is None else -a[1], None if a[0] is None else -a[0]


def _floordiv(x: Interval, d: Interval) -> Interval:
    if d[1] is not None and d[1] <= 0:  # x floordiv d -> (-x) floordiv (-d)
        return _floordiv(_negate(x), _negate(d)) if d[0] != 0 else (None, None)
    if d[0] is None or d[0] < 0:
        return None, None
    least, most = max(d[0], 1), d[1]
    lo = hi = None
    if x[0] is not None:
        lo = x[0] // least if x[0] < 0 else 0 if most is None else x[0] // most
    if x[1] is not None:
        hi = x[1] // least if x[1] >= 0 else -1 if most is None else x[1] // most
    return lo, hi


def _mod(x: Interval, d: Interval) -> Interval:
    if d[1] is not None and d[1] <= 0:  # x mod d -> -((-x) mod (-d))
        return _negate(_mod(_negate(x), _negate(d))) if d[0] != 0 else (None, None)
    if d[0] is None or d[0] < 0:
        return None, None
    highs = [] if d[1] is None else [d[1] - 1]
    if x[0] is not None and x[0] >= 0 and x[1] is not None:
        highs.append(x[1])
        if x[1] < d[0]:
            return x
    return 0, min(highs, default=None)
