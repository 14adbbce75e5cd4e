"""The decoder-only transformer that all families are cases of, as a graph of `anyshape.nn`.

One program takes tokens [b, s] after a past of p positions and the caches of the layers, writes to the caches and returns logits. Prompt
and generation are the same program: s is the length of the prompt, or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyshape import nn
from anyshape.llm.config import DecoderConfig, LayerKind, Logits, Rotary
from anyshape.llm.key_cache import KeyCache
from anyshape.llm.layer_cache import LayerCache, inputs_of, updates_of
from anyshape.llm.weight_tensors import WeightTensors
from anyshape.llm.weights import Projection, WeightForms
from anyshape.nn import FinishedGraph, Graph, RotaryTables, Tensor


def build_decoder(
    config: DecoderConfig, weights: WeightForms, cache: KeyCache, logits: Logits = "last"
) -> FinishedGraph:
    """The program: (tokens i64 [b, s], p, then for each layer the arrays of its cache, for c positions)
    -> logits f32 [b, 1 or s, vocabulary]; positions p to p + s of the caches are written where they lie."""
    return _Decoder(config, weights, cache).build(logits)


class _Decoder:
    def __init__(self, config: DecoderConfig, weights: WeightForms, cache: KeyCache) -> None:
        self.config = config
        self.g = g = Graph()
        self.weights = WeightTensors(g, weights)
        self.batch, self.length, self.capacity = g.sizes("b", "s", "c")
        self.tokens = g.input("tokens", (self.batch, self.length), "i64")
        self.past = g.size_input("p")
        self.caches = [inputs_of(cache, g, layer, self.batch, self.capacity) for layer in range(len(config.layers))]
        g.require((self.past + self.length).le(self.capacity))
        self._tables: dict[Rotary, RotaryTables] = {}

    def build(self, logits: Logits) -> FinishedGraph:
        g, config, weights = self.g, self.config, self.weights
        with g.scope("embedding"):
            x = weights.embedding(self.tokens)
            if config.embedding_scale != 1.0:
                x = x * config.embedding_scale
        updated: list[LayerCache] = []
        for number, kind in enumerate(config.layers):
            # Of the last layer, only what logits are computed from: besides keys and values, that is one position.
            only_last = logits == "last" and number == len(config.layers) - 1
            with g.scope(f"layer {number}"):
                x = self._layer(x, number, kind, updated, only_last)
        with g.scope("logits"):
            x = nn.rms_norm(x, weights.vector("output_norm.weight"), epsilon=config.epsilon)
            result = weights.head(x)
            if config.softcap:
                result = nn.tanh(result / config.softcap) * config.softcap
        return g.finish(result, updates=updates_of(self.caches, updated))

    def _layer(self, x: Tensor, number: int, kind: LayerKind, updated: list[LayerCache], only_last: bool) -> Tensor:
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
        self, x: Tensor, number: int, kind: LayerKind, updated: list[LayerCache], only_last: bool
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
        cache = self.caches[number].updated(key, value, self.past)
        updated.append(cache)
        until = self.past + self.length
        if only_last:
            query = nn.slice_axis(query, 2, self.length - 1, 1)
        length = query.sizes[2]
        query = query.reshape(batch, config.heads, length, config.head)
        attended = cache.attended(query, until, scale=config.attention_scale, window=kind.window)
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
        weight = self.weights.vector(f"blk.{number}.{name}.weight").reshape(2, self.config.head // 2)
        return nn.rms_norm(x, weight, epsilon=self.config.epsilon)

    def _project(self, x: Tensor, number: int, projections: Sequence[Projection]) -> list[Tensor]:
        """Several linear maps of x; those whose weights are stored together are one product."""
        parts: list[Tensor] = []
        for projection in projections:
            product = self.weights.product(x, projection.name)
            parts += nn.split(product, projection.widths) if len(projection.widths) > 1 else [product]
        return parts

    def _norm(self, x: Tensor, number: int, name: str) -> Tensor:
        return nn.rms_norm(x, self.weights.vector(f"blk.{number}.{name}.weight"), epsilon=self.config.epsilon)

    def _post_norm(self, x: Tensor, number: int, name: str) -> Tensor:
        return self._norm(x, number, name) if self.config.post_norms else x

    def _rotary_tables(self, rotary: Rotary) -> RotaryTables:
        if rotary not in self._tables:
            numbers = nn.positions(self.g, self.length, self.past)
            self._tables[rotary] = nn.rotary_tables(numbers, self._frequencies(rotary), rotary.attention_factor)
        return self._tables[rotary]

    def _frequencies(self, rotary: Rotary) -> Tensor:
        """As many positions as there are say which ones."""
        short = self.g.array(rotary.frequencies().astype(np.float32))
        if rotary.long_factors is None:
            return short
        is_long = nn.greater(nn.size(self.g, self.past + self.length), rotary.original)
        return nn.where(is_long.reshape(1), self.g.array(rotary.frequencies(long=True).astype(np.float32)), short)


__all__ = ["build_decoder"]
