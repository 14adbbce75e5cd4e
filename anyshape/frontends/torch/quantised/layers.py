"""Modules whose weights are block-quantised bytes; they compute by the op `anyshape::dequantize`, and so wherever PyTorch runs."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from anyshape.dialects.block_formats import BlockFormat, block_format
from anyshape.frontends.torch.dequantising import dequantize
from anyshape.support.errors import DtypeError


class QuantisedModule(nn.Module):
    """A module with one matrix of blocks, the buffer `blocks`, u8 [rows, bytes of a row].

    Args:
        blocks: the bytes. Casts of the module to a floating type leave them as they are.
        format: their format.
        dtype: the type that the matrix has to others. Casts change it.
    """

    blocks: torch.Tensor
    _typed: torch.Tensor

    def __init__(self, blocks: torch.Tensor, format: BlockFormat, dtype: torch.dtype) -> None:
        super().__init__()
        self.format = format.name
        self.register_buffer("blocks", blocks)
        # An empty buffer follows casts of the model; it is no part of the state.
        self.register_buffer("_typed", torch.empty(0, dtype=dtype), persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        return self._typed.dtype

    @property
    def weight(self) -> torch.Tensor:
        """The decoded matrix, made anew each time: for code that reads a layer's weight itself."""
        return dequantize(self.blocks, self.format).to(self.dtype)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return block_format(self.format).columns(self.blocks.shape[1])


class QuantisedLinear(QuantisedModule):
    """x ↦ x · weightᵀ + bias, computed in f32 (in f64 for such x) and returned in the type of x; DtypeError where that is no float.

    Args:
        blocks, format, dtype: see `QuantisedModule`.
        bias: kept as it is; None for none.
    """

    bias: nn.Parameter | None

    def __init__(
        self, blocks: torch.Tensor, format: BlockFormat, dtype: torch.dtype, bias: nn.Parameter | None
    ) -> None:
        super().__init__(blocks, format, dtype)
        self.register_parameter("bias", bias)

    @property
    def in_features(self) -> int:
        return self.columns

    @property
    def out_features(self) -> int:
        return self.blocks.shape[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_floating_point():
            raise DtypeError("a linear layer takes floats", got=x.dtype, expected="a floating type")
        dtype = torch.promote_types(x.dtype, torch.float32)
        bias = None if self.bias is None else self.bias.to(dtype)
        return functional.linear(x.to(dtype), dequantize(self.blocks, self.format).to(dtype), bias).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.format}, bias={self.bias is not None}"


class QuantisedEmbedding(QuantisedModule):
    """Looks rows up as bytes, decodes those, and returns them in the type of the table."""

    @property
    def num_embeddings(self) -> int:
        return self.blocks.shape[0]

    @property
    def embedding_dim(self) -> int:
        return self.columns

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return dequantize(functional.embedding(indices, self.blocks), self.format).to(self.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self.format}"


__all__ = ["QuantisedEmbedding", "QuantisedLinear", "QuantisedModule"]
