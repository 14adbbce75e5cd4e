"""`generate` of `transformers` with a compiled `forward`: tokens as eager's, few graphs, none for a longer cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from anyshape.driver.dynamo import backend
from anyshape.driver.remarks import JOURNAL

# PyTorch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

VOCABULARY, TOKENS = 89, 24
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY, "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, **COMMON,
}  # fmt: skip


def model_called(name: str) -> PreTrainedModel:
    torch.manual_seed(0)
    match name:
        case "llama":
            model = LlamaForCausalLM(LlamaConfig(**SMALL))
        case "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**SMALL))
        case _:
            model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=4, n_positions=64, **COMMON))
    return model.eval()


@pytest.mark.parametrize(("name", "cache"), [("llama", "static"), ("gpt2", "dynamic"), ("qwen2", "dynamic")])
def test_generate(name: str, cache: str) -> None:
    """A prompt and a longer one: the second needs nothing new, however long the cache is."""
    model = model_called(name)
    prompts = [torch.randint(2, VOCABULARY, (1, length)) for length in (7, 11)]
    graphs: list[int] = []

    def counting(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return backend(graph, inputs)

    def generated(prompt: torch.Tensor) -> torch.Tensor:
        return model.generate(  # pyright: ignore[reportCallIssue, reportReturnType]
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TOKENS, do_sample=False,
            cache_implementation=cache if cache == "static" else None,
        )  # fmt: skip

    expected = [generated(prompt) for prompt in prompts]
    assert len(set(expected[0].flatten().tolist())) > 5
    model.forward = torch.compile(model.forward, backend=counting, dynamic=True)
    for prompt, tokens in zip(prompts, expected, strict=True):
        assert torch.equal(generated(prompt), tokens)
        assert len(graphs) <= 4
    first = len(graphs)
    assert torch.equal(generated(prompts[0]), expected[0]) and len(graphs) == first
    assert not JOURNAL.report().remarks
