"""Images: classifiers, a detector with pyramid outputs, image and text."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import interpolate
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPVisionConfig,
    CLIPVisionModel,
    ConvNextConfig,
    ConvNextForImageClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetBackbone,
    ResNetConfig,
    ResNetForImageClassification,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from bench.zoo.entry import Entry, Inputs, Outputs


def images(module: nn.Module, batch: int, side: int) -> Inputs:
    """Pictures that are a quarter wider than high."""
    return {"pixel_values": torch.randn(batch, 3, side, side + side // 4 // 4 * 4)}


def square_images(module: nn.Module, batch: int, side: int) -> Inputs:
    """Square pictures of the model's own side: the size is the batch."""
    side = module.model.config.image_size  # type: ignore[union-attr]
    return {"pixel_values": torch.randn(batch, 3, side, side)}


def resnet(**sizes: Any) -> nn.Module:
    return Outputs(ResNetForImageClassification(ResNetConfig(num_labels=10, **sizes)), "logits")


def mobilenet(**sizes: Any) -> nn.Module:
    return Outputs(
        MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=10, tf_padding=False, **sizes)), "logits"
    )


def convnext(**sizes: Any) -> nn.Module:
    return Outputs(ConvNextForImageClassification(ConvNextConfig(num_labels=10, **sizes)), "logits")


def vit(**sizes: Any) -> nn.Module:
    return Outputs(ViTForImageClassification(ViTConfig(num_labels=10, **sizes)), "logits")


def swin(**sizes: Any) -> nn.Module:
    return Outputs(SwinForImageClassification(SwinConfig(num_labels=10, **sizes)), "logits")


class Detector(nn.Module):
    """RetinaNet's shape: a ResNet, a feature pyramid, one head of classes and one of boxes on each level.

    pixel_values [b, 3, h, w] -> classes [b, positions of all levels, k], boxes [b, positions of all levels, 4].
    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.
    """

    def __init__(self, backbone: ResNetBackbone, width: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.lateral = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in backbone.channels)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in backbone.channels)
        self.classes, self.boxes = (
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, outputs, 3, padding=1))
            for outputs in (classes, 4)
        )

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = [
            lateral(x) for lateral, x in zip(self.lateral, self.backbone(pixel_values).feature_maps, strict=True)
        ]
        for level in range(len(features) - 1, 0, -1):
            finer = features[level - 1]
            features[level - 1] = finer + interpolate(features[level], size=finer.shape[-2:], mode="nearest")
        smooth = [conv(x) for conv, x in zip(self.smooth, features, strict=True)]
        classes, boxes = (
            torch.cat([head(x).flatten(2).transpose(1, 2) for x in smooth], 1) for head in (self.classes, self.boxes)
        )
        return classes.sigmoid(), boxes.exp()


def detector(width: int, **sizes: Any) -> nn.Module:
    config = ResNetConfig(out_features=["stage2", "stage3", "stage4"], **sizes)
    return Detector(ResNetBackbone(config), width, classes=20)


SMALL_TEXT = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
SMALL_VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}


class Clip(nn.Module):
    """(pixel_values [b, 3, s, s], input_ids [b, n], attention_mask) -> logits [b, b], embeddings of images and of texts."""

    def __init__(self, model: CLIPModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(**inputs)
        return results.logits_per_image, results.image_embeds, results.text_embeds


def clip(text: dict[str, int], vision: dict[str, int], projection: int) -> nn.Module:
    return Clip(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=projection)))


def images_and_texts(module: nn.Module, batch: int, length: int) -> Inputs:
    """As many texts of a length as pictures; the last token ends a text."""
    config: Any = module.model.config  # type: ignore[union-attr]
    side, last = config.vision_config.image_size, config.text_config.vocab_size - 1
    ids = torch.randint(3, last, (batch, length))
    ids[:, -1] = config.text_config.eos_token_id if config.text_config.eos_token_id <= last else last
    return {"pixel_values": torch.randn(batch, 3, side, side), "input_ids": ids, "attention_mask": torch.ones_like(ids)}


class Llava(nn.Module):
    """A picture before a text: pixel_values [b, 3, s, s], input_ids [b, n] -> logits of the text's tokens [b, n, v].

    Patches of CLIP's last layer but one go through two layers into the embeddings of a Llama. (The class of `transformers` walks the batch
    in Python, which fixes its size.) Source: Liu et al., Visual Instruction Tuning, 2023.
    """

    def __init__(self, vision: CLIPVisionModel, text: LlamaForCausalLM) -> None:
        super().__init__()
        self.vision = vision
        self.text = text
        self.projector = nn.Sequential(
            nn.Linear(vision.config.hidden_size, text.config.hidden_size),
            nn.GELU(),
            nn.Linear(text.config.hidden_size, text.config.hidden_size),
        )

    def forward(self, pixel_values: torch.Tensor, input_ids: torch.Tensor) -> torch.Tensor:
        states = self.vision(pixel_values, output_hidden_states=True).hidden_states
        picture = self.projector(states[-2][:, 1:])
        together = torch.cat([picture, self.text.get_input_embeddings()(input_ids)], 1)
        return self.text(inputs_embeds=together, use_cache=False).logits[:, picture.shape[1] :]


def llava(text: dict[str, int], vision: dict[str, int]) -> nn.Module:
    return Llava(CLIPVisionModel(CLIPVisionConfig(**vision)), LlamaForCausalLM(LlamaConfig(**text)))


def picture_before_text(module: nn.Module, batch: int, length: int) -> Inputs:
    """A picture and `length` tokens."""
    side: Any = module.vision.config.image_size  # type: ignore[union-attr]
    ids = torch.randint(3, module.text.config.vocab_size, (batch, length))  # type: ignore[union-attr]
    return {"pixel_values": torch.randn(batch, 3, side, side), "input_ids": ids}


SIDES = (32, 33, 47, 65)
SMALL_RESNET = {"embedding_size": 8, "hidden_sizes": [16, 16, 24, 32], "depths": [1, 1, 1, 1]}
REAL_LLAVA_TEXT = {
    "vocab_size": 32000,
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 1408,
}
REAL_LLAVA_VISION = {
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "image_size": 224,
    "patch_size": 16,
}

ENTRIES = (
    Entry("ViT", lambda: vit(**SMALL_VISION), vit, square_images, size="side", sizes=(16,), example=16, real_size=224),
    Entry(
        "Swin",
        lambda: swin(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
        swin,
        images,
        size="side",
        sizes=(32, 20, 24, 40),  # at 16, a window is the picture and none is shifted: a condition of the model's
        example=36,
        real_size=224,
    ),
    Entry(
        "CLIP",
        lambda: clip(SMALL_TEXT, SMALL_VISION, 16),
        lambda: clip({}, {}, 512),
        images_and_texts,
        sizes=(2, 3, 9, 33),
        real_size=77,
    ),
    Entry(
        "LLaVA-like",
        lambda: llava(SMALL_TEXT, SMALL_VISION),
        lambda: llava(REAL_LLAVA_TEXT, REAL_LLAVA_VISION),
        picture_before_text,
        real_size=64,
    ),
    Entry(
        "ResNet-50", lambda: resnet(**SMALL_RESNET), resnet, images, size="side", sizes=SIDES, example=40, real_size=224
    ),
    Entry(
        "ConvNeXt",
        lambda: convnext(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
        convnext,
        images,
        size="side",
        sizes=SIDES,
        example=40,
        real_size=224,
    ),
    Entry(
        "MobileNetV2",
        lambda: mobilenet(depth_multiplier=0.25, min_depth=4),
        mobilenet,
        images,
        size="side",
        sizes=SIDES,
        example=40,
        real_size=224,
    ),
    Entry(
        "Detector",
        lambda: detector(16, **SMALL_RESNET),
        lambda: detector(256),
        images,
        size="side",
        sizes=SIDES,
        example=40,
        real_size=320,
    ),
)

__all__ = ["ENTRIES"]
