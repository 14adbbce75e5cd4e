"""The decoder-only transformer that all families are cases of, as a graph of `anyshape.nn`.

One program takes tokens [b, s] after a past of p positions and the caches of the layers, writes to the caches and returns logits. Prompt
and generation are the same program: s is the length of the prompt, or 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

import numpy as np

from anyshape import nn
from anyshape.dialects.dhlo import Array
from anyshape.llm.weights import Projection, WeightForms
from anyshape.nn import FinishedGraph, Graph, RotaryTables, Tensor
from anyshape.symbolic import Size

Logits = Literal["last", "all"]
"""Of which positions logits are computed."""
Activation = Literal["silu", "gelu_tanh"]
SizeT = TypeVar("SizeT", int, Size)


@dataclass(frozen=True)
class Rotary:
    """Frequencies of rotary embeddings: base^(−2j/width) / (factor · factors[j]) radians a position, for j < width/2.

    Args:
        base: theta.
        width: elements of a head that are rotated.
        factor: linear scaling of positions.
        factors: a divisor for each frequency (Llama 3, long contexts of Phi-3).
        attention_factor: what cosines and sines are multiplied by.
    """

    base: float
    width: int
    factor: float = 1.0
    factors: tuple[float, ...] | None = None
    attention_factor: float = 1.0

    def frequencies(self) -> Array:
        """f64 [width/2]."""
        rates = self.base ** (-np.arange(0, self.width, 2, dtype=np.float64) / self.width) / self.factor
        return rates if self.factors is None else rates / np.asarray(self.factors)


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

    def text(self) -> str:
        """All of it, as JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def cache_sizes(config: DecoderConfig, batch: SizeT, capacity: SizeT) -> tuple[SizeT | int, ...]:
    """The sizes of a layer's cached keys, and of its values: each head as its two halves."""
    return batch, config.kv_heads, capacity, 2, config.head // 2


def build_decoder(config: DecoderConfig, weights: WeightForms, logits: Logits = "last") -> FinishedGraph:
    """The program: (tokens i64 [b, s], p, then for each layer its cached keys and values f32 [b, kv_heads, c, 2, head/2])
    -> logits f32 [b, 1 or s, vocabulary]; positions p to p + s of the caches are written where they lie."""
    return _Decoder(config, weights).build(logits)


class _Decoder:
    def __init__(self, config: DecoderConfig, weights: WeightForms) -> None:
        self.config, self.weights = config, weights
        self.g = g = Graph()
        self.batch, self.length, self.capacity = g.sizes("b", "s", "c")
        self.tokens = g.input("tokens", (self.batch, self.length), "i64")
        self.past = g.size_input("p")
        shape = cache_sizes(config, self.batch, self.capacity)
        self.caches = [
            (g.input(f"keys of layer {layer}", shape), g.input(f"values of layer {layer}", shape))
            for layer in range(len(config.layers))
        ]
        g.require((self.past + self.length).le(self.capacity))
        self._tables: dict[Rotary, RotaryTables] = {}

    def build(self, logits: Logits) -> FinishedGraph:
        g, config, weights = self.g, self.config, self.weights
        with g.scope("embedding"):
            x = weights.embedding(self.tokens)
            if config.embedding_scale != 1.0:
                x = x * config.embedding_scale
        updated: list[Tensor] = []
        for number, kind in enumerate(config.layers):
            # Of the last layer, only what logits are computed from: besides keys and values, that is one position.
            only_last = logits == "last" and number == len(config.layers) - 1
            with g.scope(f"layer {number}"):
                x = self._layer(x, number, kind, updated, only_last)
        with g.scope("logits"):
            x = nn.rms_norm(x, weights.vector(g, "output_norm.weight"), epsilon=config.epsilon)
            result = weights.head(x)
            if config.softcap:
                result = nn.tanh(result / config.softcap) * config.softcap
        caches = [cache for pair in self.caches for cache in pair]
        return g.finish(result, updates=list(zip(updated, caches, strict=True)))

    def _layer(self, x: Tensor, number: int, kind: LayerKind, updated: list[Tensor], only_last: bool) -> Tensor:
        with self.g.scope("attention"):
            attended = self._attention(self._norm(x, number, "attn_norm"), number, kind, updated, only_last)
            if only_last:
                x = nn.slice_axis(x, 1, self.length - 1, 1)
            x = x + self._post_norm(attended, number, "post_attention_norm")
        with self.g.scope("feed-forward"):
            gate, up = self._project(self._norm(x, number, "ffn_norm"), number, self.weights.feed_forward(number))
            active = nn.silu(gate) if self.config.activation == "silu" else nn.gelu(gate, "tanh")
            down = self.weights.product(active * up, f"blk.{number}.ffn_down")
            return x + self._post_norm(down, number, "post_ffw_norm")

    def _attention(
        self, x: Tensor, number: int, kind: LayerKind, updated: list[Tensor], only_last: bool
    ) -> Tensor:  # fmt: skip
        config, batch = self.config, self.batch
        query, key, value = self._heads(x, number)
        if config.head_norms:
            query, key = (
                self._head_norm(part, number, name) for part, name in ((query, "attn_q_norm"), (key, "attn_k_norm"))
            )
        tables = self._rotary_tables(kind.rotary)
        query, key, value = (
            part.transpose(0, 2, 1, 3, 4) for part in (self._rotated(query, tables), self._rotated(key, tables), value)
        )
        zero = Size.const(0)
        keys, values = (
            nn.update(cache, new, (zero, zero, self.past, zero, zero))
            for cache, new in zip(self.caches[number], (key, value), strict=True)
        )
        updated += keys, values
        until = self.past + self.length
        if only_last:
            query = nn.slice_axis(query, 2, self.length - 1, 1)
        length = query.sizes[2]
        query = query.reshape(batch, config.heads, length, config.head)
        seen = [
            nn.slice_axis(cache, 2, 0, until).reshape(batch, config.kv_heads, until, config.head)
            for cache in (keys, values)
        ]
        attended = nn.attention(query, *seen, scale=config.attention_scale, causal=True, window=kind.window)
        joined = attended.transpose(0, 2, 1, 3).reshape(batch, length, config.heads * config.head)
        return self.weights.product(joined, f"blk.{number}.attn_output")

    def _heads(self, x: Tensor, number: int) -> list[Tensor]:
        """q, k and v as [b, s, heads, 2, head/2]. Reshaped before they are cut apart: a product's result may be read under
        other sizes where it lies, a part of it only after a copy."""
        config, (batch, length, _) = self.config, x.sizes
        parts: list[Tensor] = []
        for projection in self.weights.attention(number):
            heads = [width // config.head for width in projection.widths]
            product = self.weights.product(x, projection.name)
            halves = product.reshape(batch, length, sum(heads), 2, config.head // 2)
            parts += nn.split(halves, heads, axis=2) if len(heads) > 1 else [halves]
        return parts

    def _rotated(self, x: Tensor, tables: RotaryTables) -> Tensor:
        if tables.width == self.config.head:
            return nn.rotate_halves(x, tables)
        batch, length, heads, _, _ = x.sizes
        return nn.rotate(x.reshape(batch, length, heads, self.config.head), tables).reshape(*x.sizes)

    def _head_norm(self, x: Tensor, number: int, name: str) -> Tensor:
        weight = self.weights.vector(self.g, f"blk.{number}.{name}.weight").reshape(2, self.config.head // 2)
        return nn.rms_norm(x, weight, epsilon=self.config.epsilon)

    def _project(self, x: Tensor, number: int, projections: Sequence[Projection]) -> list[Tensor]:
        """Several linear maps of x; those whose weights are stored together are one product."""
        parts: list[Tensor] = []
        for projection in projections:
            product = self.weights.product(x, projection.name)
            parts += nn.split(product, projection.widths) if len(projection.widths) > 1 else [product]
        return parts

    def _norm(self, x: Tensor, number: int, name: str) -> Tensor:
        return nn.rms_norm(x, self.weights.vector(self.g, f"blk.{number}.{name}.weight"), epsilon=self.config.epsilon)

    def _post_norm(self, x: Tensor, number: int, name: str) -> Tensor:
        return self._norm(x, number, name) if self.config.post_norms else x

    def _rotary_tables(self, rotary: Rotary) -> RotaryTables:
        if rotary not in self._tables:
            numbers = nn.positions(self.g, self.length, self.past)
            self._tables[rotary] = nn.rotary_tables(numbers, rotary.frequencies(), rotary.attention_factor)
        return self._tables[rotary]


__all__ = ["Activation", "DecoderConfig", "LayerKind", "Logits", "Rotary", "build_decoder", "cache_sizes"]
