"""What a decoder-only transformer is: everything that its graph depends on, besides the types of its weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from anyshape.dialects.arrays import Array

Logits = Literal["last", "all"]
"""Of which positions logits are computed."""
Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class Rotary:
    """Frequencies of rotary embeddings: base^(−2j/width) / (factor · factors[j]) radians a position, for j < width/2.

    Args:
        base: theta.
        width: elements of a head that are rotated.
        factor: linear scaling of positions.
        factors: a divisor for each frequency (Llama 3, Phi-3).
        long_factors: the divisors in place of `factors` where there are more than `original` positions (Phi-3).
        attention_factor: what cosines and sines are multiplied by.
    """

    base: float
    width: int
    factor: float = 1.0
    factors: tuple[float, ...] | None = None
    attention_factor: float = 1.0
    long_factors: tuple[float, ...] | None = None
    original: int = 0

    def frequencies(self, *, long: bool = False) -> Array:
        """f64 [width/2]; with `long`, those of more than `original` positions."""
        rates = self.base ** (-np.arange(0, self.width, 2, dtype=np.float64) / self.width) / self.factor
        factors = self.long_factors if long else self.factors
        return rates if factors is None else rates / np.asarray(factors)


@dataclass(frozen=True)
class LayerKind:
    """What differs between layers: the rotary embedding, and how many positions a query sees (0: all before it)."""

    rotary: Rotary
    window: int = 0


@dataclass(frozen=True)
class DecoderConfig:
    """Everything that the graph of a model depends on, besides the types of its weights.

    Args:
        width: elements of a token's state.
        heads, kv_heads, head: query heads, key and value heads, elements of a head.
        hidden: elements between the two products of a feed-forward layer.
        layers: the kind of each layer.
        attention_scale: what scores are multiplied by.
        head_norms: q and k are normalised over each head before they are rotated.
        post_norms: what attention and feed-forward give is normalised before it is added.
        embedding_scale: what embeddings are multiplied by.
        softcap: logits become softcap · tanh(logits / softcap); 0 leaves them.
    """

    architecture: str
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocabulary: int
    context: int
    epsilon: float
    layers: tuple[LayerKind, ...]
    attention_scale: float
    activation: Activation = "silu"
    head_norms: bool = False
    post_norms: bool = False
    embedding_scale: float = 1.0
    softcap: float = 0.0

    @property
    def turning(self) -> int | None:
        """Positions beyond which all of them are rotated otherwise than before; None where there is no such number."""
        originals = [kind.rotary.original for kind in self.layers if kind.rotary.long_factors is not None]
        return min(originals, default=None)

    def text(self) -> str:
        """All of it, as JSON."""
        return json.dumps(asdict(self), sort_keys=True)


__all__ = ["Activation", "DecoderConfig", "LayerKind", "Logits", "Rotary"]
