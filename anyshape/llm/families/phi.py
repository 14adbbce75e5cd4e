"""Phi-3: q, k and v in one tensor, gate and up in another; beyond the context of its training, all frequencies have other factors."""

import math
from dataclasses import replace

from anyshape.llm.config import DecoderConfig, LayerKind
from anyshape.llm.families.base import Description, Family, declare_decoder, decoder_config


def _configure(of: Description) -> DecoderConfig:
    config = decoder_config(of)
    rotary = config.layers[0].rotary
    original = of.integer("rope.scaling.original_context_length", config.context)
    short, long = (
        None if values is None else tuple(map(float, values))
        for values in (
            of.weights.values(f"rope_factors_{kind}.weight", rotary.width // 2) for kind in ("short", "long")
        )
    )
    growth = config.context / original
    if short is None or (long is None and growth > 1.0):
        return config
    usual = math.sqrt(1.0 + math.log(growth) / math.log(original)) if growth > 1.0 else 1.0
    scaled = replace(rotary, factors=short, attention_factor=of.number("rope.scaling.attn_factor", usual))
    if growth > 1.0:
        scaled = replace(scaled, long_factors=long, original=original)
    return replace(config, layers=tuple(LayerKind(scaled, kind.window) for kind in config.layers))


PHI3 = Family("phi3", _configure, declare_decoder, ("phi3",))
