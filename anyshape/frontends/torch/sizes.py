"""Sizes as PyTorch writes them (sympy expressions over `s43`) as `Size` expressions over readable, stable names."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions as symbolic
from torch.utils._sympy.symbol import SymT, symbol_is_type

from anyshape.frontends.torch.derived import Derived
from anyshape.frontends.torch.ratios import Ratio, is_never_negative, rounded
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Relation, Size, size_max, size_min

TorchSize: TypeAlias = int | torch.SymInt
Remainder: TypeAlias = Callable[[Size, Size], Size]


def _power(base: Size, exponent: Size) -> Size:
    if not exponent.is_constant:
        raise Unsupported(f"a power whose exponent is the size {exponent} is no size expression")
    return reduce(lambda product, _: product * base, range(exponent.value), Size.const(1))


def _sum(*terms: Size) -> Size:
    return reduce(lambda total, term: total + term, terms)


def _product(*factors: Size) -> Size:
    return reduce(lambda total, factor: total * factor, factors)


def _bitwise_and(a: Size, b: Size) -> Size:
    """a & (2^k - 1) -> a mod 2^k;  a & -2^k -> a - a mod 2^k, of negative numbers too."""
    mask = b.constant_or(None)
    if mask is not None and mask >= 0 and mask & (mask + 1) == 0:
        return a % (mask + 1)
    if mask is not None and mask < 0 and -mask & (-mask - 1) == 0:
        return a - a % -mask
    raise Unsupported("`&` of a size is a size expression with 2^k - 1 or -2^k only")


def size_magnitude(a: Size) -> Size:
    """|a|"""
    return size_max(a, -a)


def _identity(size: Size) -> Size:
    return size


_FUNCTIONS: Mapping[type[sympy.Basic], Callable[..., Size]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _power,
    symbolic.PowByNatural: _power,
    sympy.Max: size_max,
    sympy.Min: size_min,
    symbolic.Max: size_max,
    symbolic.Min: size_min,
    symbolic.FloorDiv: Size.__floordiv__,
    symbolic.CleanDiv: Size.__floordiv__,
    symbolic.CeilToInt: _identity,
    symbolic.FloorToInt: _identity,
    symbolic.TruncToInt: _identity,
    symbolic.RoundToInt: _identity,
    symbolic.ToFloat: _identity,
    symbolic.Identity: _identity,
    symbolic.BitwiseFn_bitwise_and: _bitwise_and,
    sympy.Abs: size_magnitude,
}
"""Functions of sizes with the same value in `Size`."""

_ROUNDINGS = (symbolic.CeilToInt, symbolic.FloorToInt, symbolic.TruncToInt, symbolic.RoundToInt)
_WORDS: Mapping[str, str] = {
    "FloatPow": "`**` with a fraction",
    "PowByNatural": "`**`",
    "IntTrueDiv": "`/`, unless it is rounded to an integer",
    "FloatTrueDiv": "`/` of floats",
    "Float": "a fraction",
    "OpaqueUnaryFn_sqrt": "`sqrt`",
    "Piecewise": "`torch.sym_ite`",
    "RoundDecimal": "`round` to decimals",
    "BitwiseFn_bitwise_or": "`|`",
    "BitwiseFn_bitwise_xor": "`^`",
}
"""PyTorch's functions in Python's words."""

_FRACTIONS = 1 << 16
"""Numerators and denominators of factors by which sizes are multiplied exactly."""

_DENOMINATORS = 1000


def _rational(factor: float) -> Fraction | None:
    """The p / q that a decimal factor such as 1.7 stands for, where floor and ceil of n·p / q are those of the f64 product n·factor.

    The product is within n·p·2⁻⁵² / q of n·p / q, so both lie between the same integers for n·p < 2⁵², unless n·p / q is one, N, itself.
    Then n·factor rounds to N if it is off by less than half of the distance of floats there, 2⁻⁵⁴·N at least.
    """
    ratio = Fraction(factor).limit_denominator(_DENOMINATORS)
    is_near = ratio != 0 and abs(Fraction(factor) / ratio - 1) < Fraction(1, 1 << 54)
    return ratio if is_near else None


_REMAINDERS = (symbolic.Mod, symbolic.PythonMod, sympy.Mod)
"""Remainders; sizes are not negative, so C's and Python's agree."""

_RELATIONS: Mapping[type[sympy.Basic], Callable[[Size, Size], Relation]] = {
    sympy.Eq: Size.eq,
    sympy.Ne: Size.ne,
    sympy.Le: Size.le,
    sympy.Lt: Size.lt,
    sympy.Ge: Size.ge,
    sympy.Gt: Size.gt,
}


class SizeNames:
    """Translates PyTorch's size expressions.

    A symbol is named by `preferred` when it is there, else `d0`, `d1`, … in the order in which symbols are first met, `u0`, … where data
    say its value, so that two exports of a model have the same names.

    Args:
        environment: where PyTorch keeps what it knows about symbols; None when there is no symbol at all.
        preferred: names that the caller gave to some symbols.
        equal: symbols that stand for others, beside those that PyTorch itself replaces.
        constants: sizes computed from others that guards say are constant.
        derived: symbols that PyTorch has got for sizes which it cannot state.
        with_data: whether sizes may be symbols whose values data say; else they are Unsupported.
        rounded_up: remainders a mod k that are k where k divides a.

    Attributes:
        of_data: names of symbols whose values data say.
        never_zero: divisors that conditions keep from 0.
    """

    def __init__(
        self,
        environment: ShapeEnv | None,
        preferred: Mapping[sympy.Symbol, str],
        equal: Mapping[sympy.Symbol, sympy.Symbol],
        constants: Mapping[sympy.Basic, sympy.Integer],
        derived: Mapping[sympy.Basic, Derived] = MappingProxyType({}),
        *,
        with_data: bool = False,
        rounded_up: Collection[sympy.Basic] = (),
    ) -> None:
        self._with_data = with_data
        self._rounded_up = rounded_up
        self._derived = derived
        self._constants = dict(constants)
        self._equal = dict(equal)
        self._environment = environment
        self._names: dict[sympy.Symbol, str] = dict(preferred)
        self._taken = set(preferred.values())
        self.of_data: set[str] = set()
        self.never_zero: set[Size] = set()
        self._known: dict[tuple[sympy.Basic, Remainder], Size] = {}

    def size(self, value: TorchSize) -> Size:
        """One size of a fake tensor, or a `SymInt` that was computed from sizes."""
        if isinstance(value, int):
            return Size.const(value)
        expression: Any = value.node.expr
        return self.expression(expression.xreplace(self._constants) if self._constants else expression)

    def sizes(self, values: Iterable[TorchSize]) -> tuple[Size, ...]:
        return tuple(self.size(value) for value in values)

    def expression(self, expression: sympy.Basic) -> Size:
        """A sympy expression over size symbols; Unsupported when it uses a function that sizes do not have, or data."""
        return self._convert(self.replaced(expression), self._remainder_of_any)

    def replaced(self, expression: sympy.Basic) -> sympy.Basic:
        """The expression in the symbols that remain when equal ones are one."""
        if self._environment is not None:
            expression = self._environment.replace(expression)  # pyright: ignore[reportArgumentType]
        return expression.xreplace(self._equal) if self._equal else expression

    def definition(self, symbol: sympy.Basic) -> Size:
        """What a derived symbol stands for, whatever PyTorch has put in its place since."""
        derived = self._derived[symbol]
        return derived.rule.size([self.expression(part) for part in derived.parts])

    def relation(self, guard: sympy.Basic) -> Relation | None:
        """A comparison of sizes, or of quotients and products of sizes and floats; None where it has no symbols or is none of numbers."""
        make = next((make for kind, make in _RELATIONS.items() if isinstance(guard, kind)), None)
        if make is None:
            return None
        lhs, rhs = (self.replaced(argument) for argument in guard.args)
        if lhs.is_integer and rhs.is_integer:
            sides = self._convert(lhs, Size.__mod__), self._convert(rhs, Size.__mod__)
        else:
            a, b = (self._ratio(side, Size.__mod__) for side in (lhs, rhs))
            if not a.is_comparable_with(b):
                raise Unsupported(f"a comparison of floats, {guard}, that rounding may decide")
            sides = a.numerator * b.denominator, b.numerator * a.denominator
        return make(*sides) if sides[0].symbols | sides[1].symbols else None

    def _remainder_of_any(self, a: Size, b: Size) -> Size:
        """a mod b, and a mod 1 where b may be 0: there PyTorch has a case of its own that never asks, as for the `roll` of no elements."""
        if b.is_constant or b in self.never_zero:
            return a % b
        if is_never_negative(b):
            return a % size_max(b, 1)
        return a % (b + size_max(1 - size_max(b, -b), 0))

    def _convert(self, expression: sympy.Basic, remainder: Remainder) -> Size:
        known = self._known.get((expression, remainder))
        if known is None:
            known = self._known[expression, remainder] = self._convert_new(expression, remainder)
        return known

    def _convert_new(self, expression: sympy.Basic, remainder: Remainder) -> Size:
        if expression in self._derived:
            return self.definition(expression)
        if isinstance(expression, sympy.Symbol):
            if not symbol_is_type(expression, (SymT.SIZE, SymT.UNBACKED_INT)):
                raise Unsupported("a size that depends on data in another way than as an integer")
            if symbol_is_type(expression, SymT.UNBACKED_INT) and not self._with_data:
                raise Unsupported("a size that depends on the data")
            return Size.symbol(self._name(expression))
        if isinstance(expression, sympy.Integer):
            return Size.const(int(expression))
        if isinstance(expression, sympy.Float) and float(expression).is_integer():
            return Size.const(int(expression))
        if isinstance(expression, _ROUNDINGS):
            inner: Any = expression.args[0]
            if not inner.is_integer and not isinstance(inner, symbolic.ToFloat):
                ratio = self._ratio(inner, remainder)
                return rounded(type(expression), ratio.numerator, ratio.denominator)
        if isinstance(expression, _REMAINDERS):
            a, b = (self._convert(argument, remainder) for argument in expression.args)
            return b - remainder(-a, b) if expression in self._rounded_up else remainder(a, b)
        for kind, make in _FUNCTIONS.items():
            if isinstance(expression, kind):
                return make(*(self._convert(argument, remainder) for argument in expression.args))
        word = _WORDS.get(type(expression).__name__, f"`{type(expression).__name__}`")
        raise Unsupported(f"a size is computed by {word}, which size expressions do not have: {expression}")

    def _ratio(self, expression: Any, remainder: Remainder) -> Ratio:
        """What a number of Python's is exactly: an integer, a quotient of integers, a float, or the product of an integer and a float.

        PyTorch's product is exact where the float is p / q and q a small power of two; of other floats see `_rational`.
        """
        if expression.is_integer or isinstance(expression, symbolic.ToFloat):
            return Ratio(self._convert(expression, remainder), Size.const(1))
        if isinstance(expression, symbolic.IntTrueDiv | symbolic.FloatTrueDiv):
            parts = [self._ratio(argument, remainder) for argument in expression.args]
            if all(part.denominator.constant_or(0) == 1 for part in parts):
                return Ratio(parts[0].numerator, parts[1].numerator)
        floats = [float(factor) for factor in sympy.Mul.make_args(expression) if isinstance(factor, sympy.Float)]
        others = [factor for factor in sympy.Mul.make_args(expression) if not isinstance(factor, sympy.Float)]
        if len(floats) == 1 and len(others) <= 1:
            factor, is_exact = Fraction(floats[0]), True
            if factor.denominator > _FRACTIONS:
                factor, is_exact = _rational(floats[0]) or factor, not others
            if max(factor.denominator, abs(factor.numerator)) <= _FRACTIONS:
                whole = _product(*(self._convert(other, remainder) for other in others)) if others else Size.const(1)
                return Ratio(whole * factor.numerator, Size.const(factor.denominator), is_exact)
        return Ratio(self._convert(expression, remainder), Size.const(1))

    def _name(self, symbol: sympy.Symbol) -> str:
        if symbol not in self._names:
            prefix = "u" if symbol_is_type(symbol, SymT.UNBACKED_INT) else "d"
            number = len(self._names)
            while f"{prefix}{number}" in self._taken:
                number += 1
            self._names[symbol] = f"{prefix}{number}"
            self._taken.add(f"{prefix}{number}")
            if prefix == "u":
                self.of_data.add(f"{prefix}{number}")
        return self._names[symbol]


def shape_environment(values: Iterable[Any]) -> ShapeEnv | None:
    """The environment of the first fake tensor among these values."""
    for value in values:
        if isinstance(value, torch.Tensor) and hasattr(value, "fake_mode"):
            return value.fake_mode.shape_env  # pyright: ignore[reportAttributeAccessIssue]
    return None
