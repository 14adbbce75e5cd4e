"""Llama 2 and 3, SmolLM2, Mistral, and what else is stored as `llama`."""

from anyshape.llm.families.base import Family, declare_decoder, decoder_config

LLAMA = Family("llama", decoder_config, declare_decoder, ("llama", "mistral"), neighbours=True, aliases=("mistral",))
