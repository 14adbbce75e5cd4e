"""Narrow floats in memory and the f32 in which they are computed.

f16 is converted by the target's instructions. bf16 is the upper half of an f32, so integer code does for every target what few have an
instruction for: LLVM would call a library function for each lane, and x86's own instruction drops denormals.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value

_QUIET = 0x00400000
_UPPER = 0xFFFF0000


def widen(b: Builder, value: Value, element: Attribute) -> Value:
    """The f32 value of an element as it lies in memory (bf16 as i16); other types as they are."""
    match element:
        case Float16Type():
            return b.convert(value, b.f32)
        case BFloat16Type():
            return b.bitcast(b.shl(b.convert(value, b.i32, signed=False), 16), b.f32)
        case _:
            return value


def narrow(b: Builder, value: Value, element: Attribute) -> Value:
    """The element in memory, rounded to nearest even, of a computed value; other types as they are."""
    match element:
        case Float16Type():
            return b.convert(value, b.f16)
        case BFloat16Type():
            return b.convert(b.shr(_rounded_bits(b, value), 16), b.i16)
        case _:
            return value


def round_to(b: Builder, value: Value, element: Attribute) -> Value:
    """A computed value rounded to what the element type can hold, in the type in which it is computed."""
    match element:
        case Float16Type():
            return b.convert(b.convert(value, b.f16), b.f32)
        case BFloat16Type():
            return b.bitcast(b.and_(_rounded_bits(b, value), _UPPER), b.f32)
        case _:
            return value


def _rounded_bits(b: Builder, value: Value) -> Value:
    """The bits of an f32 whose upper half is the bf16 nearest to it, the even one of two; a NaN stays a NaN."""
    bits = b.bitcast(value, b.i32)
    # Adding just under half of the last place carries into the upper half where that must grow; the odd bit decides ties.
    odd = b.and_(b.shr(bits, 16), 1)
    rounded = b.add(bits, b.add(odd, 0x7FFF))
    return b.select(b.is_nan(value), b.or_(bits, _QUIET), rounded)
