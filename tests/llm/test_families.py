"""Every family against `transformers` on small random weights: logits, and the same with a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers

from anyshape.cli.dispatch import load_subcommand
from anyshape.llm import checkpoint
from anyshape.llm.families import Description, family_of
from anyshape.llm.families.checkpoints import described
from anyshape.llm.gguf import StoredTensor
from anyshape.llm.key_cache import CacheType
from anyshape.llm.metadata import Metadata, Value
from anyshape.llm.model import Model
from anyshape.llm.weights import WeightForms
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
    model.save_pretrained(folder, max_shard_size="60KB")
    assert (folder / "model.safetensors.index.json").exists()
    yield model.double(), Model.open(folder, Options(threads=1), logits="all", cache="f32")


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
    """Of Phi-3, the logits of a position depend on how many there were: beyond 16 all are rotated otherwise."""
    _, ours = pair
    tokens = np.random.default_rng(2).integers(3, 97, (1, 23))
    session = ours.session(capacity=23)
    for start, end in ((0, 7), (7, 8), (8, 9), (9, 14), (14, 22), (22, 23)):
        whole = ours.session(capacity=64).read(tokens[:, :end])
        np.testing.assert_allclose(session.read(tokens[:, start:end]), whole[:, start:], rtol=0, atol=1e-4)


def test_short_texts(pair: tuple[Any, Model]) -> None:
    """Of so few positions that Phi-3 rotates them by its short factors, and by one token more."""
    theirs, ours = pair
    tokens = np.random.default_rng(4).integers(3, 97, (1, 17))
    session = ours.session(capacity=17)
    for start, end in ((0, 16), (16, 17)):
        expected = expected_logits(theirs, tokens[:, :end])[:, start:]
        np.testing.assert_allclose(session.read(tokens[:, start:end]), expected, rtol=1e-4, atol=2e-4)
    session.keep(5)  # and back
    expected = expected_logits(theirs, tokens[:, :9])[:, 5:]
    np.testing.assert_allclose(session.read(tokens[:, 5:9]), expected, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("cache", "bytes_", "error"), [("f16", 2, 1e-5), ("int8", 1, 5e-3)])
def test_narrow_caches(pair: tuple[Any, Model], cache: CacheType, bytes_: int, error: float, tmp_path: Path) -> None:
    """NMSE of logits against f64, for random weights, whose attention is far sharper than that of models: there it is 1e-9 and 3e-7."""
    theirs, _ = pair
    theirs.float().save_pretrained(tmp_path)
    theirs.double()
    ours = Model.open(tmp_path, Options(threads=1), logits="all", cache=cache)
    heads = ours.config.kv_heads * len(ours.config.layers) * 2
    assert ours.token_bytes == heads * (ours.config.head * bytes_ + (4 if cache == "int8" else 0))
    tokens = np.random.default_rng(3).integers(3, 97, (1, 25))
    session = ours.session(capacity=32)
    got = np.concatenate([session.read(tokens[:, a:b]) for a, b in ((0, 20), (20, 21), (21, 22), (22, 25))], axis=1)
    expected = expected_logits(theirs, tokens)
    assert np.square(got - expected).sum() <= error * np.square(expected - expected.mean()).sum()


def test_architectures_that_are_not_known_are_named_with_those_that_are(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=11)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(FileFormatError, match=r"(?s)'gpt2'.*llama, mistral, qwen2, qwen3, gemma3_text, phi3"):
        Model.open(tmp_path)


def test_other_names(tmp_path: Path) -> None:
    """`mistral` as an architecture of GGUF files, and frequencies that older converters stored."""
    keys, tensors = described_llama(tmp_path)
    names = {name.replace("llama.", "mistral."): value for name, value in keys.items()}
    forms = WeightForms({**tensors, "blk.0.attn_rot_embd.weight": tensors["output_norm.weight"]}, "a file")
    family = family_of("mistral", "a file")
    description = Description(
        Metadata("a file", {**names, "general.architecture": "mistral"}), forms, family.neighbours
    )
    config = family.configure(description)
    family.declare(config, description)
    assert (config.architecture, config.heads, forms.unused()) == ("mistral", 4, [])


def described_llama(folder: Path) -> tuple[dict[str, Value], dict[str, StoredTensor]]:
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SMALL)).save_pretrained(folder)
    metadata, tensors = described(checkpoint.open(folder), "llama")
    return dict(metadata), dict(tensors)


@pytest.mark.parametrize("name", ["llama 3", "phi 3"])
def test_a_folder_goes_on_with_a_text(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`anyshape generate FOLDER`, with its tokenizer, writes what transformers writes."""
    kind, changes = CONFIGS[name]
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**{**_SMALL, **changes, "eos_token_id": None})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0)
    model.save_pretrained(tmp_path, max_shard_size="60KB")
    words = {word: number for number, word in enumerate(["<unk>", *(f"▁w{n}" for n in range(1, 97))])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompt = [5, 17, 60]
    with torch.no_grad():
        whole = model.double().generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)[0].tolist()
    arguments = [str(tmp_path), "--prompt", " ".join(f"w{n}" for n in prompt), "--max-tokens", "8", "--cache", "f32"]
    load_subcommand("generate").main([*arguments, "--threads", "1"], standalone_mode=False)
    assert capsys.readouterr().out.split() == [f"w{n}" for n in whole[3:]]
