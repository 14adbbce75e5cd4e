"""What a family of models is: how its file describes a model, and which tensors it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyshape.dialects.arrays import Array
from anyshape.llm.config import DecoderConfig, LayerKind, Rotary
from anyshape.llm.metadata import Metadata
from anyshape.llm.weights import Projection, WeightForms

MOST_LAYERS = 1024
MOST_WIDTH = 1 << 20


@dataclass(frozen=True)
class Description:
    """What is known of a model before its graph: the file's keys, and its tensors.

    Attributes:
        metadata: the file's keys, as GGUF names them.
        weights: the file's tensors.
        neighbours: whether rotated pairs are neighbours in the rows of q and k; else the halves of a head.
    """

    metadata: Metadata
    weights: WeightForms
    neighbours: bool = False

    def key(self, name: str) -> str:
        """The full name of a key of the architecture."""
        return f"{self.metadata.text('general.architecture')}.{name}"

    def integer(self, name: str, default: int | None = None, *, minimum: int = 1) -> int:
        return self.metadata.integer(self.key(name), default, minimum=minimum, maximum=MOST_WIDTH)

    def number(self, name: str, default: float | None = None) -> float:
        return self.metadata.number(self.key(name), default)


@dataclass(frozen=True)
class Family:
    """A family of models.

    Args:
        architecture: its name in GGUF files.
        configure: the configuration of a model.
        declare: declares the model's weights.
        model_types: its names in `config.json` beside safetensors.
        neighbours: whether GGUF files of the family keep rotated pairs as neighbours.
        aliases: other names in GGUF files.
    """

    architecture: str
    configure: Callable[[Description], DecoderConfig]
    declare: Callable[[DecoderConfig, Description], None]
    model_types: tuple[str, ...]
    neighbours: bool = False
    aliases: tuple[str, ...] = ()


def decoder_config(of: Description) -> DecoderConfig:
    """The configuration that the common keys give: what Llama is."""
    width = of.integer("embedding_length")
    heads = of.integer("attention.head_count")
    head = of.integer("attention.key_length", width // heads)
    rotary = rotary_of(of, head)
    layers = of.metadata.integer(of.key("block_count"), minimum=1, maximum=MOST_LAYERS)
    window = of.integer("attention.sliding_window", 0, minimum=0)
    return DecoderConfig(
        architecture=of.metadata.text("general.architecture"),
        width=width,
        heads=heads,
        kv_heads=of.integer("attention.head_count_kv", heads),
        head=head,
        hidden=of.integer("feed_forward_length"),
        vocabulary=of.weights.rows("token_embd.weight"),
        context=of.metadata.integer(of.key("context_length"), minimum=1),
        epsilon=of.number("attention.layer_norm_rms_epsilon"),
        layers=(LayerKind(rotary, window),) * layers,
        attention_scale=of.number("attention.scale", 1.0 / math.sqrt(head)),
    )


def rotary_of(of: Description, head: int) -> Rotary:
    """The rotary embedding that the common keys give, with the frequency factors of `rope_freqs.weight` where the file has them."""
    width = of.integer("rope.dimension_count", head)
    factors = of.weights.values("rope_freqs.weight", width // 2)
    is_linear = of.metadata.text(of.key("rope.scaling.type"), "none") == "linear"
    return Rotary(
        base=of.number("rope.freq_base", 10000.0),
        width=width,
        factor=of.number("rope.scaling.factor", 1.0) if is_linear else 1.0,
        factors=None if factors is None else tuple(map(float, factors)),
    )


def declare_decoder(config: DecoderConfig, of: Description) -> None:
    """The tensors of the common decoder. Where the file has `attn_qkv`, q, k and v are one tensor; where it has no `ffn_gate`, that is
    part of `ffn_up`. Products have the biases that the file has."""
    weights, width = of.weights, config.width
    weights.add_matrix("token_embd", config.vocabulary, width)
    weights.add_vector("output_norm.weight", width)
    if weights.has("output.weight"):
        weights.add_matrix("output", config.vocabulary, width)
    for number in range(len(config.layers)):
        layer = f"blk.{number}"
        norms = ("attn_norm", "ffn_norm", *(("post_attention_norm", "post_ffw_norm") if config.post_norms else ()))
        for name in norms:
            weights.add_vector(f"{layer}.{name}.weight", width)
        if config.head_norms:
            for name in ("attn_q_norm", "attn_k_norm"):
                weights.add_vector(f"{layer}.{name}.weight", config.head)
        _declare_attention(config, of, layer)
        _declare_feed_forward(config, of, layer)
        weights.add_matrix(f"{layer}.attn_output", width, config.heads * config.head)
        weights.add_matrix(f"{layer}.ffn_down", width, config.hidden)


def _declare_attention(config: DecoderConfig, of: Description, layer: str) -> None:
    weights = of.weights
    if not of.neighbours and weights.has(f"{layer}.attn_qkv.weight"):
        widths = (config.heads * config.head, config.kv_heads * config.head, config.kv_heads * config.head)
        weights.add_matrix(f"{layer}.attn_qkv", sum(widths), config.width)
        weights.add_attention([Projection(f"{layer}.attn_qkv", widths)])
        return
    rows = {"attn_q": config.heads, "attn_k": config.kv_heads, "attn_v": config.kv_heads}
    parts = [
        (f"{layer}.{name}", heads * config.head, _order(config, of, heads) if name != "attn_v" else None)
        for name, heads in rows.items()
    ]
    weights.add_attention(weights.join(parts, config.width))


def _declare_feed_forward(config: DecoderConfig, of: Description, layer: str) -> None:
    weights = of.weights
    if weights.has(f"{layer}.ffn_gate.weight"):
        gate_up = [(f"{layer}.{name}", config.hidden, None) for name in ("ffn_gate", "ffn_up")]
        weights.add_feed_forward(weights.join(gate_up, config.width))
    else:
        weights.add_matrix(f"{layer}.ffn_up", 2 * config.hidden, config.width)
        weights.add_feed_forward([Projection(f"{layer}.ffn_up", (config.hidden, config.hidden))])


def _order(config: DecoderConfig, of: Description, heads: int) -> Array | None:
    """The order of rows that brings rotated neighbours into halves; None where they are halves already."""
    if not of.neighbours:
        return None
    half, width = config.layers[0].rotary.width // 2, config.layers[0].rotary.width
    within = np.concatenate([np.arange(width).reshape(half, 2).T.reshape(-1), np.arange(width, config.head)])
    return (np.arange(heads)[:, None] * config.head + within).reshape(-1)


__all__ = ["Description", "Family", "declare_decoder", "decoder_config", "rotary_of"]
