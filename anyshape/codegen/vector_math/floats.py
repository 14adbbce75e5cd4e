"""What vector math needs to know of a binary floating-point format, and the bit tricks built on it.

Coefficients below are weighted least-squares fits on Chebyshev nodes in 60-digit arithmetic; for f32 they were
rounded one after the other, lowest degree first, and the rest fitted again each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value, element_of
from anyshape.support.errors import CodegenError

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
_CURRENT_ROUNDING = 4
"""The operand of an AVX-512 intrinsic that leaves the rounding mode as it is."""


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE binary format. `ln2_high` has so few bits that its product with any exponent is exact."""

    name: str
    mantissa_bits: int
    bias: int
    ln2_high: float
    ln2_low: float
    sqrt_half_bits: int
    """The bit pattern of √½, where mantissas are split so that they lie around 1."""

    @property
    def round_magic(self) -> float:
        """1.5 · 2^mantissa: adding it rounds to an integer and leaves that integer in the low bits."""
        return 1.5 * 2.0**self.mantissa_bits

    @property
    def round_magic_bits(self) -> int:
        """The bit pattern of `round_magic`."""
        return ((self.bias + self.mantissa_bits) << self.mantissa_bits) | (1 << (self.mantissa_bits - 1))

    @property
    def smallest_normal(self) -> float:
        """2^(1 − bias)"""
        return 2.0 ** (1 - self.bias)

    def integer(self, b: Builder) -> Type:
        """The integer type of the same size."""
        return b.i32 if self.name == "f32" else b.i64


F32 = FloatFormat("f32", 23, 127, 0.693359375, -2.12194440054690583e-4, 0x3F3504F3)
F64 = FloatFormat("f64", 52, 1023, 6.93147180369123816490e-01, 1.90821492927058770002e-10, 0x3FE6A09E667F3BCD)
_FORMATS = {"f32": F32, "f64": F64}


def format_of(x: Value) -> FloatFormat:
    """The format of a scalar's or vector's elements; raises `CodegenError` for other types than f32 and f64."""
    name = str(element_of(x.type))
    if name not in _FORMATS:
        raise CodegenError(f"vector math on {x.type}: expected f32 or f64 elements (widen f16 and bf16 to f32 first)")
    return _FORMATS[name]


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """c₀ + c₁x + c₂x² + … by Horner's rule, one FMA a degree."""
    result = b.const(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = b.fma(result, x, coefficient)
    return result


def power_of_two(b: Builder, n: Value, form: FloatFormat) -> Value:
    """2ⁿ for integers 1 − bias ≤ n ≤ bias, by building the bits."""
    bits = b.shl(b.add(n, form.bias), form.mantissa_bits)
    return b.bitcast(bits, b.type(form.name))


def power_of_two_of_rounded(b: Builder, shifted: Value, form: FloatFormat) -> Value:
    """2ⁿ for 1 − bias ≤ n ≤ bias out of n + `round_magic`: n is in the low bits, and what else there is gets shifted out."""
    bits = b.shl(b.bitcast(shifted, form.integer(b)), form.mantissa_bits)
    return b.bitcast(b.add(bits, form.bias << form.mantissa_bits), b.type(form.name))


def scale_by_power_of_two(b: Builder, y: Value, n: Value, form: FloatFormat) -> Value:
    """y · 2ⁿ for |n| ≤ 2·bias in two steps, so that it overflows to ∞ and rounds once to a denormal."""
    first = b.sar(n, 1)
    second = b.sub(n, first)
    return b.mul(b.mul(y, power_of_two(b, first, form)), power_of_two(b, second, form))


def has_scale(b: Builder, x: Value) -> bool:
    """Whether `scale` may be used for values of x's type: AVX-512 has the instruction."""
    bits = (b.width(x) or 1) * (format_of(x).mantissa_bits // 23 * 32)
    return {512: "avx512f", 256: "avx512vl", 128: "avx512vl"}.get(bits) in b.features


def scale(b: Builder, y: Value, n: Value) -> Value:
    """y · 2ⁿ for vectors of floats, n integers of any size: overflows to ∞ and rounds once to a denormal or zero, in one instruction.

    Only where `has_scale`. Source: Intel, Software Developer's Manual, VSCALEFPS and VSCALEFPD.
    """
    form, lanes = format_of(y), b.width(y) or 1
    suffix = f"{'ps' if form is F32 else 'pd'}.{lanes * (32 if form is F32 else 64)}"
    all_lanes = b.const(b.i16 if lanes == 16 else b.i8, -1)
    operands = [y, n, y, all_lanes]
    if suffix.endswith("512"):
        operands.append(b.const(b.i32, _CURRENT_ROUNDING))
    return b.intrinsic(f"llvm.x86.avx512.mask.scalef.{suffix}", y.type, operands)


def split_exponent(b: Builder, x: Value, form: FloatFormat) -> tuple[Value, Value]:
    """(e, m) with x = 2ᵉ · m, √½ ≤ m < √2, for positive normal x; e is an integer, anything else gives garbage
    without harm."""
    bits = b.bitcast(x, form.integer(b))
    e = b.sar(b.sub(bits, form.sqrt_half_bits), form.mantissa_bits)
    m = b.bitcast(b.sub(bits, b.shl(e, form.mantissa_bits)), b.type(form.name))
    return e, m
