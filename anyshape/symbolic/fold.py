"""Interpretations of sizes: the generic one, and evaluation in Python's ints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from anyshape.symbolic.errors import SizeDivisionError, SizeOverflowError, UnboundSymbolError

if TYPE_CHECKING:
    from anyshape.symbolic.expr import Atom, Size

T = TypeVar("T")
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class SizeAlgebra(Protocol[T]):
    """One meaning of the operators; `Size.fold` interprets a size in it."""

    def constant(self, value: int, /) -> T: ...
    def symbol(self, name: str, /) -> T: ...
    def add(self, lhs: T, rhs: T, /) -> T: ...
    def mul(self, lhs: T, rhs: T, /) -> T: ...
    def floordiv(self, lhs: T, rhs: T, /) -> T: ...
    def mod(self, lhs: T, rhs: T, /) -> T: ...
    def min(self, lhs: T, rhs: T, /) -> T: ...
    def max(self, lhs: T, rhs: T, /) -> T: ...


def fold_size(size: Size, algebra: SizeAlgebra[T], done: dict[Atom, T]) -> T:
    """`size` in `algebra`; `done` holds the atoms already interpreted, and grows."""
    total: T | None = None
    for monomial, coefficient in size.terms:
        product = algebra.constant(coefficient) if coefficient != 1 or not monomial else None
        for atom in monomial:
            if atom not in done:
                done[atom] = _fold_atom(atom, algebra, done)
            product = done[atom] if product is None else algebra.mul(product, done[atom])
        assert product is not None  # a monomial without atoms has its constant
        total = product if total is None else algebra.add(total, product)
    return algebra.constant(0) if total is None else total


def _fold_atom(atom: Atom, algebra: SizeAlgebra[T], done: dict[Atom, T]) -> T:
    if atom.kind == "symbol":
        return algebra.symbol(atom.name)
    first, *others = (fold_size(argument, algebra, done) for argument in atom.args)
    combine = {"floordiv": algebra.floordiv, "mod": algebra.mod, "min": algebra.min, "max": algebra.max}[atom.kind]
    for other in others:
        first = combine(first, other)
    return first


def evaluate_size(size: Size, env: Mapping[str, int]) -> int:
    """The exact value at `env`; the errors are those of `Size.evaluate`."""
    total = 0
    for monomial, coefficient in size.terms:
        product = coefficient
        for atom in monomial:
            product *= _evaluate_atom(atom, env)
        total += product
    return check_int64(total)


def _evaluate_atom(atom: Atom, env: Mapping[str, int]) -> int:
    if atom.kind == "symbol":
        if atom.name not in env:
            raise UnboundSymbolError(atom.name, tuple(sorted(env)))
        return env[atom.name]
    values = [evaluate_size(argument, env) for argument in atom.args]
    if atom.kind == "min":
        return min(values)
    if atom.kind == "max":
        return max(values)
    if values[1] == 0:
        raise SizeDivisionError(f"size: divisor '{atom.args[1]}' of ({atom.args[0]}) {atom.kind} is zero")
    return values[0] // values[1] if atom.kind == "floordiv" else values[0] % values[1]


def check_int64(value: int) -> int:
    """`value` itself; SizeOverflowError outside the signed 64-bit range."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise SizeOverflowError(f"size value {value} is outside the signed 64-bit range")
