"""Rewriting of sizes under facts.

Every law keeps the value wherever the size is defined, and removes a division by a symbol only where the symbol is
known to differ from zero.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.symbolic.errors import SizeOverflowError
from anyshape.symbolic.expr import Atom, Monomial, Size, constant_divisor, make_size, size_max, size_min
from anyshape.symbolic.knowledge import Knowledge, scale_of
from anyshape.symbolic.prove import divide_monomial, is_nonnegative

_ROUNDS = 8  # each round may enable another; most sizes are stable after one


def simplify(size: Size, known: Knowledge) -> Size:
    """The simplest form found: values for symbols and products, then the laws of this file, until nothing changes."""
    try:
        for _ in range(_ROUNDS):
            before = size
            size = _with_atoms(size, lambda atom: _simplify_atom(atom, known))
            size = _join_remainders(_replace_products(size, known), known)
            if size is before:
                break
    except SizeOverflowError:  # a rewriting may leave 64 bits where its size does not
        pass
    return size


def expand_mods(size: Size, known: Knowledge) -> Size:
    """x mod d -> x - d*(x floordiv d), for d != 0: the form in which quotients and remainders cancel."""
    total = Size.const(0)
    for monomial, coefficient in size.terms:
        term = Size.const(coefficient)
        for atom in monomial:
            x, d = atom.args if atom.kind == "mod" else (None, None)
            if x is not None and d is not None and known.is_nonzero(d):
                term = term * (x - d * (x // d))
            else:
                term = term * make_size({(atom,): 1})
        total = total + term
    return total


def share_exact_quotients(size: Size, known: Knowledge) -> Size:
    """x floordiv d -> (k / d)*(x floordiv k), k the known divisor of x, for d | k: quotients that differ by a factor cancel."""

    def shared(atom: Atom) -> Size:
        d = constant_divisor(atom, "floordiv")
        k = 0 if d is None else known.multiple_of(atom.args[0])
        return make_size({(atom,): 1}) if d is None or k % d or k == d else k // d * (atom.args[0] // k)

    return _with_atoms(size, shared)


def expand_inner_mods(size: Size, known: Knowledge) -> Size:
    """The same laws inside operators too, as in (x + (-x) mod d) floordiv d -> -((-x) floordiv d); `size` where there is none."""
    return _with_atoms(size, lambda atom: _expand_atom(atom, known))


def _expand_atom(atom: Atom, known: Knowledge) -> Size:
    if atom.kind == "symbol":
        return make_size({(atom,): 1})
    args = [expand_inner_mods(argument, known) for argument in atom.args]
    match atom.kind:
        case "floordiv" if known.is_nonzero(args[1]):
            return _floordiv(args[0], args[1], known)
        case "mod" if known.is_nonzero(args[1]):
            return args[0] - args[1] * _floordiv(args[0], args[1], known)
        case "min":
            return size_min(*args)
        case "max":
            return size_max(*args)
        case _:
            return make_size({(atom,): 1})


def divide_out_nonzero(size: Size, known: Knowledge) -> Size:
    """size / f, f the product of the known non-zero atoms of every term: size == 0 exactly where the result is."""
    for atom in dict.fromkeys(size.terms[0][0] if size.terms else ()):
        while known.is_nonzero(make_size({(atom,): 1})) and (quotient := _divide_by_atom(size, atom)) is not None:
            size = quotient
    return size


def _with_atoms(size: Size, replaced: Callable[[Atom], Size]) -> Size:
    """The polynomial with each atom replaced."""
    total = Size.const(0)
    for monomial, coefficient in size.terms:
        term = Size.const(coefficient)
        for atom in monomial:
            term = term * replaced(atom)
        total = total + term
    return total


def _simplify_atom(atom: Atom, known: Knowledge) -> Size:
    if atom.kind == "symbol":
        value = known.values.get(atom.name)
        if value is not None:
            return value
        lo, hi = known.ranges.get(atom.name, (0, None))
        return Size.const(lo) if lo is not None and lo == hi else make_size({(atom,): 1})
    found = known.simplified.get(atom)
    if found is None:
        found = known.simplified[atom] = _simplify_operator(atom, known)
    return found


def _simplify_operator(atom: Atom, known: Knowledge) -> Size:
    args = [simplify(argument, known) for argument in atom.args]
    if atom.kind in ("floordiv", "mod") and args[1].constant_or(1) == 0:
        # Undefined wherever the facts hold: left as written
        return make_size({(atom,): 1})
    match atom.kind:
        case "floordiv":
            return _floordiv(args[0], args[1], known)
        case "mod":
            return _mod(args[0], args[1], known)
        case "min":
            return size_min(*_undominated(args, known, sign=1))
        case _:
            return size_max(*_undominated(args, known, sign=-1))


def _undominated(args: list[Size], known: Knowledge, sign: int) -> list[Size]:
    """min(a, b) -> a where a <= b; max(a, b) -> b where a <= b (sign -1)"""
    kept = list(dict.fromkeys(args))
    for size in list(kept):
        if any(other is not size and is_nonnegative(sign * (size - other), known) for other in kept):
            kept.remove(size)
    return kept


def _floordiv(x: Size, d: Size, known: Knowledge) -> Size:
    if not known.is_nonzero(d):
        return x // d
    if d.is_constant:
        return _floordiv_by_constant(x, d.value, known)
    # (d*q + r) floordiv d -> q + r floordiv d, for d != 0
    quotient, rest = _divide(x, d)
    if not rest.terms:  # 0 floordiv d -> 0, for d != 0
        return quotient
    # (x*y) floordiv (z*y) -> x floordiv z, for y != 0
    rest, d = _cancel_common(rest, d, known)
    if d.is_constant:
        return quotient + _floordiv_by_constant(rest, d.value, known)
    if is_nonnegative(rest, known) and is_nonnegative(d - 1 - rest, known):  # r floordiv d -> 0, for 0 <= r < d
        return quotient
    if is_nonnegative(-1 - rest, known) and is_nonnegative(rest + d, known):  # r floordiv d -> -1, for -d <= r < 0
        return quotient - 1
    return quotient + rest // d


def _floordiv_by_constant(x: Size, k: int, known: Knowledge) -> Size:
    exact, rest = _split_multiples(x, k, known)
    lo, hi = known.interval(rest // k)
    if lo is not None and lo == hi:  # (x + r) floordiv k -> x floordiv k + q, for k | x and q*k <= r < (q + 1)*k
        return exact // k + lo
    if k > 0 and is_nonnegative(rest, known) and is_nonnegative(k - 1 - rest, known):
        return exact // k
    return x // k


def _mod(x: Size, d: Size, known: Knowledge) -> Size:
    if not known.is_nonzero(d):
        return x % d
    if d.is_constant:
        return _mod_by_constant(x, d.value, known)
    _, rest = _divide(x, d)  # (d*q + r) mod d -> r mod d, for d != 0
    if not rest.terms:  # 0 mod d -> 0, for d != 0
        return rest
    reduced, divisor = _cancel_common(rest, d, known)
    if divisor is not d:  # (x*y) mod (z*y) -> y*(x mod z), for y != 0
        factor, _ = _divide(d, divisor)
        return factor * _mod(reduced, divisor, known)
    if is_nonnegative(rest, known) and is_nonnegative(d - 1 - rest, known):  # r mod d -> r, for 0 <= r < d
        return rest
    return rest % d


def _mod_by_constant(x: Size, k: int, known: Knowledge) -> Size:
    _, rest = _split_multiples(x, k, known)  # (x + r) mod k -> r mod k, for k | x
    if k > 0 and is_nonnegative(rest, known) and is_nonnegative(k - 1 - rest, known):  # r mod k -> r, for 0 <= r < k
        return rest
    return rest % k


def _split_multiples(x: Size, k: int, known: Knowledge) -> tuple[Size, Size]:
    """(m, r) with x = m + r and every term of m a known multiple of k."""
    if known.multiple_of(x) % k == 0:
        return x, Size.const(0)
    exact = make_size({m: c for m, c in x.terms if m and c * known.multiple_of_monomial(m) % k == 0})
    rest = x - exact
    for known_size, divisor in known.divisors.items():
        c = scale_of(rest, known_size)
        if c * divisor % k == 0 and c and (rest - c * known_size).is_constant:  # k | c*m, so x = c*m + r leaves r
            return exact + c * known_size, rest - c * known_size
    return exact, rest


def _divide(x: Size, d: Size) -> tuple[Size, Size]:
    """Polynomial division: (q, r) with x = q*d + r and no term of r divisible by the first term of d."""
    quotient = Size.const(0)
    lead_monomial, lead = d.terms[0]
    rest, done = x, Size.const(0)
    while rest.terms:
        monomial, coefficient = rest.terms[0]
        factor = divide_monomial(monomial, lead_monomial)
        if factor is None or coefficient % lead:
            term = make_size({monomial: coefficient})
            rest, done = rest - term, done + term
            continue
        step = make_size({factor: coefficient // lead})
        quotient, rest = quotient + step, rest - step * d
    return quotient, done


def _cancel_common(x: Size, d: Size, known: Knowledge) -> tuple[Size, Size]:
    """(x/y, d/y), y the product of the known non-zero atoms that occur in every term of both."""
    for atom in d.terms[0][0]:
        if known.is_nonzero(make_size({(atom,): 1})):
            x_quotient, d_quotient = _divide_by_atom(x, atom), _divide_by_atom(d, atom)
            if x_quotient is not None and d_quotient is not None:
                x, d = x_quotient, d_quotient
    return x, d


def _divide_by_atom(size: Size, atom: Atom) -> Size | None:
    if not size.terms or any(atom not in monomial for monomial, _ in size.terms):
        return None
    return _divide(size, make_size({(atom,): 1}))[0]


def _replace_products(size: Size, known: Knowledge) -> Size:
    """m*n -> v*n for a known product m == v"""
    for monomial, value in known.products.items():
        for _ in range(_ROUNDS):
            replaced = _replace_product_once(size, monomial, value)
            if replaced is None:
                break
            size = replaced
    return size


def _replace_product_once(size: Size, monomial: Monomial, value: Size) -> Size | None:
    for whole, coefficient in size.terms:
        rest = divide_monomial(whole, monomial)
        if rest is not None:
            return size - make_size({whole: coefficient}) + make_size({rest: coefficient}) * value
    return None


def _join_remainders(size: Size, known: Knowledge) -> Size:
    """d*(x floordiv d) + x mod d -> x, for d != 0; k*(x floordiv k) -> x, for k | x"""
    for monomial, coefficient in size.terms:
        for index, atom in enumerate(monomial):
            if atom.kind not in ("floordiv", "mod"):
                continue
            cofactor = make_size({monomial[:index] + monomial[index + 1 :]: coefficient})
            join = _join_exact if atom.kind == "floordiv" else _join_quotient
            joined = join(size, atom, cofactor, known)
            if joined is not None:
                return joined
    return size


def _join_exact(size: Size, atom: Atom, cofactor: Size, known: Knowledge) -> Size | None:
    x, k = atom.args[0], atom.args[1].constant_or(0)
    if not k or cofactor.terms[0][1] % k or known.multiple_of(x) % k:
        return None
    return size - cofactor * make_size({(atom,): 1}) + _divide(cofactor, Size.const(k))[0] * x


def _join_quotient(size: Size, atom: Atom, cofactor: Size, known: Knowledge) -> Size | None:
    x, d = atom.args
    if not known.is_nonzero(d):
        return None
    quotient = cofactor * d * (x // d)
    present = dict(size.terms)
    if not quotient.terms or any(not _contains(present, term) for term in quotient.terms):
        return None
    return size - quotient - cofactor * make_size({(atom,): 1}) + cofactor * x


def _contains(present: dict[Monomial, int], term: tuple[Monomial, int]) -> bool:
    """Whether subtracting `term` leaves a coefficient of the same sign, nearer to zero."""
    have, wanted = present.get(term[0], 0), term[1]
    return have * wanted > 0 and abs(wanted) <= abs(have)
