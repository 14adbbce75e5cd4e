"""All lowerings: importing this module imports every family of them."""

from anyshape.frontends.onnx import (
    arrangement,
    attention,
    contrib,
    contrib_attention,
    control,
    convolution,
    determinants,
    einsum,
    elementwise,
    folding,
    fourier,
    images,
    indexing,
    losses,
    movement,
    normalization,
    pooling,
    products,
    quantised,
    quantised_contrib,
    random_numbers,
    recurrent,
    reductions,
    regions,
    resizing,
    scanning,
    sizes,
    slices,
    sorting,
)
from anyshape.frontends.onnx.registry import find_fold, find_lowering, lowered_ops

FAMILIES = (
    arrangement, attention, contrib, contrib_attention, control, convolution, determinants, einsum, elementwise, folding,
    fourier, images, indexing, losses, movement, normalization, pooling, products, quantised, quantised_contrib,
    random_numbers, recurrent, reductions, regions, resizing, scanning, sizes, slices, sorting,
)  # fmt: skip
"""The modules whose functions register themselves when they are imported."""

__all__ = ["FAMILIES", "find_fold", "find_lowering", "lowered_ops"]
