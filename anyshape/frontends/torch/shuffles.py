"""ATen ops that move elements between channels and pixels."""

from __future__ import annotations

from xdsl.ir import SSAValue

from anyshape.dialects.sizes import rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, lowers
from anyshape.frontends.torch.movement import transposed


@lowers("aten.pixel_shuffle.default")
def lower_pixel_shuffle(builder: GraphBuilder, x: SSAValue, factor: int) -> SSAValue:
    """[…, c·r·r, h, w] -> […, c, r, r, h, w] -> […, c, h, r, w, r] -> […, c, h·r, w·r]"""
    *lead, channels, h, w = sizes_of(x.type)
    builder.require((channels % (factor * factor)).eq(0), "pixel_shuffle")
    apart = builder.reshape(x, (*lead, channels // (factor * factor), factor, factor, h, w))
    rank = len(lead)
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    return builder.reshape(transposed(builder, apart, order), builder.result_sizes)


@lowers("aten.pixel_unshuffle.default")
def lower_pixel_unshuffle(builder: GraphBuilder, x: SSAValue, factor: int) -> SSAValue:
    """[…, c, h·r, w·r] -> […, c, h, r, w, r] -> […, c, r, r, h, w] -> […, c·r·r, h, w]"""
    *lead, channels, h, w = sizes_of(x.type)
    for size in (h, w):
        builder.require((size % factor).eq(0), "pixel_unshuffle")
    apart = builder.reshape(x, (*lead, channels, h // factor, factor, w // factor, factor))
    rank = len(lead)
    order = [*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3]
    return builder.reshape(transposed(builder, apart, order), builder.result_sizes)


@lowers("aten.channel_shuffle.default")
def lower_channel_shuffle(builder: GraphBuilder, x: SSAValue, groups: int) -> SSAValue:
    """[n, g·c, …] -> [n, g, c, …] -> [n, c, g, …] -> [n, c·g, …]"""
    n, channels, *rest = sizes_of(x.type)
    builder.require((channels % groups).eq(0), "channel_shuffle")
    apart = builder.reshape(x, (n, groups, channels // groups, *rest))
    order = [0, 2, 1, *range(3, rank_of(apart.type))]
    return builder.reshape(transposed(builder, apart, order), builder.result_sizes)
