"""Qwen 2 and 2.5, with biases on q, k and v; Qwen 3, with norms of q and k instead."""

from dataclasses import replace

from anyshape.llm.config import DecoderConfig
from anyshape.llm.families.base import Description, Family, declare_decoder, decoder_config


def _configure_qwen3(of: Description) -> DecoderConfig:
    return replace(decoder_config(of), head_norms=True)


QWEN2 = Family("qwen2", decoder_config, declare_decoder, ("qwen2",))
QWEN3 = Family("qwen3", _configure_qwen3, declare_decoder, ("qwen3",))
