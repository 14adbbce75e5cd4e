"""Text: encoders, decoders with and without their caches, translation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    RobertaConfig,
    RobertaModel,
)

from bench.zoo.entry import Entry, Inputs, Outputs


def vocabulary(module: nn.Module) -> int:
    """How many tokens the model knows."""
    return int(module.model.config.vocab_size)  # type: ignore[union-attr]


def masked_tokens(module: nn.Module, batch: int, length: int) -> Inputs:
    """Tokens, and a mask whose row i lacks its last i tokens."""
    lengths = (length - torch.arange(batch)).clamp(min=1)
    return {
        "input_ids": torch.randint(3, vocabulary(module), (batch, length)),
        "attention_mask": (torch.arange(length) < lengths[:, None]).long(),
    }


def tokens(module: nn.Module, batch: int, length: int) -> Inputs:
    """Tokens alone."""
    return {"input_ids": torch.randint(3, vocabulary(module), (batch, length))}


def bert(**sizes: int) -> nn.Module:
    return Outputs(BertModel(BertConfig(**sizes)), "last_hidden_state", "pooler_output")


def roberta(**sizes: int) -> nn.Module:
    return Outputs(RobertaModel(RobertaConfig(**sizes)), "last_hidden_state", "pooler_output")


def gpt2(**sizes: int) -> nn.Module:
    return Outputs(GPT2LMHeadModel(GPT2Config(**sizes)), "logits", use_cache=False)


class WithCache(nn.Module):
    """A decoder and the keys and values of `layers` layers: tokens [b, s] behind p positions; returns logits and the grown caches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor]) -> Any:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            cache.update(key, value, layer)
        results = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        grown = results.past_key_values.layers
        return results.logits, [layer.keys for layer in grown], [layer.values for layer in grown]


def llama(**sizes: int) -> nn.Module:
    return WithCache(LlamaForCausalLM(LlamaConfig(**sizes)))


def cached_tokens(module: nn.Module, batch: int, past: int) -> Inputs:
    """Three tokens behind `past` positions."""
    config: Any = module.model.config  # type: ignore[union-attr]
    head = config.hidden_size // config.num_attention_heads

    def caches() -> list[torch.Tensor]:
        shape = (batch, config.num_key_value_heads, past, head)
        return [torch.randn(shape) for _ in range(config.num_hidden_layers)]

    ids = torch.randint(3, config.vocab_size, (batch, 3))
    return {"input_ids": ids, "keys": caches(), "values": caches()}  # type: ignore[dict-item]


def marian(**sizes: int) -> nn.Module:
    config = MarianConfig(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **sizes)
    return Outputs(MarianMTModel(config), "logits", use_cache=False)


def translated(module: nn.Module, batch: int, length: int) -> Inputs:
    """A sentence, and two thirds as many tokens of its translation."""
    return masked_tokens(module, batch, length) | {
        "decoder_input_ids": torch.randint(3, vocabulary(module), (batch, max(2 * length // 3, 1)))
    }


SMALL = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SMALL_TRANSLATION = {
    "vocab_size": 61,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
REAL_TRANSLATION = {
    "vocab_size": 58101,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "max_position_embeddings": 512,
}
REAL_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 2048,
}

ENTRIES = (
    Entry("BERT", lambda: bert(**SMALL), bert, masked_tokens),
    Entry(
        "RoBERTa",
        lambda: roberta(**SMALL),
        lambda: roberta(vocab_size=50265, max_position_embeddings=514),
        masked_tokens,
    ),
    Entry("GPT-2", lambda: gpt2(vocab_size=61, n_positions=64, n_embd=32, n_layer=2, n_head=4), gpt2, tokens),
    Entry(
        "Llama with its cache",
        lambda: llama(**SMALL, num_key_value_heads=2),
        lambda: llama(**REAL_LLAMA),
        cached_tokens,
        size="cached positions",
    ),
    Entry(
        "Marian",
        lambda: marian(**SMALL_TRANSLATION),
        lambda: marian(**REAL_TRANSLATION),
        translated,
        sizes=(2, 3, 9, 33),
    ),
)

__all__ = ["ENTRIES"]
