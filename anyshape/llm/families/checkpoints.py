"""Models as `transformers` saves them, described in the words of GGUF files, so that a family is defined once.

| `config.json` | key |
|---|---|
| `num_hidden_layers`, `hidden_size`, `intermediate_size` | `block_count`, `embedding_length`, `feed_forward_length` |
| `max_position_embeddings`, `rms_norm_eps` | `context_length`, `attention.layer_norm_rms_epsilon` |
| `num_attention_heads`, `num_key_value_heads`, `head_dim` | `attention.head_count`, `.head_count_kv`, `.key_length` |
| `sliding_window`, unless `use_sliding_window` is false | `attention.sliding_window` |
| `query_pre_attn_scalar` a | `attention.scale` = a^−½ |
| `rope_theta`, `rope_scaling` (now `rope_parameters`) | `rope.freq_base`, `rope.scaling.…`; frequency factors become tensors |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from anyshape.llm.checkpoint import Checkpoint
from anyshape.llm.gguf import StoredTensor
from anyshape.llm.metadata import Metadata, Value
from anyshape.support.errors import FileFormatError

_NAMES: Mapping[str, str] = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER_NAMES: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA_LAYER_NAMES: Mapping[str, str] = {
    **_LAYER_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_GEMMA = "gemma3"
_INTEGERS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
}


def described(checkpoint: Checkpoint, architecture: str) -> tuple[Metadata, Mapping[str, StoredTensor]]:
    """The keys and tensors of a folder as a GGUF file of that architecture would have them.

    Raises:
        FileFormatError: the folder asks for what is not known, such as another way to scale positions.
    """
    of = _Folder(checkpoint, architecture)
    values, tensors = of.keys(), of.tensors()
    return Metadata(str(checkpoint.path), values), tensors


class _Folder:
    def __init__(self, checkpoint: Checkpoint, architecture: str) -> None:
        self._config, self._tensors = checkpoint.metadata, checkpoint.tensors
        self._path = str(checkpoint.path)
        self._architecture = architecture
        self._made: dict[str, StoredTensor] = {}

    def keys(self) -> dict[str, Value]:
        config, name = self._config, self._architecture
        values: dict[str, Value] = {"general.architecture": name}
        for key, target in _INTEGERS.items():
            if key in config:
                values[f"{name}.{target}"] = config.integer(key)
        values[f"{name}.attention.layer_norm_rms_epsilon"] = config.number("rms_norm_eps")
        if "sliding_window" in config and config.flag("use_sliding_window", True):
            values[f"{name}.attention.sliding_window"] = config.integer("sliding_window")
        if "query_pre_attn_scalar" in config:
            values[f"{name}.attention.scale"] = config.number("query_pre_attn_scalar") ** -0.5
        self._rotary(values)
        return values

    def tensors(self) -> dict[str, StoredTensor]:
        renamed = [replace(self._stored(tensor), name=self._name(tensor)) for tensor in self._tensors.values()]
        tensors = {tensor.name: tensor for tensor in renamed}
        if self._config.flag("tie_word_embeddings", False):
            tensors.pop("output.weight", None)
        return {**tensors, **self._made}

    def _name(self, tensor: StoredTensor) -> str:
        """The tensor's name in a GGUF file; its own where there is none, which is an error then if nothing uses it."""
        found = _LAYER.fullmatch(tensor.name)
        if found is None:
            stem, _, kind = tensor.name.rpartition(".")
            return f"{_NAMES[stem]}.{kind}" if stem in _NAMES else tensor.name
        names = _GEMMA_LAYER_NAMES if self._architecture == _GEMMA else _LAYER_NAMES
        number, stem, kind = found.groups()
        return f"blk.{number}.{names[stem]}.{kind}" if stem in names else tensor.name

    def _stored(self, tensor: StoredTensor) -> StoredTensor:
        """Gemma's norms are stored as what they differ from 1 by."""
        if self._architecture == _GEMMA and tensor.name.endswith("norm.weight"):
            return _tensor_of(tensor.name, tensor.dequantized() + np.float32(1.0))
        return tensor

    def _rotary(self, values: dict[str, Value]) -> None:
        name, config = self._architecture, self._config
        places = ("rope_parameters.full_attention.", "rope_parameters.", "rope_scaling.", "")

        def find(key: str) -> Any:
            return next((config[place + key] for place in places if place + key in config), None)

        values[f"{name}.rope.freq_base"] = find("rope_theta") or 10000.0
        local = config.get("rope_parameters.sliding_attention.rope_theta", config.get("rope_local_base_freq"))
        if local is not None:
            values[f"{name}.rope.freq_base_swa"] = local
        head = values.get(f"{name}.attention.key_length") or config.integer("hidden_size") // max(
            1, config.integer("num_attention_heads")
        )
        assert isinstance(head, int)
        width = int(head * (find("partial_rotary_factor") or 1.0))
        values[f"{name}.rope.dimension_count"] = width
        kind = find("rope_type") or find("type") or "default"
        if kind == "linear":
            values[f"{name}.rope.scaling.type"] = "linear"
            values[f"{name}.rope.scaling.factor"] = find("factor")
        elif kind == "llama3":
            wanted = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
            self._add("rope_freqs.weight", llama3_factors(find("rope_theta"), width, *map(find, wanted)))
        elif kind == "longrope":
            values[f"{name}.rope.scaling.original_context_length"] = find("original_max_position_embeddings")
            for length in ("long", "short"):
                self._add(f"rope_factors_{length}.weight", np.asarray(find(f"{length}_factor")))
            if find("attention_factor") is not None:
                values[f"{name}.rope.scaling.attn_factor"] = find("attention_factor")
        elif kind != "default":
            raise FileFormatError(
                "positions are scaled in a way that is not known", where=self._path, got=repr(kind),
                expected="default, linear, llama3 or longrope",
            )  # fmt: skip

    def _add(self, name: str, values: Any) -> None:
        self._made[name] = _tensor_of(name, np.asarray(values, np.float32))


def llama3_factors(base: float, width: int, factor: float, low: float, high: float, original: float) -> Any:
    """What Llama 3 divides each frequency f by: `factor` where a turn is longer than original/low positions, 1 where it is shorter
    than original/high, and between them 1/((1 − m)/factor + m) with m = (original·f/2π − low)/(high − low)."""
    rates = base ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    turn = 2 * math.pi / rates
    mix = np.clip((original / turn - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - mix) / factor + mix)


def _tensor_of(name: str, values: Any) -> StoredTensor:
    data = np.ascontiguousarray(values, np.float32).reshape(1, -1).view(np.uint8)
    return StoredTensor(name, values.shape, "F32", data)


__all__ = ["described", "llama3_factors"]
