"""Images out: the parts of Stable Diffusion."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import nn

from bench.zoo.entry import Entry, Inputs


class Unet(nn.Module):
    """(sample [b, c, h, w], timestep [b], states [b, n, k]) -> noise [b, c, h, w]."""

    def __init__(self, model: UNet2DConditionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        return self.model(sample, timestep, encoder_hidden_states=states).sample


class Decoder(nn.Module):
    """latents [b, c, h, w] -> image [b, 3, 8h, 8w] (4h, 4w of the small one)."""

    def __init__(self, model: AutoencoderKL) -> None:
        super().__init__()
        self.model = model

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.model.decode(latents).sample


def unet(**sizes: Any) -> nn.Module:
    blocks = ("CrossAttnDownBlock2D", "DownBlock2D"), ("UpBlock2D", "CrossAttnUpBlock2D")
    return Unet(UNet2DConditionModel(down_block_types=blocks[0], up_block_types=blocks[1], **sizes))


def noisy(module: nn.Module, batch: int, side: int) -> Inputs:
    """Latents a half wider than high, a step for each, seven states of a text."""
    config: Any = module.model.config  # type: ignore[union-attr]
    return {
        "sample": torch.randn(batch, config.in_channels, side, side + side // 4 * 2),
        "timestep": torch.randint(0, 1000, (batch,)),
        "states": torch.randn(batch, 7, config.cross_attention_dim),
    }


def vae(**sizes: Any) -> nn.Module:
    depth = len(sizes["block_out_channels"])
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * depth, "up_block_types": ("UpDecoderBlock2D",) * depth}
    return Decoder(AutoencoderKL(**blocks, **sizes))


def latents(module: nn.Module, batch: int, side: int) -> Inputs:
    """Latents a half wider than high."""
    return {"latents": torch.randn(batch, module.model.config.latent_channels, side, side + side // 2)}  # type: ignore[union-attr]


SMALL_UNET = {
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "cross_attention_dim": 16,
    "attention_head_dim": 4,
    "norm_num_groups": 8,
}
REAL_UNET = {
    "block_out_channels": (96, 192),
    "layers_per_block": 2,
    "cross_attention_dim": 256,
    "attention_head_dim": 8,
}
SMALL_VAE = {"block_out_channels": (16, 32), "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 8}
REAL_VAE = {"block_out_channels": (64, 128, 128), "layers_per_block": 1, "latent_channels": 4}

ENTRIES = (
    Entry(
        "Stable Diffusion UNet",
        lambda: unet(**SMALL_UNET),
        lambda: unet(**REAL_UNET),
        noisy,
        size="side",
        sizes=(8, 4, 10, 16),
        example=12,
        real_size=32,
        tolerance=1e-4,
    ),
    Entry(
        "Stable Diffusion VAE decoder",
        lambda: vae(**SMALL_VAE),
        lambda: vae(**REAL_VAE),
        latents,
        size="side",
        sizes=(8, 3, 5, 16),
        example=6,
        real_size=24,
        tolerance=1e-4,
    ),
)

__all__ = ["ENTRIES"]
