"""Plans of convolutions: what follows them, images that are layouts, groups, small images that share panels."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, BroadcastInDim, ConstantStore, Convolution, Relu, Slice, Tanh, Transpose, Weight
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, F16, F32, F64, DType
from anyshape.dialects.sizes import sizes_of
from anyshape.symbolic import Size
from tests.kernels.harness import check

B, H, W = (Size.symbol(name) for name in "bhw")
TOLERANCE = {F16: 4e-3, BF16: 3e-2}


def environments() -> Iterator[Mapping[str, int]]:
    for b, h, w in ((2, 7, 9), (1, 1, 1), (0, 3, 3), (9, 7, 7), (1, 5, 70), (3, 2, 16), (1, 2, 3), (7, 1, 1)):
        yield {"b": b, "h": h, "w": w}


def convolved(
    g: FunctionBuilder,
    x: SSAValue,
    filters: SSAValue,
    sizes: tuple[Size, ...],
    groups: int = 1,
    stride: int = 1,
    padding: int = 1,
) -> SSAValue:
    count = len(sizes)
    return g(
        Convolution, x, filters, window_strides=(stride,) * count, padding=(padding,) * count, lhs_dilation=(1,) * count,
        rhs_dilation=(1,) * count, sizes=sizes, feature_group_count=groups,
    )  # fmt: skip


def along_filters(g: FunctionBuilder, bias: SSAValue, like: SSAValue) -> SSAValue:
    return g(BroadcastInDim, bias, dimensions=(1,), sizes=sizes_of(like.type))


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
def test_what_follows_is_computed_with_it(dtype: DType) -> None:
    """relu(filters * x + bias + residual), one kernel."""
    g = FunctionBuilder()
    x, filters = g.input(B, 4, H, W, dtype=dtype), g.input(70, 4, 3, 3, dtype=dtype)
    sums = convolved(g, x, filters, (H, W))
    biased = g(Add, sums, along_filters(g, g.input(70, dtype=dtype), sums))
    result = g(Relu, g(Add, biased, g.input(B, 70, H, W, dtype=dtype)))
    planned = check(g.finish(result), list(environments()), relative=TOLERANCE.get(dtype, 2e-4))
    assert planned.kinds == ["contract"]


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_groups_and_strides(stride: int) -> None:
    g, store = FunctionBuilder(), ConstantStore()
    array = np.random.default_rng(3).standard_normal((12, 9, 3, 2)).astype(np.float32)
    filters = g.add(Weight.of_array(array, store)).result
    sizes = ((H - 1) // stride + 1, W // stride + 1)
    result = g(Tanh, convolved(g, g.input(B, 18, H, W), filters, sizes, groups=2, stride=stride))
    assert check(g.finish(result), list(environments()), store=store).kinds == ["contract"]


@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
@pytest.mark.parametrize(("channels", "points", "stride"), [(1, 37, 16), (3, 16, 11), (2, 300, 9), (1, 5, 12)])
def test_frames_far_apart(channels: int, points: int, stride: int, dtype: DType) -> None:
    """Window points are turned in squares: more of them than a vector has lanes or fewer, whole squares or not, several channels."""
    g = FunctionBuilder()
    x, filters = g.input(B, channels, W, dtype=dtype), g.input(20, channels, points, dtype=dtype)
    result = convolved(g, x, filters, ((W - points) // stride + 1,), stride=stride, padding=0)
    frames = ((2, 5), (1, 1), (0, 3), (9, 7), (1, 70), (1, 6), (4, 2))
    sizes = [{"b": b, "w": points + stride * (count - 1) + b} for b, count in frames]
    planned = check(g.finish(result), sizes, relative=TOLERANCE.get(dtype, 2e-4))
    assert planned.kinds == ["contract"]


def test_every_place_of_an_image_is_a_column() -> None:
    """Windows of one point: an image is one line, whatever its height and width."""
    g = FunctionBuilder()
    planned = check(
        g.finish(convolved(g, g.input(B, 70, H, W), g.input(5, 70, 1, 1), (H, W), padding=0)), list(environments())
    )
    assert planned.kinds == ["contract"]
    assert "array<i64: 1>" in str(next(iter(planned.kernels.values())))


def test_an_image_is_read_where_it_lies() -> None:
    """Channels 1 and after of [c, b, h, w]."""
    g = FunctionBuilder()
    image = g(Transpose, g.input(6, B, H, W), permutation=(1, 0, 2, 3))
    part = g(Slice, image, starts=(0, 1, 0, 0), sizes=(B, 5, H, W), strides=(1, 1, 1, 1))
    planned = check(g.finish(convolved(g, part, g.input(7, 5, 3, 3), (H, W))), list(environments()))
    assert planned.kinds == ["contract"]


def test_columns_of_an_image_are_copied_first() -> None:
    """Lines whose places are no neighbours are copied before."""
    g = FunctionBuilder()
    image = g(Transpose, g.input(B, H, W, 3), permutation=(0, 3, 1, 2))
    planned = check(g.finish(convolved(g, image, g.input(7, 3, 3, 3), (H, W))), list(environments()))
    assert planned.kinds == ["loop", "contract"]
