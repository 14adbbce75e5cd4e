"""ONNX's random ops: each draws from a stream of its own, numbered in the order of the program, of Philox.

The key is the call's seed, or, where a node has the attribute `seed`, that number: then each call draws the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from onnx import TensorProto

from anyshape.dialects.dhlo import (
    Add,
    And,
    Cosine,
    Divide,
    Exponential,
    Log,
    Multiply,
    Reduce,
    Scan,
    ShiftRightArithmetic,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.random import RngBitGenerator
from anyshape.dialects.dhlo.sort import SearchSorted
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I64, DType
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.dtypes import dtype_of_code
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_PRECISION = {F16: 11, BF16: 8, F32: 24, F64: 53}
"""Bits of a uniform number in [0, 1): as many as the format's mantissa has."""


class _Stream:
    """The random bits of one op."""

    def __init__(self, b: GraphBuilder, seed: float | None, sizes: Sequence[Size]) -> None:
        self.b, self.sizes = b, tuple(sizes)
        self.number = b.next_stream()
        if seed is None:
            self.seed = b.seed()
        else:
            number = seed if isinstance(seed, int) else struct.unpack("<i", struct.pack("<f", seed))[0]
            self.seed = b.constant(number, I64)

    def bits(self, count: int, *, part: int = 0, skip: int = 0) -> Tensor:
        """`count` < 64 random bits as a nonnegative i64, the lowest of the others' `skip` left out."""
        b = self.b
        word = b.emit(RngBitGenerator, self.seed, stream=self.number, part=part, sizes=self.sizes)
        if skip:
            word = b.binary(ShiftRightArithmetic, word, skip)
        return b.binary(And, word, (1 << count) - 1)

    def fraction(self, bits: Tensor, precision: int, dtype: DType) -> Tensor:
        return self.b.binary(Multiply, self.b.convert(bits, dtype), 2.0**-precision)

    def uniform(self, dtype: DType) -> Tensor:
        """Uniform in [0, 1), in multiples of a power of two that the dtype has."""
        wide = F32 if dtype in (F16, BF16) else dtype
        return self.b.convert(self.fraction(self.bits(_PRECISION[dtype]), _PRECISION[dtype], wide), dtype)

    def normal(self, dtype: DType) -> Tensor:
        """Normal with mean 0 and deviation 1: √(−2·ln u)·cos(2π·v) (Box and Muller, 1958), in f32 where the dtype is narrower."""
        b, wide = self.b, F64 if dtype == F64 else F32
        # Small numbers make large radii, so that f32, which can hold them, has more bits here than in [0, 1).
        precision = 53 if wide == F64 else 32
        u = self.fraction(b.binary(Add, self.bits(precision), 1), precision, wide)
        turns = self.bits(53, part=1) if wide == F64 else self.bits(24, skip=32)
        angle = b.binary(Multiply, self.fraction(turns, _PRECISION[wide], wide), 2.0 * math.pi)
        radius = b.emit(Sqrt, b.binary(Multiply, b.emit(Log, u), -2.0))
        return b.convert(b.emit(Multiply, radius, b.emit(Cosine, angle)), dtype)


def _float(code: int | None, default: DType) -> DType:
    dtype = default if code is None else dtype_of_code(code)
    if not dtype.is_float:
        raise Malformed(f"random numbers of {dtype}")
    return dtype


def _scaled(b: GraphBuilder, x: Tensor, scale: float, offset: float) -> Tensor:
    """offset + scale·x"""
    return b.binary(Add, b.binary(Multiply, x, scale), offset)


@lowers("RandomNormal")
def lower_random_normal(
    b: GraphBuilder,
    *,
    shape: Sequence[int],
    dtype: int = TensorProto.FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    return _scaled(b, _Stream(b, seed, list(map(Size.const, shape))).normal(_float(dtype, F32)), scale, mean)


@lowers("RandomNormalLike")
def lower_random_normal_like(
    b: GraphBuilder,
    x: Value,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    return _scaled(b, _Stream(b, seed, x.sizes).normal(_float(dtype, x.dtype)), scale, mean)


@lowers("RandomUniform")
def lower_random_uniform(
    b: GraphBuilder,
    *,
    shape: Sequence[int],
    dtype: int = TensorProto.FLOAT,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Value:
    return _scaled(b, _Stream(b, seed, list(map(Size.const, shape))).uniform(_float(dtype, F32)), high - low, low)


@lowers("RandomUniformLike")
def lower_random_uniform_like(
    b: GraphBuilder,
    x: Value,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Value:
    return _scaled(b, _Stream(b, seed, x.sizes).uniform(_float(dtype, x.dtype)), high - low, low)


@lowers("Bernoulli")
def lower_bernoulli(b: GraphBuilder, x: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with probability x, else 0"""
    wide = F64 if x.dtype == F64 else F32
    happens = b.compare("lt", _Stream(b, seed, x.sizes).uniform(wide), b.convert(x, wide))
    return b.convert(happens, x.dtype if dtype is None else dtype_of_code(dtype))


@lowers("Dropout")
def lower_dropout(
    b: GraphBuilder,
    x: Value,
    ratio: Value | float = 0.5,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> list[Value]:
    """x itself and a mask of ones (bools from version 10 on, before that of x's dtype); in training, 0 with probability `ratio`,

    else x / (1 − ratio), and where which of them is.
    """
    if training_mode is None or not b.number(training_mode, "the training mode"):
        return [x, b.constant(True, BOOL if b.version >= 10 else x.dtype, x.sizes)]
    wide = F64 if x.dtype == F64 else F32
    dropped = b.reshape(b.operand(ratio, wide), ())
    kept = b.compare("ge", _Stream(b, seed, x.sizes).uniform(wide), dropped)
    scaled = b.binary(Divide, b.convert(x, wide), b.binary(Subtract, 1, dropped))
    return [b.convert(b.select(kept, scaled, 0), x.dtype), kept]


@lowers("Multinomial")
def lower_multinomial(
    b: GraphBuilder, x: Value, *, dtype: int = TensorProto.INT32, sample_size: int = 1, seed: float | None = None
) -> Value:
    """[n, sample_size]: classes drawn with replacement, in proportion to e^x, where u·Σ falls among the cumulative weights"""
    if x.rank != 2 or sample_size < 1:
        raise Unsupported(f"{sample_size} classes from a tensor of {x.rank} axes")
    batch, classes = x.sizes
    b.require(classes.ge(1), "the classes to be drawn")
    wide = b.convert(x, F64)
    top = b.reshape(b.emit(Reduce, wide, axes=(1,), kind="max"), (batch, 1))
    weights = b.emit(Exponential, b.binary(Subtract, wide, top))
    cumulative = b.emit(Scan, weights, axis=1, kind="sum")
    total = b.slice(cumulative, 1, classes - 1, 1)
    drawn = _Stream(b, seed, (batch, Size.const(sample_size))).uniform(F64)
    found = b.emit(SearchSorted, cumulative, b.binary(Multiply, drawn, total), right=True)
    return b.convert(found, dtype_of_code(dtype))


__all__: list[str] = []
