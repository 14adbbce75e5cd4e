"""Rotary position embeddings (Su et al., arXiv:2104.09864): frequencies, tables of angles, and the rotation itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyshape.dialects.dhlo import Array, Slice
from anyshape.nn.functions import concatenate, convert, cos, sin, slice_axis
from anyshape.nn.tensor import Tensor

_SIGNS = np.array([[-1.0], [1.0]], np.float32)


@dataclass(frozen=True)
class RotaryTables:
    """cos θ [s, 1, n/2] and ∓sin θ [s, 2, n/2] of the angles θ[i, j] = position i · frequency j of n rotated elements."""

    cosine: Tensor
    signed_sine: Tensor

    @property
    def width(self) -> int:
        """Elements of a head that are rotated."""
        return 2 * self.cosine.sizes[2].value


def rotary_tables(positions: Tensor, frequencies: Array | Tensor, attention_factor: float = 1.0) -> RotaryTables:
    """The tables for positions [s] and frequencies [n/2] in radians a position; both are multiplied by `attention_factor`."""
    graph, (length,) = positions.graph, positions.sizes
    rates = frequencies if isinstance(frequencies, Tensor) else graph.array(frequencies.astype(np.float32))
    half = rates.sizes[0]
    angles = convert(positions, "f32").reshape(length, 1, 1) * rates
    cosine, sine = cos(angles), sin(angles)
    if attention_factor != 1.0:
        cosine, sine = cosine * attention_factor, sine * attention_factor
    return RotaryTables(cosine.reshape(length, 1, half), sine * graph.array(_SIGNS))


def rotate(x: Tensor, tables: RotaryTables) -> Tensor:
    """Rotate the pairs (j, j + n/2) of the first n elements of each head: x [b, s, h, d], which is the *half-split* form.

    y[0:n/2] = x[0:n/2]·cos − x[n/2:n]·sin,  y[n/2:n] = x[n/2:n]·cos + x[0:n/2]·sin.

    Weights whose pairs are neighbours (2j, 2j + 1) are brought into this form by a permutation of their rows, which changes no score.
    """
    batch, length, heads, head = x.sizes
    width = tables.width
    if head.constant_or(None) != width:
        first, rest = slice_axis(x, 3, 0, width), slice_axis(x, 3, width, head - width)
        return concatenate([rotate(first, tables), rest], 3)
    return rotate_halves(x.reshape(batch, length, heads, 2, width // 2), tables).reshape(batch, length, heads, head)


def rotate_halves(x: Tensor, tables: RotaryTables) -> Tensor:
    """The rotation of heads whose halves are an axis of their own, all of them rotated: x [b, s, h, 2, n/2]."""
    length, half = x.sizes[1], x.sizes[4]
    swapped = x.graph.emit(
        Slice, x, starts=(0, 0, 0, 1, 0), sizes=x.sizes, strides=(1, 1, 1, -1, 1)
    )  # the second half first
    return x * tables.cosine.reshape(length, 1, 1, half) + swapped * tables.signed_sine.reshape(length, 1, 2, half)


__all__ = ["RotaryTables", "rotary_tables", "rotate", "rotate_halves"]
