"""ONNX's Fourier transforms of any length, as products with the matrix of the transform, and what goes with them: windows and filter banks.

The angles of a matrix are 2π·(nk mod N)/N, the product nk exact in integers and the functions in f64, so that an error does not grow
with the length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from anyshape.dialects.dhlo import Add, Cosine, Divide, Multiply, Negate, Or, Pad, Remainder, Select, Sine, Subtract
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dhlo.windows import Windows
from anyshape.dialects.dtypes import F64, I64, DType
from anyshape.frontends.onnx.builder import ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_size
from anyshape.frontends.onnx.dtypes import dtype_of_code, numpy_of_code
from anyshape.frontends.onnx.places import iota, size_as, swapped
from anyshape.frontends.onnx.products import product
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size


@dataclass(frozen=True)
class _Planes:
    """The parts of complex numbers; `imaginary` is None where it is 0 throughout."""

    real: Tensor
    imaginary: Tensor | None


def _planes(b: GraphBuilder, x: Value) -> _Planes:
    """[…, 1] or […, 2] as real and imaginary parts."""
    what = "the last axis, of one number or two, real and imaginary,"
    if x.rank < 2:
        raise Malformed(f"{what} is missing; the tensor is {x}")
    count = x.sizes[-1]
    b.require(((count - 1) * (count - 2)).eq(0), what)
    wide = b.convert(x, accumulation_dtype(x.dtype))
    if not count.is_constant:
        wide = _fitted(b, wide, x.rank - 1, Size.const(2))
    real, *rest = (b.reshape(b.slice(wide, x.rank - 1, part, 1), x.sizes[:-1]) for part in range(wide.sizes[-1].value))
    return _Planes(real, rest[0] if rest else None)


def _together(b: GraphBuilder, parts: list[Tensor], dtype: DType) -> Tensor:
    """Parts as a last axis."""
    apart = [b.reshape(part, (*part.sizes, 1)) for part in parts]
    return b.convert(b.concatenate(apart, parts[0].rank), dtype)


def _fitted(b: GraphBuilder, x: Tensor, axis: int, length: Size) -> Tensor:
    """An axis cut, or filled with zeros, to a length."""
    if x.sizes[axis] == length:
        return x
    high = tuple(length - x.sizes[axis] if each == axis else ZERO for each in range(x.rank))
    return b.emit(Pad, x, b.constant(0, x.dtype), low=(ZERO,) * x.rank, high=high)


def _matrix(b: GraphBuilder, rows: Size, columns: Size, length: Size, dtype: DType) -> tuple[Tensor, Tensor]:
    """cos and sin of 2π·(r·c mod length)/length, [rows, columns]"""
    sizes = (rows, columns)
    count = size_as(b, length)
    steps = b.binary(Remainder, b.emit(Multiply, iota(b, sizes, 0), iota(b, sizes, 1)), count)
    angle = b.binary(Multiply, b.convert(steps, F64), b.binary(Divide, 2.0 * math.pi, b.convert(count, F64)))
    return b.convert(b.emit(Cosine, angle), dtype), b.convert(b.emit(Sine, angle), dtype)


def _times(b: GraphBuilder, x: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """Σ_n x[…, n, …]·matrix[n, k]"""
    return swapped(b, product(b, swapped(b, x, axis), matrix, (x.rank - 1, 0)), axis)


def _transformed(b: GraphBuilder, x: _Planes, axis: int, length: Size, kept: Size, inverse: bool) -> list[Tensor]:
    """Real and imaginary part of the transform along an axis of that length, its first `kept` elements; divided by the length backwards."""
    dtype = x.real.dtype
    cosine, sine = _matrix(b, length, kept, length, dtype)
    if not inverse:
        sine = b.emit(Negate, sine)
    real, imaginary = _times(b, x.real, axis, cosine), _times(b, x.real, axis, sine)
    if x.imaginary is not None:
        real = b.emit(Subtract, real, _times(b, x.imaginary, axis, sine))
        imaginary = b.emit(Add, imaginary, _times(b, x.imaginary, axis, cosine))
    return _divided(b, [real, imaginary], length) if inverse else [real, imaginary]


def _divided(b: GraphBuilder, parts: list[Tensor], length: Size) -> list[Tensor]:
    count = size_as(b, length, parts[0].dtype)
    return [b.binary(Divide, part, count) for part in parts]


def _real_of_half(b: GraphBuilder, x: _Planes, axis: int, length: Size) -> Tensor:
    """Σ_k w_k·(Re x_k·cos − Im x_k·sin)/N: w = 1 where k is its own mirror image, 0 or N/2, else 2."""
    dtype = x.real.dtype
    half = x.real.sizes[axis]
    cosine, sine = _matrix(b, half, length, length, dtype)
    place = iota(b, (half,))
    is_own = b.binary(Or, b.compare("eq", place, 0), b.compare("eq", b.emit(Add, place, place), size_as(b, length)))
    ones = b.constant(1.0, dtype, (half,))
    weights = b.reshape(b.emit(Select, is_own, ones, b.emit(Add, ones, ones)), (half, 1))
    real = _times(b, x.real, axis, b.binary(Multiply, cosine, weights))
    if x.imaginary is not None:
        real = b.emit(Subtract, real, _times(b, x.imaginary, axis, b.binary(Multiply, sine, weights)))
    return _divided(b, [real], length)[0]


@lowers("DFT", since=20)
def lower_dft(
    b: GraphBuilder,
    x: Value,
    dft_length: Value | None = None,
    axis: Value | int = -2,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Value:
    """X_k = Σ_n x_n·e^(∓2πi·nk/N) along an axis, of N elements, cut or filled; numbers are real, [… , 1], or complex, [… , 2]

    `onesided` keeps the first half of the transform; backwards it is given, and the result is real.
    """
    (number,) = b.integers(axis, "the axis")
    number = b.axis(number, x.rank)
    if number == x.rank - 1:
        raise Malformed("the last axis has the parts of numbers and cannot be transformed")
    parts = _planes(b, x)
    length = _length(b, dft_length, x.sizes[number], bool(inverse and onesided))
    given = length // 2 + 1 if inverse and onesided else length
    imaginary = None if parts.imaginary is None else _fitted(b, parts.imaginary, number, given)
    parts = _Planes(_fitted(b, parts.real, number, given), imaginary)
    if inverse and onesided:
        return _together(b, [_real_of_half(b, parts, number, length)], x.dtype)
    kept = length // 2 + 1 if onesided else length
    return _together(b, _transformed(b, parts, number, length, kept, bool(inverse)), x.dtype)


@lowers("DFT", since=17)
def lower_dft_17(
    b: GraphBuilder, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    return lower_dft(b, x, dft_length, axis, inverse=inverse, onesided=onesided)


def _length(b: GraphBuilder, given: Value | None, size: Size, is_half: bool) -> Size:
    if given is None:
        return 2 * (size - 1) if is_half else size
    return size_of(b, given, "the length of a transform")


def size_of(b: GraphBuilder, value: Value, what: str) -> Size:
    """A number as a size: known, or computed by the program, then read while it runs."""
    if isinstance(value, Tensor):
        return read_size(b, b.convert(value, I64), "length")
    sizes = b.size_list(value, what)
    if len(sizes) != 1:
        raise Malformed(f"{what} must be one number; here there are {len(sizes)}")
    return sizes[0]


@lowers("STFT")
def lower_stft(
    b: GraphBuilder,
    signal: Value,
    frame_step: Value,
    window: Value | None = None,
    frame_length: Value | None = None,
    *,
    onesided: int = 1,
) -> Value:
    """[n, frames, k, 2]: the transforms of frames of a signal [n, length, 1 or 2], `frame_step` apart, each times the window"""
    if signal.rank == 2:
        signal = b.reshape(signal, (*signal.sizes, 1))
    if signal.rank != 3:
        raise Malformed(f"the signal must have 3 axes; it has {signal.rank}")
    step = int(b.number(frame_step, "the step of frames"))
    if step < 1:
        raise Malformed(f"frames are {step} apart")
    if frame_length is not None:
        length = size_of(b, frame_length, "the length of frames")
    else:
        length = signal.sizes[1] if window is None else window.sizes[0]
    room = signal.sizes[1] - length
    b.require(room.ge(0), "the frames of a signal")
    count = b.graph.facts.simplify(room // step + 1)
    extent = length if window is None else window.sizes[0]
    parts = _planes(b, signal)

    def framed(part: Tensor) -> Tensor:
        frames = b.emit(
            Windows, part, b.constant(0, part.dtype), window=(extent,), strides=(step,), dilation=(1,), low=(0,), sizes=(count,)
        )  # fmt: skip
        if window is not None:
            frames = b.binary(Multiply, frames, b.convert(window, part.dtype))
        return _fitted(b, frames, 2, length)

    frames = _Planes(framed(parts.real), None if parts.imaginary is None else framed(parts.imaginary))
    kept = length // 2 + 1 if onesided else length
    return _together(b, _transformed(b, frames, 2, length, kept, inverse=False), signal.dtype)


# -- windows and filters ---------------------------------------------------------------------------------------------


def _turns(b: GraphBuilder, size: Value, periodic: int) -> Tensor:
    """2π·n/N in f64, n < size: N is the size, or one less where the window is symmetric."""
    length = size_of(b, size, "the length of a window")
    steps = size_as(b, length if periodic else length - 1, F64)
    return b.binary(Divide, b.binary(Multiply, iota(b, (length,), 0, F64), 2.0 * math.pi), steps)


def _cosines(b: GraphBuilder, turns: Tensor, code: int, *weights: float) -> Tensor:
    """Σ_k weights[k]·cos(k·turn)"""
    total = b.constant(weights[0], F64, turns.sizes)
    for number, weight in enumerate(weights[1:], 1):
        total = b.emit(Add, total, b.binary(Multiply, b.emit(Cosine, b.binary(Multiply, turns, float(number))), weight))
    return b.convert(total, dtype_of_code(code))


@lowers("HannWindow")
def lower_hann(b: GraphBuilder, size: Value, *, output_datatype: int = TensorProto.FLOAT, periodic: int = 1) -> Value:
    """sin²(π·n/N)"""
    return _cosines(b, _turns(b, size, periodic), output_datatype, 0.5, -0.5)


@lowers("HammingWindow")
def lower_hamming(
    b: GraphBuilder, size: Value, *, output_datatype: int = TensorProto.FLOAT, periodic: int = 1
) -> Value:
    """25/46 − 21/46·cos(2π·n/N)"""
    return _cosines(b, _turns(b, size, periodic), output_datatype, 25 / 46, -21 / 46)


@lowers("BlackmanWindow")
def lower_blackman(
    b: GraphBuilder, size: Value, *, output_datatype: int = TensorProto.FLOAT, periodic: int = 1
) -> Value:
    """0.42 − 0.5·cos(2π·n/N) + 0.08·cos(4π·n/N)"""
    return _cosines(b, _turns(b, size, periodic), output_datatype, 0.42, -0.5, 0.08)


@lowers("MelWeightMatrix")
def lower_mel_weight_matrix(
    b: GraphBuilder,
    num_mel_bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: int = TensorProto.FLOAT,
) -> Value:
    """[dft_length // 2 + 1, bins]: triangles between neighbouring frequencies that are equally far apart on the mel scale"""
    given = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    bins, length, rate, low, high = (b.number(each, "the numbers of a mel matrix") for each in given)
    bins, length = int(bins), int(length)
    mels = [2595 * math.log10(1 + edge / 700) for edge in (low, high)]
    step = (mels[1] - mels[0]) / (bins + 2)
    edges = 700 * (10 ** ((np.arange(bins + 2) * step + mels[0]) / 2595) - 1)
    places = [int(place) for place in (length + 1) * edges // rate]
    matrix = np.zeros((length // 2 + 1, bins))
    for number in range(bins):
        first, middle, last = places[number : number + 3]
        for place in range(first, middle):
            matrix[place, number] = (place - first) / (middle - first)
        for place in range(middle, max(last, middle + 1)):
            matrix[place, number] = (last - place) / (last - middle) if last > middle else 1
    return Known(matrix.astype(numpy_of_code(output_datatype)))


__all__ = ["size_of"]
