"""Matrices as block-quantised bytes: in each block, the scale and the minimum of least squared error that a search finds.

With codes u of b bits and numbers d, m that are stored as f16, a weight is approximated by d·(u − z), in formats with a minimum
by d·u + m. For fixed codes the best d (and m) is a linear least squares problem; for fixed d (and m) the best codes are the
nearest. The search starts from several scales, takes both steps, and keeps the best of all that it met, so that no start makes
another worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from anyshape.dialects.block_formats import FORMATS, BlockFormat
from anyshape.support.errors import ArgumentError

Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.uint8]

CHUNK = 1 << 16
"""Elements that are encoded at a time, so that what is computed meanwhile stays in the caches."""
ROUNDS = 2
"""How often a start is improved by least squares."""
_STRETCHES = (1.0, 0.9, 0.8, 0.7)
"""Starts, as parts of the range that the block's extremes need: cutting few large weights off refines all others."""

WRITABLE = tuple(name for name, each in FORMATS.items() if each.group_scales == "none")
"""The formats that matrices can be encoded in."""


def encode(matrix: npt.NDArray[np.floating], format: BlockFormat) -> Bytes:
    """The rows of a matrix in blocks: [n, k] -> u8 [n, bytes of a row].

    Raises:
        ArgumentError: k is no whole number of blocks; an element is not finite or so large that f16 has no scale for it; the
            format is one that is only read.
    """
    if format.name not in WRITABLE:
        raise ArgumentError(
            f"weights are not encoded as {format.name}", got=repr(format.name), expected=", ".join(WRITABLE),
            remedy="such weights are read from files only",
        )  # fmt: skip
    rows, columns = matrix.shape
    encoded = np.empty((rows, format.row_bytes(columns)), np.uint8)
    step = max(1, CHUNK // max(1, columns))

    def run(first: int) -> None:
        part = matrix[first : first + step].astype(np.float32).reshape(-1, format.elements)
        if not np.isfinite(part).all():
            raise ArgumentError("a weight is not finite", where=f"rows from {first} on")
        encoded[first : first + step] = _encode_blocks(part, format).reshape(-1, encoded.shape[1])

    with ThreadPoolExecutor() as pool:  # numpy computes without the interpreter's lock
        for done in [pool.submit(run, first) for first in range(0, rows, step) if columns]:
            done.result()
    return encoded


def _encode_blocks(weights: Floats, format: BlockFormat) -> Bytes:
    """f32 [blocks, elements] -> u8 [blocks, bytes]"""
    best = _Best(weights, format)
    for scale, minimum in _starts(weights, format):
        best.improve(scale, minimum)
    if not np.isfinite(best.error).all():
        raise ArgumentError(
            "a weight is too large: f16 has no scale for it", got=f"{np.abs(weights).max():.3g}",
            expected=f"at most {65504 * (1 << format.code_bits - 1):.3g}",
        )  # fmt: skip
    return _stored(best.codes(), best.scale, best.minimum, format)


def _starts(weights: Floats, format: BlockFormat) -> Iterator[tuple[Floats, Floats]]:
    """Scales and minima, each [blocks, 1], from which the search begins."""
    low, high = weights.min(1, keepdims=True), weights.max(1, keepdims=True)
    top = np.float32((1 << format.code_bits) - 1)
    zero = np.zeros_like(low)
    if format.minimum is not None:
        middle = (low + high) / 2
        for stretch in _STRETCHES:
            yield (high - low) * np.float32(stretch) / top, middle - (high - low) * np.float32(stretch / 2)
        return
    largest = np.maximum(high, -low)
    if format.is_signed:
        yield largest / np.float32(format.zero_point - 1), zero
        return
    farthest = np.copysign(largest, high + low)
    # One more code lies below zero than above: the larger extreme takes that side, by a scale with the sign that it needs.
    for stretch in _STRETCHES:
        yield farthest * np.float32(-stretch / format.zero_point), zero


class _Best:
    """The best scale and minimum of each block so far, with the squared error."""

    def __init__(self, weights: Floats, format: BlockFormat) -> None:
        self._weights = weights
        self._format = format
        self.scale: Floats = np.zeros((len(weights), 1), np.float32)
        self.minimum: Floats = np.zeros_like(self.scale)
        # What is all zeros has no error with scale 0; the error of everything else begins where any start is better.
        self.error = np.where(weights.any(1, keepdims=True), np.inf, 0.0)

    def improve(self, scale: Floats, minimum: Floats) -> None:
        """Try a start, and what least squares makes of it."""
        for attempt in range(ROUNDS + 1):
            scale, minimum = _half(scale), _half(minimum)
            codes = _nearest(self._weights, scale, minimum, self._format)
            with np.errstate(all="ignore"):
                error = np.square(scale * codes + minimum - self._weights).sum(1, keepdims=True, dtype=np.float64)
            is_better = error < self.error  # false where a number is not finite
            self.error = np.where(is_better, error, self.error)
            self.scale = np.where(is_better, scale, self.scale)
            self.minimum = np.where(is_better, minimum, self.minimum)
            if attempt < ROUNDS:
                scale, minimum = _least_squares(self._weights, codes, self._format)

    def codes(self) -> Floats:
        """u − z of every element."""
        return _nearest(self._weights, self.scale, self.minimum, self._format)


def _half(x: Floats) -> Floats:
    """x rounded to f16."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def _nearest(weights: Floats, scale: Floats, minimum: Floats, format: BlockFormat) -> Floats:
    """u − z of every element: the code that is nearest to it, as a float."""
    with np.errstate(all="ignore"):
        exact = np.where(scale == 0, np.float32(0), (weights - minimum) / scale)
    # Signed bytes stay symmetric, as other writers of the format have them.
    lowest = -format.zero_point + format.is_signed
    return np.clip(np.rint(np.nan_to_num(exact)), lowest, (1 << format.code_bits) - 1 - format.zero_point)


def _least_squares(weights: Floats, codes: Floats, format: BlockFormat) -> tuple[Floats, Floats]:
    """The scale and minimum of least squared error for these codes.

    d = Σ w·q / Σ q² without a minimum; with one, of n elements, d = (n·Σ w·q − Σ w·Σ q) / (n·Σ q² − (Σ q)²) and m = (Σ w − d·Σ q) / n.
    """
    products, squares = (np.sum(codes * x, 1, keepdims=True) for x in (weights, codes))
    with np.errstate(all="ignore"):
        if format.minimum is None:
            return np.nan_to_num(products / squares), np.zeros_like(products)
        total, code_total = weights.sum(1, keepdims=True), codes.sum(1, keepdims=True)
        n = np.float32(format.elements)
        scale = np.nan_to_num((n * products - total * code_total) / (n * squares - code_total * code_total))
        return scale, (total - scale * code_total) / n


def _stored(codes: Floats, scale: Floats, minimum: Floats, format: BlockFormat) -> Bytes:
    """The bytes of blocks: their codes in the format's fields, their numbers as f16."""
    blocks = np.zeros((len(codes), format.bytes), np.uint8)
    unsigned = (codes + format.zero_point).astype(np.uint8)
    if format.is_signed:
        unsigned ^= 0x80
    shift = 0
    for field in format.fields:
        part = unsigned >> shift & field.mask
        runs = part.reshape(len(codes), -1, field.ways, field.run)
        shifts = (field.bits * np.arange(field.ways, dtype=np.uint8))[:, None]
        span = format.elements // field.ways
        joined = np.bitwise_or.reduce(runs << shifts, axis=2).reshape(len(codes), span)
        blocks[:, field.offset : field.offset + span] = joined
        shift += field.bits
    numbers = [(format.scale, scale)]
    if format.minimum is not None:
        numbers.append((format.minimum, format.minimum_sign * minimum))
    for offset, number in numbers:
        blocks[:, offset : offset + 2] = number.astype("<f2").view(np.uint8)
    return blocks


__all__ = ["WRITABLE", "encode"]
