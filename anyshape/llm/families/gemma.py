"""Gemma 3: local layers with a sliding window, every sixth global; norms before and after, and of q and k."""

import math
from dataclasses import replace

from anyshape.llm.config import DecoderConfig, LayerKind, Rotary
from anyshape.llm.families.base import Description, Family, declare_decoder, decoder_config

_LOCAL_BASE = 10000.0
_PATTERN = 6
"""Layers of a group, of which the last is global."""
_LAYERS_27B = 62


def _configure(of: Description) -> DecoderConfig:
    common = decoder_config(of)
    whole = common.layers[0].rotary
    local = LayerKind(
        Rotary(of.number("rope.freq_base_swa", _LOCAL_BASE), whole.width), of.integer("attention.sliding_window")
    )
    layers = tuple(
        LayerKind(whole) if number % _PATTERN == _PATTERN - 1 else local for number in range(len(common.layers))
    )
    # The largest model alone scales scores by the width of a state divided by its heads, and no file says so.
    size = common.width / common.heads if len(layers) == _LAYERS_27B else common.head
    return replace(
        common,
        layers=layers,
        attention_scale=of.number("attention.scale", 1.0 / math.sqrt(size)),
        activation="gelu_tanh",
        head_norms=True,
        post_norms=True,
        embedding_scale=math.sqrt(common.width),
    )


GEMMA3 = Family("gemma3", _configure, declare_decoder, ("gemma3_text",))
