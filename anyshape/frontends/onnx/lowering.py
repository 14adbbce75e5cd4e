"""All lowerings: importing this module imports every family of them."""

from anyshape.frontends.onnx import (
    arrangement,
    attention,
    causal,
    contrib,
    contrib_attention,
    control,
    convolution,
    determinants,
    einsum,
    elementwise,
    features,
    folded_fractions,
    folded_movement,
    folding,
    fourier,
    images,
    indexing,
    integer_products,
    losses,
    matrices,
    movement,
    ngrams,
    normalization,
    pooling,
    quantised,
    quantised_contrib,
    random_numbers,
    recurrent,
    reductions,
    regions,
    resizing,
    scanning,
    sequences,
    sizes,
    slices,
    sorting,
    training,
)
from anyshape.frontends.onnx.registry import find_fold, find_lowering, lowered_ops

FAMILIES = (
    arrangement, attention, causal, contrib, contrib_attention, control, convolution, determinants, einsum,
    elementwise, features, folded_fractions, folded_movement, folding, fourier, images, indexing, integer_products,
    losses, matrices, movement, ngrams, normalization, pooling, quantised, quantised_contrib, random_numbers,
    recurrent, reductions, regions, resizing, scanning, sequences, sizes, slices, sorting, training,
)  # fmt: skip
"""The modules whose functions register themselves when they are imported."""

__all__ = ["FAMILIES", "find_fold", "find_lowering", "lowered_ops"]
