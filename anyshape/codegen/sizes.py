"""Size expressions as i64 code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size
from anyshape.symbolic.fold import INT64_MIN


def element_bytes(element: Attribute) -> int:
    """Bytes of an element in memory; a bool takes one."""
    if isinstance(element, IntegerType | AnyFloat):
        return max(1, element.bitwidth // 8)
    raise CodegenError("a buffer's element type has no size", got=element, expected="an integer or a float")


def _power_of_two(value: Operand) -> int | None:
    """e where the operand is the constant 2^e."""
    return value.bit_length() - 1 if isinstance(value, int) and value > 0 and value & (value - 1) == 0 else None


@dataclass(frozen=True)
class SizeCode:
    """The algebra of i64 values: `size.fold(SizeCode(b, symbol))`; Python ints stand for constants.

    Rounding is that of `Size`: `floordiv` down, `mod` with the divisor's sign. Where a divisor is zero (a size that the
    program's guards refuse), or the quotient is 2^63, the code divides by 1 instead, since it may run before the guards and must not trap.
    """

    builder: Builder
    value_of: Callable[[str], Value]

    def constant(self, value: int, /) -> Operand:
        return value

    def symbol(self, name: str, /) -> Operand:
        return self.value_of(name)

    def add(self, lhs: Operand, rhs: Operand, /) -> Operand:
        return self.builder.add(lhs, rhs)

    def mul(self, lhs: Operand, rhs: Operand, /) -> Operand:
        for factor, other in ((lhs, rhs), (rhs, lhs)):
            if isinstance(factor, int) and factor == -1:
                return self.builder.neg(other)
        return self.builder.mul(lhs, rhs)

    def floordiv(self, lhs: Operand, rhs: Operand, /) -> Operand:
        exponent = _power_of_two(rhs)
        if exponent is not None:
            return self.builder.sar(lhs, exponent)
        return self.builder.floordiv(lhs, self._divisor(lhs, rhs))

    def mod(self, lhs: Operand, rhs: Operand, /) -> Operand:
        if _power_of_two(rhs) is not None:
            return self.builder.and_(lhs, rhs - 1)
        divisor = self._divisor(lhs, rhs)
        return self.builder.sub(lhs, self.builder.mul(self.builder.floordiv(lhs, divisor), divisor))

    def min(self, lhs: Operand, rhs: Operand, /) -> Operand:
        return self.builder.minimum(lhs, rhs)

    def max(self, lhs: Operand, rhs: Operand, /) -> Operand:
        return self.builder.maximum(lhs, rhs)

    def _divisor(self, dividend: Operand, value: Operand) -> Operand:
        if isinstance(value, int):
            return value
        b = self.builder
        traps = b.cmp("eq", value, 0)
        if not isinstance(dividend, int):  # -2^63 by -1
            traps = b.or_(traps, b.and_(b.cmp("eq", value, -1), b.cmp("eq", dividend, INT64_MIN)))
        return b.select(traps, 1, value)


def emit_size(b: Builder, size: Size, symbols: Mapping[str, Value]) -> Value:
    """The i64 value of a size; `symbols` gives the values of its symbols. CodegenError when one is missing."""

    def value_of(name: str) -> Value:
        if name not in symbols:
            raise CodegenError(
                "a size uses a symbol that has no value here", where=size, got=name, expected=", ".join(sorted(symbols))
            )
        return symbols[name]

    value = size.fold(SizeCode(b, value_of))
    return b.const(b.i64, value) if isinstance(value, int) else value


def emit_sizes(b: Builder, sizes: Iterable[Size], symbols: Mapping[str, Value]) -> dict[Size, Value]:
    """The values of several sizes at the current insertion point, each distinct size once."""
    return {size: emit_size(b, size, symbols) for size in dict.fromkeys(sizes)}


def multiple_of(size: Size, factor: int) -> bool:
    """True if every value of the size is a multiple of `factor`, as far as its coefficients tell."""
    return all(coefficient % factor == 0 for _, coefficient in size.terms)
