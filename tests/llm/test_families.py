"""Every family against `transformers` on small random weights: logits, and the same with a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from anyshape.llm.model import Model
from anyshape.support.errors import FileFormatError
from anyshape.support.options import Options

_SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
_LONG = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
    "short_factor": [1.0 + 0.1 * i for i in range(8)], "long_factor": [1.5 + 0.5 * i for i in range(8)],
}  # fmt: skip
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama 2": ("Llama", {"num_key_value_heads": 4}),
    "llama 3": ("Llama", {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {"sliding_window": 6, "head_dim": 24}),
    "qwen 2": ("Qwen2", {"tie_word_embeddings": False}),
    "qwen 3": ("Qwen3", {"head_dim": 24}),
    "gemma 3": (
        "Gemma3Text",
        {"num_hidden_layers": 7, "head_dim": 24, "sliding_window": 5, "query_pre_attn_scalar": 20},
    ),
    "phi 3": ("Phi3", {"rope_parameters": _LONG, "original_max_position_embeddings": 16}),
}


@pytest.fixture(params=list(CONFIGS), scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Model]]:
    """PyTorch's model in f64, and ours of the folder that it saves."""
    name, changes = CONFIGS[request.param]
    config = getattr(transformers, f"{name}Config")(**{**_SMALL, **changes})
    torch.manual_seed(0)
    class_name = f"{name.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for each, parameter in model.named_parameters():
            parameter.normal_(1.0 if each.endswith("norm.weight") else 0.0, 0.15)
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    yield model.double(), Model.open(folder, Options(threads=1), logits="all")


def expected_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(tokens)).logits.numpy()


def test_logits(pair: tuple[Any, Model]) -> None:
    theirs, ours = pair
    tokens = np.random.default_rng(1).integers(3, 97, (2, 19))
    np.testing.assert_allclose(
        ours.session(batch=2).read(tokens), expected_logits(theirs, tokens), rtol=1e-4, atol=2e-4
    )


def test_a_cache_changes_nothing(pair: tuple[Any, Model]) -> None:
    _, ours = pair
    tokens = np.random.default_rng(2).integers(3, 97, (1, 23))
    whole = ours.session(capacity=64).read(tokens)
    session = ours.session(capacity=23)
    parts = [session.read(tokens[:, start:end]) for start, end in ((0, 7), (7, 8), (8, 9), (9, 14), (14, 22), (22, 23))]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-4)


def test_architectures_that_are_not_known_are_named_with_those_that_are(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=11)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(FileFormatError, match=r"(?s)'gpt2'.*llama, mistral, qwen2, qwen3, gemma3_text, phi3"):
        Model.open(tmp_path)
