"""The op `anyshape::dequantize` of quantised modules: eager, on shapes for capture, and as `dhlo.dequantize`.

Its product with activations becomes one `dhlo.quantised_dot`, which never decodes the weights.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.block_formats import block_format
from anyshape.dialects.dhlo import Dequantize
from anyshape.frontends.torch.builder import GraphBuilder, lowers


@torch.library.custom_op("anyshape::dequantize", mutates_args=())
def dequantize(rows: torch.Tensor, format: str) -> torch.Tensor:
    """The weights of rows of blocks: u8 [..., bytes] -> f32 [..., columns]; see `anyshape.dialects.block_formats`.

    Raises:
        ArgumentError: the format is unknown, or a row is no whole number of its blocks.
    """
    decoded = block_format(format).decode(rows.detach().cpu().contiguous().numpy())
    return torch.from_numpy(decoded).to(rows.device)


@dequantize.register_fake
def _dequantised_type(rows: torch.Tensor, format: str) -> torch.Tensor:
    return rows.new_empty((*rows.shape[:-1], block_format(format).columns(rows.shape[-1])), dtype=torch.float32)


@lowers("anyshape.dequantize.default")
def lower_dequantize(builder: GraphBuilder, rows: SSAValue, format: str) -> SSAValue:
    """The weights of rows of blocks."""
    return builder.emit(Dequantize, rows, format=format)


__all__ = ["dequantize"]
