"""Small models from `transformers` with random weights, at many batches and lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTModel,
)

from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import check, compiled

SIZES = (1, 2, 7, 33)
SHAPES = [*((1, n) for n in SIZES), *((n, 3) for n in SIZES), (2, 7), (7, 33)]
VOCABULARY = 61


def masked_tokens(batch: int, length: int) -> dict[str, Any]:
    """Tokens, and a mask whose row i lacks its last i tokens."""
    torch.manual_seed(100 * batch + length)
    lengths = (length - torch.arange(batch)).clamp(min=1)
    return {
        "input_ids": torch.randint(0, VOCABULARY, (batch, length)),
        "attention_mask": (torch.arange(length) < lengths[:, None]).long(),
    }


def gpt2() -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    )


def bert() -> nn.Module:
    return BertModel(
        BertConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
        )
    )


def llama() -> nn.Module:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            use_cache=False,
        )
    )


@pytest.fixture(scope="module", params=[gpt2, bert, llama], ids=["gpt2", "bert", "llama"])
def language_model(request: pytest.FixtureRequest) -> tuple[CompiledModule, nn.Module]:
    torch.manual_seed(0)
    module: nn.Module = request.param().eval()
    return compiled(module, **masked_tokens(2, 5)), module


@pytest.mark.parametrize(("batch", "length"), SHAPES)
def test_language_model(language_model: tuple[CompiledModule, nn.Module], batch: int, length: int) -> None:
    program, module = language_model
    check(program, module, **masked_tokens(batch, length))


def test_two_layers_share_their_kernels(language_model: tuple[CompiledModule, nn.Module]) -> None:
    report = language_model[0].report()
    assert report.kernels < report.launches


@pytest.mark.parametrize("make", [gpt2, llama])
def test_without_a_mask(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module = make().eval()
    tokens = masked_tokens(2, 5)["input_ids"]
    program = compiled(module, input_ids=tokens)
    for batch, length in SHAPES:
        check(program, module, input_ids=masked_tokens(batch, length)["input_ids"])


def test_vision_transformer() -> None:
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4
    )
    module = ViTModel(config).eval()
    program = compiled(module, pixel_values=torch.randn(2, 3, 16, 16))
    for batch in SIZES:
        check(program, module, pixel_values=torch.randn(batch, 3, 16, 16))
