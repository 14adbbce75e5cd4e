"""Phi-3: q, k and v in one tensor, gate and up in another; long contexts by factors of the frequencies."""

import math
from dataclasses import replace

from anyshape.llm.decoder import DecoderConfig, LayerKind
from anyshape.llm.families.base import Description, Family, declare_decoder, decoder_config


def _configure(of: Description) -> DecoderConfig:
    config = decoder_config(of)
    rotary = config.layers[0].rotary
    original = of.integer("rope.scaling.original_context_length", config.context)
    both = [of.weights.values(f"rope_factors_{kind}.weight", rotary.width // 2) for kind in ("short", "long")]
    factors = both[config.context > original]
    if factors is None:
        return config
    growth = config.context / original
    usual = math.sqrt(1.0 + math.log(growth) / math.log(original)) if growth > 1.0 else 1.0
    scaled = replace(
        rotary,
        factors=tuple(map(float, factors)),
        attention_factor=of.number("rope.scaling.attn_factor", usual),
    )
    return replace(config, layers=tuple(LayerKind(scaled, kind.window) for kind in config.layers))


def _declare(config: DecoderConfig, of: Description) -> None:
    declare_decoder(config, of, fused=True)


PHI3 = Family("phi3", _configure, _declare, ("phi3",))
