"""Convolutions plane by plane: every tile, rows and columns that fill none, borders, strides in phases, groups with few filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from anyshape.codegen.convolve import reads_planes
from anyshape.dialects.dhlo import Add, BroadcastInDim, ConstantStore, Convolution, Relu, Weight
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, F16, F32, F64, DType
from anyshape.dialects.sizes import sizes_of
from anyshape.dialects.tile import ContractOp
from anyshape.symbolic import Size
from tests.kernels.harness import Planned, check

B, H, W = (Size.symbol(name) for name in "bhw")
TOLERANCE = {F16: 4e-3, BF16: 3e-2}
SIDES = (
    (2, 7, 7), (1, 1, 1), (0, 3, 3), (1, 2, 3), (1, 3, 2), (1, 8, 25), (1, 15, 40), (1, 31, 9), (3, 4, 16), (1, 5, 131), (1, 0, 4),
)  # fmt: skip
"""Rows that fill one tile, several, and parts of them; columns of all widths of tiles; blocks that end."""


def convolved(
    window: Sequence[int], channels: int, each: int = 1, depth: int = 1, *, stride: int = 1, dilation: int = 1,
    padding: int | None = None, dtype: DType = F32, sides: Sequence[tuple[int, int, int]] = SIDES, follows: bool = False,
) -> Planned:  # fmt: skip
    """`channels` groups of `depth` channels with `each` filters, of that window, checked at all sides."""
    g, store = FunctionBuilder(), ConstantStore()
    spatial = len(window)
    before = [extent // 2 * dilation if padding is None else padding for extent in window]
    shape = (channels * each, depth, *window)
    array = np.random.default_rng(3).standard_normal(shape).astype(dtype.numpy)
    image = (H, W)[-spatial:]
    sizes = tuple(
        (size + 2 * zeros - (extent - 1) * dilation - 1) // stride + 1
        for size, zeros, extent in zip(image, before, window, strict=True)
    )
    result = g(
        Convolution, g.input(B, channels * depth, *image, dtype=dtype), g.add(Weight.of_array(array, store)).result,
        window_strides=(stride,) * spatial, padding=tuple(before), lhs_dilation=(1,) * spatial,
        rhs_dilation=(dilation,) * spatial, sizes=sizes, feature_group_count=channels,
    )  # fmt: skip
    if follows:
        bias = g(BroadcastInDim, g.input(channels * each, dtype=dtype), dimensions=(1,), sizes=sizes_of(result.type))
        result = g(Relu, g(Add, result, bias))
    environments = [{"b": b, "h": h, "w": w} for b, h, w in sides]
    planned = check(g.finish(result), environments, store=store, relative=TOLERANCE.get(dtype, 2e-4))
    (kernel,) = planned.kernels.values()
    contract = kernel.body.block.last_op
    assert isinstance(contract, ContractOp) and reads_planes(contract)
    return planned


@pytest.mark.parametrize("window", [(3, 3), (7, 7), (5, 3), (1, 9), (9, 1), (2, 4)], ids=str)
def test_windows(window: tuple[int, int]) -> None:
    sides = [side for side in SIDES if side[1] and min(side[1:]) + 2 * (min(window) // 2) >= min(window)]
    convolved(window, 3, sides=sides)


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_strides_and_dilations(stride: int, dilation: int) -> None:
    convolved((3, 5), 2, stride=stride, dilation=dilation, sides=[side for side in SIDES if side[1]])


@pytest.mark.parametrize("padding", [0, 1, 6])
def test_paddings(padding: int) -> None:
    """None, one, and more than the window reaches: whole tiles of zeros. The image may be smaller than the window."""
    least = max(1, 3 - 2 * padding)
    convolved((3, 3), 2, padding=padding, sides=[side for side in SIDES if min(side[1:]) >= least])


def test_several_filters_and_channels_of_a_group() -> None:
    sides = [side for side in SIDES if side[1]]
    convolved((3, 3), 2, each=2, sides=sides)
    convolved((3, 3), 2, depth=3, sides=sides)
    convolved((3, 3), 1, each=2, depth=4, stride=2, sides=sides)


@pytest.mark.parametrize("dtype", [F64, F16, BF16], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_dtypes(dtype: DType, stride: int) -> None:
    convolved((3, 3), 2, dtype=dtype, stride=stride, sides=[side for side in SIDES if side[1]])


def test_lines() -> None:
    """One spatial axis: long lines in blocks."""
    sides = [(2, 1, 1), (1, 1, 2), (0, 1, 3), (1, 1, 67), (1, 1, 1100)]
    convolved((5,), 3, sides=sides)
    convolved((31,), 2, sides=sides)
    convolved((4,), 2, stride=2, sides=sides)


def test_what_follows_is_computed_with_it() -> None:
    planned = convolved((3, 3), 4, follows=True, sides=SIDES[:6])
    assert planned.kinds == ["contract"]
