"""Pre-norm transformers: normalisations are computed by the products that read them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel, ViTConfig, ViTModel

from anyshape.driver import build
from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import compiled


def gpt2() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = GPT2Config(
        vocab_size=61, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    return GPT2Model(config), {"input_ids": torch.randint(0, 61, (2, 5))}


def vit() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4
    )
    return ViTModel(config, add_pooling_layer=False), {"pixel_values": torch.randn(3, 3, 16, 16)}


def llama() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = LlamaConfig(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return LlamaModel(config), {"input_ids": torch.randint(0, 61, (2, 5))}


@pytest.mark.parametrize(
    ("make", "saved"),
    [(gpt2, 3), (vit, 3), (llama, 0)],  # a norm of Llama has two or three products behind it
    ids=["gpt2", "vit", "llama"],
)
def test_launches(
    make: Callable[[], tuple[nn.Module, dict[str, Any]]], saved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every norm but the first (behind the embeddings, which are a result beside it) and the last (of the whole model)."""
    torch.manual_seed(0)
    module, inputs = make()
    programs: list[CompiledModule] = []
    for reason in (None, "no"):
        monkeypatch.setattr(build, "why_no_prologue", lambda *_, reason=reason: reason)
        programs.append(compiled(module, **inputs))
    fused, apart = programs
    assert apart.report().launches - fused.report().launches == saved
    ours, theirs = (program(**inputs).last_hidden_state for program in programs)
    assert torch.equal(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(ours, module(**inputs).last_hidden_state, rtol=1e-4, atol=1e-5)
