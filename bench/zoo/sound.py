"""Speech and other sequences: Whisper, recurrent stacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import WhisperConfig, WhisperForConditionalGeneration

from bench.zoo.entry import Entry, Inputs, Outputs


def whisper(**sizes: Any) -> nn.Module:
    config = WhisperConfig(pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, **sizes)
    return Outputs(WhisperForConditionalGeneration(config), "logits", use_cache=False)


def spectrogram(module: nn.Module, batch: int, length: int) -> Inputs:
    """Whisper's whole window, and `length` tokens of its text."""
    config: Any = module.model.config  # type: ignore[union-attr]
    return {
        "input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions),
        "decoder_input_ids": torch.randint(3, config.vocab_size, (batch, length)),
    }


class Recurrent(nn.Module):
    """Layers of LSTM, then of GRU in both directions, then classes of each step: x [b, s, features] -> [b, s, classes]."""

    def __init__(self, features: int, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, layers, batch_first=True)
        self.gru = nn.GRU(width, width, 1, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(2 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.gru(self.lstm(x)[0])[0])


def steps(module: nn.Module, batch: int, length: int) -> Inputs:
    """A batch of sequences."""
    return {"x": torch.randn(batch, length, module.lstm.input_size)}  # type: ignore[union-attr,arg-type]


SMALL_WHISPER = {
    "vocab_size": 61,
    "num_mel_bins": 8,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_source_positions": 20,
    "max_target_positions": 64,
}

ENTRIES = (
    Entry("Whisper-tiny", lambda: whisper(**SMALL_WHISPER), whisper, spectrogram, size="tokens", real_size=32),
    Entry("LSTM and GRU", lambda: Recurrent(8, 16, 2), lambda: Recurrent(80, 256, 3), steps),
)

__all__ = ["ENTRIES"]
