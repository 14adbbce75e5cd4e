"""The models that are compared end to end: how to make one, its inputs, its shapes, its least time on a machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import torch

from anyshape.cli.minilm import Inputs, load_transformer, random_inputs
from bench.ceilings import Ceilings

Shape = tuple[int, int]
"""(batch, length of the sentences or side of the images)."""

Axes = Mapping[str, tuple[str, ...]]
"""The names of the leading axes of each input that are dynamic."""

Limits = Mapping[str, int]
"""The largest size of each dynamic axis."""

SEED = 0


class Model(ABC):
    """A model, and what is asked of it."""

    name: str
    title: str
    size: str
    """What the second number of a shape counts."""
    shapes: tuple[Shape, ...]
    example: Shape = (2, 7)
    """The call that engines are given when they compile for any size."""
    axes: ClassVar[Axes]
    limits: ClassVar[Limits]
    outputs: tuple[str, ...]
    layers: int
    width: int
    inner: int

    @abstractmethod
    def load(self) -> torch.nn.Module:
        """The module in inference mode, with the same weights at each call; it returns a tuple of tensors."""

    @abstractmethod
    def inputs(self, shape: Shape) -> Inputs:
        """The inputs of a shape, the same at each call."""

    def tokens(self, size: int) -> int:
        """Rows of the matrices that one example becomes."""
        return size

    @property
    def weights(self) -> int:
        """Numbers in the matrices that every token is multiplied with."""
        return self.layers * (4 * self.width * self.width + 2 * self.width * self.inner)

    def operations(self, shape: Shape) -> float:
        """f32 operations of the products and of attention: 2·w·b·s + 4·layers·width·b·(pairs of a query and a key)."""
        batch, tokens = shape[0], self.tokens(shape[1])
        return 2.0 * self.weights * batch * tokens + 4.0 * self.layers * self.width * batch * self.pairs(tokens)

    def pairs(self, tokens: int) -> float:
        """Pairs of a query and a key that it may see, in one example and head."""
        return float(tokens * tokens)

    def floor_ms(self, ceilings: Ceilings, shape: Shape) -> float:
        """The least time: the operations at the FMA rate, or the weights read once."""
        return ceilings.product_ms(self.operations(shape), 4.0 * self.weights)


class _Encoder(torch.nn.Module):
    """forward(input_ids [b, s], attention_mask [b, s]) -> (tokens [b, s, w], pooled [b, w])."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output: Any = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return output.last_hidden_state, output.pooler_output


class _Decoder(torch.nn.Module):
    """forward(input_ids [b, s], attention_mask [b, s]) -> (tokens [b, s, w],), with no cache of keys and values."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output: Any = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        return (output.last_hidden_state,)


class _Vision(torch.nn.Module):
    """forward(pixel_values [b, 3, h, w]) -> (tokens [b, 1 + patches, w],)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output: Any = self.model(pixel_values=pixel_values)
        return (output.last_hidden_state,)


class MiniLM(Model):
    """The sentence encoder MiniLM-L6 with its real weights."""

    name, title, size = "minilm", "MiniLM-L6", "length"
    shapes = ((1, 8), (1, 17), (1, 64), (1, 128), (1, 333), (8, 24), (8, 128), (16, 200))
    axes: ClassVar[Axes] = {"input_ids": ("batch", "length"), "attention_mask": ("batch", "length")}
    limits: ClassVar[Limits] = {"batch": 4096, "length": 512}
    outputs = ("tokens", "pooled")
    layers, width, inner = 6, 384, 1536

    def load(self) -> torch.nn.Module:
        return _Encoder(load_transformer()).eval()

    def inputs(self, shape: Shape) -> Inputs:
        return random_inputs(*shape)


class Gpt2(Model):
    """GPT-2 small without the product with the vocabulary, random weights."""

    name, title, size = "gpt2", "GPT-2 small", "length"
    shapes = ((1, 8), (1, 128), (1, 512), (16, 128))
    axes: ClassVar[Axes] = {"input_ids": ("batch", "length"), "attention_mask": ("batch", "length")}
    limits: ClassVar[Limits] = {"batch": 4096, "length": 1024}
    outputs = ("tokens",)
    layers, width, inner = 12, 768, 3072

    def load(self) -> torch.nn.Module:
        transformers: Any = import_module("transformers")
        torch.manual_seed(SEED)
        return _Decoder(transformers.GPT2Model(transformers.GPT2Config(use_cache=False))).eval()

    def inputs(self, shape: Shape) -> Inputs:
        # The tokens of `random_inputs` are below MiniLM's vocabulary, which is the smaller one.
        return random_inputs(*shape)

    def pairs(self, tokens: int) -> float:
        return 0.5 * tokens * (tokens + 1)


class VisionTransformer(Model):
    """ViT-B/16 without the pooling layer, random weights; any number of images of one size."""

    name, title, size = "vit", "ViT-B/16", "side of the images"
    shapes = ((1, 224), (16, 224))
    example = (2, 224)
    axes: ClassVar[Axes] = {"pixel_values": ("batch",)}
    limits: ClassVar[Limits] = {"batch": 4096}
    outputs = ("tokens",)
    layers, width, inner = 12, 768, 3072
    patch, channels = 16, 3

    def load(self) -> torch.nn.Module:
        transformers: Any = import_module("transformers")
        torch.manual_seed(SEED)
        return _Vision(transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False)).eval()

    def inputs(self, shape: Shape) -> Inputs:
        batch, side = shape
        generator = torch.Generator().manual_seed(batch)
        return {"pixel_values": torch.randn(batch, self.channels, side, side, generator=generator)}

    def tokens(self, size: int) -> int:
        return 1 + (size // self.patch) ** 2

    def operations(self, shape: Shape) -> float:
        patches = shape[0] * (self.tokens(shape[1]) - 1)
        return super().operations(shape) + 2.0 * patches * self.channels * self.patch**2 * self.width


MODELS: Mapping[str, Model] = {model.name: model for model in (MiniLM(), Gpt2(), VisionTransformer())}
