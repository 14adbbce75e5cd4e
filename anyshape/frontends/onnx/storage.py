"""Element types that programs hold in another: unsigned integers of 16 bits and more, integers of 4 and 2 bits, floats of 8 and 4.

A `Stored` tensor has the elements of such a type in a type of programs that has all of them: u16 as i32, u32 as i64, 4-bit integers as
bytes, 8-bit floats as f32; u64 are the same 64 bits as i64. Calls convert at the boundary. Ops that move elements take them as they are,
arithmetic of unsigned integers is done in the wider type and brought back, and other ops take them behind a Cast or a
DequantizeLinear alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    And,
    Array,
    Clamp,
    Divide,
    IsFinite,
    Maximum,
    Minimum,
    Multiply,
    Or,
    RoundNearestEven,
    Select,
    ShiftLeft,
    ShiftRightArithmetic,
    Subtract,
    Xor,
)
from anyshape.dialects.dhlo.bits import BitcastConvert
from anyshape.dialects.dtypes import F32, F64, I8, I16, I32, I64, U8, DType
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.dtypes import dtype_of_array
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.values import Anything, Known, Stored, Value
from anyshape.nn import Tensor

_INTEGERS: Mapping[str, tuple[DType, int]] = {
    "uint16": (I32, 16), "uint32": (I64, 32), "uint64": (I64, 64), "int4": (I8, 4), "uint4": (U8, 4), "int2": (I8, 2), "uint2": (U8, 2),
}  # fmt: skip
"""The type that programs hold it in, and its bits."""


@dataclass(frozen=True)
class Small:
    """A float type of few bits.

    Attributes:
        mantissa: bits of the fraction.
        lowest: exponent of the smallest normal number.
        largest: the largest finite number.
        beyond: what a larger number becomes where it is not saturated.
    """

    mantissa: int
    lowest: int
    largest: float
    beyond: float


_FLOATS: Mapping[str, Small] = {
    "float8_e4m3fn": Small(3, -6, 448.0, np.nan), "float8_e4m3fnuz": Small(3, -7, 240.0, np.nan),
    "float8_e5m2": Small(2, -14, 57344.0, np.inf), "float8_e5m2fnuz": Small(2, -15, 57344.0, np.nan),
    "float4_e2m1fn": Small(1, 0, 6.0, 6.0),
}  # fmt: skip
_WORDS: Mapping[str, DType] = {
    "bool": I8, "int8": I8, "uint8": I8, "int16": I16, "uint16": I16, "int32": I32, "uint32": I32, "float32": I32, "int64": I64,
    "uint64": I64, "float64": I64,
}  # fmt: skip
"""The integer with as many bits, for the types whose bits can be read."""
_POWERS = "float8_e8m0fnu"
"""Powers of two from 2^−127 to 2^127, and no number."""
UNSIGNED = frozenset({"uint16", "uint32", "uint64"})


def held_in(numpy: np.dtype[np.generic]) -> DType | None:
    """The type that programs hold elements of this one in; None where they have it themselves, or have nothing for it."""
    if numpy.name in _INTEGERS:
        return _INTEGERS[numpy.name][0]
    return F32 if numpy.name in _FLOATS or numpy.name == _POWERS else None


def to_held(array: Array) -> Array:
    """Elements as a program takes them."""
    dtype = held_in(array.dtype)
    if dtype is None:
        return array
    return array.view(np.int64) if array.dtype.name == "uint64" else array.astype(dtype.numpy)


def from_held(array: Array, numpy: np.dtype[np.generic]) -> Array:
    """Elements as the caller gets them."""
    return array.view(np.uint64) if numpy.name == "uint64" else array.astype(numpy)


def stored(b: GraphBuilder, value: Value | Stored) -> Stored | None:
    """A value of a type that programs lack as a tensor that holds it; None for other values."""
    if isinstance(value, Stored):
        return value
    if isinstance(value, Known) and value.is_literal and held_in(value.numpy) is not None:
        return Stored(b.tensor(Known(to_held(value.elements))), value.numpy)
    return None


def elements_of(b: GraphBuilder, value: Value | Stored) -> Value:
    """The value in a type of programs."""
    held = stored(b, value)
    return value if held is None else held.tensor  # pyright: ignore[reportReturnType] - what is Stored is not None here


# -- conversions -------------------------------------------------------------------------------------------------------


def cast(
    b: GraphBuilder,
    value: Value | Stored,
    numpy: np.dtype[np.generic],
    *,
    saturate: bool = True,
    round_mode: str = "up",
) -> Value | Stored:
    """A value in another type, which programs may have or not.

    Floats are rounded to the nearest of few bits, to even between two; what is beyond the largest becomes that, or, without `saturate`,
    an infinity or no number. Those that are powers of two are reached as `round_mode` says. Integers keep their lowest bits.
    """
    elements, source = elements_of(b, value), value.numpy if isinstance(value, Stored) else None
    if source is not None and source.name == "uint64" and numpy.kind not in "iub":
        elements = _unsigned_as_float(b, elements)
    if numpy.name in _FLOATS:
        return Stored(rounded(b, elements, numpy, saturate), numpy)
    if numpy.name == _POWERS:
        return Stored(_power_of_two(b, elements, saturate, round_mode), numpy)
    if numpy.name == "uint64" and elements.dtype.is_float:
        return Stored(_float_as_unsigned(b, elements), numpy)
    if numpy.name in _INTEGERS:
        held = _INTEGERS[numpy.name][0]
        wide = elements if not elements.dtype.is_float else b.convert(elements, I64 if held == I64 else I32)
        return Stored(wrapped(b, wide, numpy), numpy)
    return b.convert(elements, dtype_of_array(numpy))


def _unsigned_as_float(b: GraphBuilder, bits: Value) -> Tensor:
    """64 bits without sign as f64."""
    real = b.convert(bits, F64)
    return b.select(b.compare("lt", bits, 0), b.binary(Add, real, 2.0**64), real)


def _float_as_unsigned(b: GraphBuilder, x: Value) -> Tensor:
    """Floats as 64 bits without sign: those from 2^63 on are converted without their first bit, which is put back."""
    real = b.convert(x, F64)
    is_large = b.compare("ge", real, 2.0**63)
    bits = b.convert(b.binary(Subtract, real, b.select(is_large, 2.0**63, b.constant(0, F64, real.sizes))), I64)
    return b.select(is_large, _turned(b, bits), bits)


def _power_of_two(b: GraphBuilder, x: Value, saturate: bool, round_mode: str) -> Tensor:
    """|x| as f32 that are powers of two: the next above, below, or the nearer, the larger between two.

    In f64 all exponents are those of normal numbers, so that what is added to the fraction's bits carries into the exponent.
    """
    carries = {"up": (1 << 52) - 1, "nearest": 1 << 51, "down": 0}
    if round_mode not in carries:
        raise Malformed(f"round_mode is {round_mode!r}; expected {', '.join(carries)}")
    wide = b.convert(x, F64)
    bits = b.binary(Add, b.emit(BitcastConvert, b.emit(Abs, wide), dtype=I64), carries[round_mode])
    exponent = b.binary(ShiftRightArithmetic, bits, 52)
    lowest, highest = 1023 - 127, 1023 + 127
    inside = b.binary(Minimum, b.binary(Maximum, exponent, lowest), highest)
    power = b.emit(BitcastConvert, b.binary(ShiftLeft, inside, 52), dtype=F64)
    is_none = b.compare("ne", wide, wide)
    if not saturate:
        is_none = b.binary(Or, is_none, b.compare("ne", inside, exponent))
    return b.convert(b.select(is_none, np.nan, power), F32)


def bits_as(b: GraphBuilder, x: Value | Stored, numpy: np.dtype[np.generic]) -> Value | Stored:
    """The bits of x as another type of as many. Unsupported for floats of 16 bits and fewer, and integers of fewer than 8."""
    source = x.numpy if isinstance(x, Stored | Known) else x.dtype.numpy
    if source == numpy:
        return x
    if not {source.name, numpy.name} <= _WORDS.keys():
        raise Unsupported(f"the bits of {source} as {numpy}")
    if source.itemsize != numpy.itemsize:
        raise Malformed(f"{source} and {numpy} have another number of bits")
    word, elements = _WORDS[source.name], elements_of(b, x)
    is_real = elements.dtype.is_float or elements.dtype == U8
    bits = b.emit(BitcastConvert, elements, dtype=word) if is_real else b.convert(elements, word)
    if numpy.name in UNSIGNED:
        return Stored(wrapped(b, bits, numpy), numpy)
    target = dtype_of_array(numpy)
    return b.emit(BitcastConvert, bits, dtype=target) if target.is_float or target == U8 else b.convert(bits, target)


def wrapped(b: GraphBuilder, x: Value, numpy: np.dtype[np.generic]) -> Tensor:
    """The lowest bits of integers, as programs hold them."""
    held, bits = _INTEGERS[numpy.name]
    if bits == 64:
        return b.convert(x, held)
    wide = b.convert(x, I64 if held == I64 else I32)
    low = b.binary(And, wide, (1 << bits) - 1)
    if numpy.name.startswith("int"):
        low = b.binary(Subtract, b.binary(Xor, low, 1 << (bits - 1)), 1 << (bits - 1))
    return b.convert(low, held)


def rounded(b: GraphBuilder, x: Value, numpy: np.dtype[np.generic], saturate: bool = True) -> Tensor:
    """x as f32 that are numbers of a float type of few bits: with e the exponent of x, but at least that of the smallest normal number,

    the multiple of 2^(e − mantissa) that is nearest.
    """
    small, wide = _FLOATS[numpy.name], b.convert(x, F32)
    exponent = b.binary(
        Subtract, b.binary(ShiftRightArithmetic, b.emit(BitcastConvert, b.emit(Abs, wide), dtype=I32), 23), 127
    )
    exponent = b.binary(Subtract, b.binary(Maximum, exponent, small.lowest), small.mantissa)
    down, up = (_power(b, each) for each in (b.binary(Subtract, 0, exponent), exponent))
    near = b.emit(Multiply, b.emit(RoundNearestEven, b.emit(Multiply, wide, down)), up)
    near = b.select(b.emit(IsFinite, wide), near, wide)
    if saturate or small.beyond == small.largest:
        low, high = (b.constant(bound, F32, near.sizes) for bound in (-small.largest, small.largest))
        return b.emit(Clamp, low, near, high)
    beyond = b.compare("gt", b.emit(Abs, near), small.largest)
    if np.isnan(small.beyond):
        return b.select(beyond, small.beyond, near)
    signed = b.select(b.compare("lt", near, 0.0), b.constant(-small.beyond, F32, near.sizes), small.beyond)
    return b.select(beyond, signed, near)


def _power(b: GraphBuilder, exponent: Tensor) -> Tensor:
    """2^exponent as f32, for normal numbers."""
    clamped = b.binary(Minimum, b.binary(Maximum, exponent, -126), 127)
    return b.emit(BitcastConvert, b.binary(ShiftLeft, b.binary(Add, clamped, 127), 23), dtype=F32)


# -- ops on what is stored -----------------------------------------------------------------------------------------------

_MOVES = frozenset({
    "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape",
    "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
"""Ops whose results are elements of their operands."""
_ARITHMETIC = frozenset({
    "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Div", "Max", "Min", "Mod", "Mul", "Sub", "Sum",
})  # fmt: skip
"""Ops that are right on the lowest bits of integers that hold more, and give integers of their operands' type."""
_ORDER = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_BY_ORDER = frozenset({"Max", "Min", "TopK"})
_SIGNED = frozenset({"Div", "Mod"})
"""Ops whose results on 64 bits depend on what the first bit means."""


def lower_stored(
    b: GraphBuilder, op: str, inputs: Sequence[Anything], lower: Callable[[Sequence[Anything]], Sequence[Anything]]
) -> list[Anything] | None:
    """The results of an op of ONNX's own on stored tensors; None where it is none of those that take them so.

    Args:
        lower: the op's lowering, a function of its inputs.
    """
    kinds = {each.numpy for each in inputs if isinstance(each, Stored)}
    if not kinds:
        return None
    (numpy,) = kinds if len(kinds) == 1 else (np.dtype(np.void),)
    if op in _MOVES and len(kinds) == 1:
        return [_again(each, numpy) for each in lower([_held(b, each, numpy) for each in inputs])]
    if numpy.name not in UNSIGNED or (numpy.name == "uint64" and op == "BitShift"):
        return None
    held = [_held(b, each, numpy) for each in inputs]
    if op == "Pow":
        return list(lower(held))
    if numpy.name == "uint64" and op in _SIGNED:
        return [Stored(_divided(b, op, *held), numpy)]  # pyright: ignore[reportArgumentType]
    if numpy.name == "uint64" and (op in _ORDER or op in _BY_ORDER):
        return _in_order(b, op, held, inputs, lower, numpy)
    if op == "TopK":
        values, places = lower(held)
        return [_again(values, numpy), places]
    if op in _ORDER:
        return list(lower(held))
    if op in _ARITHMETIC:
        return [Stored(wrapped(b, each, numpy), numpy) for each in lower(held)]  # pyright: ignore[reportArgumentType]
    return None


def _held(b: GraphBuilder, value: Anything, numpy: np.dtype[np.generic]) -> Anything:
    if isinstance(value, Stored):
        return value.tensor
    if isinstance(value, Known) and value.is_literal and value.numpy == numpy:
        return Known(to_held(value.elements))
    return value


def _again(value: Anything, numpy: np.dtype[np.generic]) -> Anything:
    return Stored(value, numpy) if isinstance(value, Tensor) else value


_FIRST_BIT = -(1 << 63)


def _turned(b: GraphBuilder, bits: Value) -> Tensor:
    """64 bits so that their order as signed integers is that without sign; done twice, they are what they were."""
    return b.binary(Xor, bits, _FIRST_BIT)


def shifted_right(b: GraphBuilder, bits: Value | Stored, by: Value | Stored) -> Tensor:
    """⌊x / 2^by⌋ of 64 bits without sign: the first bit comes in once, and is put out."""
    x, count = (elements_of(b, each) for each in (bits, by))
    half = b.binary(And, b.binary(ShiftRightArithmetic, x, 1), (1 << 63) - 1)
    less = b.binary(Maximum, b.binary(Subtract, count, 1), 0)
    return b.select(b.compare("eq", count, 0), x, b.binary(ShiftRightArithmetic, half, less))


def _in_order(
    b: GraphBuilder,
    op: str,
    held: Sequence[Anything],
    inputs: Sequence[Anything],
    lower: Callable[[Sequence[Anything]], Sequence[Anything]],
    numpy: np.dtype[np.generic],
) -> list[Anything]:
    turned = [_turned(b, each) if isinstance(old, Stored) else each for each, old in zip(held, inputs, strict=True)]  # pyright: ignore
    results = list(lower(turned))
    if op in _ORDER:
        return results
    return [Stored(_turned(b, results[0]), numpy), *results[1:]]  # pyright: ignore[reportArgumentType]


def _divided(b: GraphBuilder, op: str, x: Value, y: Value) -> Tensor:
    """The quotient, or the remainder, of 64 bits without sign: ⌊⌊x/2⌋/y⌋·2, and one more where the rest is still y or larger.

    Where y has its first bit the quotient is 0 or 1.
    """
    x, y = b.together(x, y)
    half = b.binary(And, b.binary(ShiftRightArithmetic, x, 1), (1 << 63) - 1)
    is_large = b.compare("lt", y, 0)
    twice = b.binary(ShiftLeft, b.emit(Divide, half, b.select(is_large, 1, y)), 1)
    quotient = b.select(is_large, 0, twice)
    rest = b.emit(Subtract, x, b.emit(Multiply, quotient, y))
    goes = b.compare("ge", _turned(b, rest), _turned(b, y))
    if op == "Mod":
        return b.emit(Select, goes, b.emit(Subtract, rest, y), rest)
    return b.emit(Add, quotient, b.convert(goes, I64))


__all__ = [
    "Small", "bits_as", "cast", "elements_of", "from_held", "held_in", "lower_stored", "rounded", "shifted_right", "stored", "to_held",
    "wrapped",
]  # fmt: skip
