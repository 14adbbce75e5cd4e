"""`generate` of `transformers` with a compiled `forward`: tokens as eager's, few graphs, none for a longer cache."""

from __future__ import annotations

from collections.abc import Sequence
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


class Counting:
    """A model that generates, how many graphs its compiled `forward` is, and the tokens that it says as it is."""

    def __init__(self, name: str, lengths: Sequence[int], cache: str | None = None, **options: Any) -> None:
        self._model, self._cache = model_called(name), cache
        self.graphs = 0
        self.prompts = [torch.randint(2, VOCABULARY, (1, length)) for length in lengths]
        self.expected = [self._generated(prompt) for prompt in self.prompts]
        self._model.forward = torch.compile(self._model.forward, backend=self._backend, **options)

    def _backend(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return backend(graph, inputs)

    def _generated(self, prompt: torch.Tensor) -> torch.Tensor:
        return self._model.generate(  # pyright: ignore[reportCallIssue, reportReturnType]
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TOKENS, do_sample=False,
            cache_implementation=self._cache,
        )  # fmt: skip

    def graphs_more_for(self, number: int) -> int:
        """What a prompt, which gets its tokens, adds to the graphs."""
        before = self.graphs
        assert torch.equal(self._generated(self.prompts[number]), self.expected[number])
        return self.graphs - before


@pytest.mark.parametrize(("name", "cache"), [("llama", "static"), ("gpt2", None), ("qwen2", None)])
def test_generate(name: str, cache: str | None) -> None:
    """A prompt and a longer one: the second needs nothing new, however long the cache is."""
    model = Counting(name, (7, 11), cache, dynamic=True)
    assert len(set(model.expected[0].flatten().tolist())) > 5
    assert model.graphs_more_for(0) <= 4
    assert [model.graphs_more_for(number) for number in (1, 0)] == [0, 0]
    assert not JOURNAL.report().remarks


def test_generate_in_pytorchs_own_mode() -> None:
    """Without `dynamic=True` TorchDynamo takes a size that it sees first for a constant, and hands over another graph at the second.

    So there are a graph for the first prompt, one for its cache, one for caches of any length; the second length of a prompt makes
    one for prompts of any length, which is the last. A back end gets numbers where TorchDynamo decided so, and its guards hold for
    those alone: only the user can say otherwise, by `dynamic=True` or `mark_dynamic`. A prompt of one token makes two more: 1 is never
    taken for a size like others.
    """
    model = Counting("qwen2", (7, 11, 9, 5, 1))
    assert [model.graphs_more_for(number) for number in range(5)] == [3, 1, 0, 0, 2]
    assert not JOURNAL.report().remarks
