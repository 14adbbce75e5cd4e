"""Convolutional blocks with random weights against eager PyTorch in f64, at many batches, heights and widths."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import anyshape
from anyshape.driver.api import CompiledModule
from anyshape.support.errors import AnyshapeError
from tests.end_to_end.eager import assert_same, compiled

IMAGES = [(1, 7, 9), (2, 8, 8), (3, 17, 5), (1, 33, 40), (2, 1, 1), (0, 7, 7)]


def spread(module: nn.Module) -> nn.Module:
    """The module with random statistics in its batch norms."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean = torch.randn(each.num_features) / 4
            each.running_var = torch.rand(each.num_features) + 0.5
            nn.init.normal_(each.weight)
            nn.init.normal_(each.bias)
    return module.eval()


class Residual(nn.Module):
    """A bottleneck of ResNet with a stride and a projection."""

    def __init__(self, channels: int = 12, inner: int = 8, stride: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner),
        )  # fmt: skip
        self.skip = nn.Sequential(nn.Conv2d(channels, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def inverted() -> nn.Module:
    """An inverted residual of MobileNetV2, without its sum."""
    return nn.Sequential(
        nn.Conv2d(6, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU6(),
        nn.Conv2d(24, 24, 3, 2, padding=1, groups=24, bias=False), nn.BatchNorm2d(24), nn.ReLU6(),
        nn.Conv2d(24, 10, 1), nn.Conv2d(10, 10, 7, padding=3, groups=10),
    )  # fmt: skip


def upsampling() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding="same"), nn.GELU(), nn.ConvTranspose2d(8, 6, 4, 2, padding=1), nn.SiLU(),
        nn.ConvTranspose2d(6, 4, 3, 2, padding=1, output_padding=1, groups=2), nn.ConvTranspose2d(4, 3, 2, 2),
    )  # fmt: skip


def phases() -> nn.Module:
    """Transposed convolutions whose phases share windows, by 3 × 3, 2 × 3 and 1 × 4, in groups, and one whose phases do not."""
    return nn.Sequential(
        nn.ConvTranspose2d(3, 8, 6, 3, padding=2), nn.ReLU(), nn.ConvTranspose2d(8, 8, (4, 3), (2, 3), padding=(2, 0), groups=2),
        nn.ConvTranspose2d(8, 4, (3, 4), (1, 4), dilation=(2, 1)), nn.ConvTranspose2d(4, 4, 4, 2, padding=1, dilation=3),
    )  # fmt: skip


BLOCKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "residual": (Residual, 12),
    "inverted": (inverted, 6),
    "upsampling": (upsampling, 3),
    "phases": (phases, 3),
}


@pytest.fixture(scope="module", params=list(BLOCKS))
def block(request: pytest.FixtureRequest) -> tuple[CompiledModule, nn.Module, int]:
    torch.manual_seed(0)
    make, channels = BLOCKS[request.param]
    module = spread(make())
    return compiled(module, torch.randn(2, channels, 16, 16)), module, channels


@pytest.mark.parametrize(("batch", "height", "width"), IMAGES)
def test_block(block: tuple[CompiledModule, nn.Module, int], batch: int, height: int, width: int) -> None:
    program, module, channels = block
    x = torch.randn(batch, channels, height, width)
    with torch.no_grad():
        expected = module.double()(x.double()).float()
        module.float()
    assert_same(program(x), expected, message=(batch, height, width))


CALLS: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...]]] = {
    "1d": (lambda x, w: F.conv1d(x, w[:, :, 0, :], stride=2, padding=2), (2, 4, 19)),
    "1d, wide step": (lambda x, w: F.conv1d(x, w[:, :, 0, :], stride=5, padding=1, dilation=2), (2, 4, 39)),
    "2d, groups": (lambda x, w: F.conv2d(x, w[:, :2], groups=2, padding=(1, 0)), (2, 4, 9, 8)),
    "2d, one image": (lambda x, w: F.conv2d(x, w, padding=1), (4, 11, 6)),
    "2d, dilated": (lambda x, w: F.conv2d(x, w, torch.ones(6, dtype=x.dtype), 1, 2, 2), (1, 4, 11, 70)),
    "2d, same": (lambda x, w: F.conv2d(x, w[:, :, :2], padding="same"), (3, 4, 6, 7)),
    "3d": (lambda x, w: F.conv3d(x, w[:, :, None], padding=1, stride=(1, 2, 1)), (2, 4, 3, 6, 7)),
    "transposed, 1d": (lambda x, w: F.conv_transpose1d(x, w[:4, :, 0], stride=3, padding=1), (2, 4, 7)),
    "transposed, crossed": (
        lambda x, w: F.conv_transpose2d(x, w[:4], stride=(2, 3), dilation=(3, 2), output_padding=(1, 0)), (2, 4, 5, 6)
    ),
    "transposed, 3d": (lambda x, w: F.conv_transpose3d(x, w[:4, :, None], stride=(1, 2, 2), padding=(0, 1, 1)), (1, 4, 2, 3, 4)),
    "transposed, cropped": (lambda x, w: F.conv_transpose2d(x, w[:4], padding=3), (1, 4, 7, 8)),
}  # fmt: skip


CASES = [
    *((name, torch.float32) for name in CALLS),
    *((name, dtype) for dtype in (torch.float64, torch.bfloat16, torch.int64) for name in ("1d", "2d, groups", "transposed, crossed")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: str(case))
def test_call(name: str, dtype: torch.dtype) -> None:
    call, sizes = CALLS[name]
    torch.manual_seed(1)
    filters = torch.randint(-3, 4, (6, 4, 3, 3)).to(dtype)
    program = compiled(lambda x: call(x, filters), torch.randint(-3, 4, sizes).to(dtype))
    for grown in (0, 1, 12):
        x = torch.randint(-3, 4, (*sizes[:-1], sizes[-1] + grown)).to(dtype)
        expected = call(x.double(), filters.double())
        assert_same(program(x), expected.to(dtype), message=(name, tuple(x.shape)))


def test_filters_that_are_arguments() -> None:
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, padding=1)

    program = compiled(call, torch.randn(2, 5, 8, 8), torch.randn(7, 5, 3, 3))
    for batch, filters, channels, height in ((1, 3, 5, 6), (2, 70, 5, 13), (1, 1, 1, 1)):
        x, w = torch.randn(batch, channels, height, height + 1), torch.randn(filters, channels, 3, 3)
        assert_same(program(x, w), call(x.double(), w.double()).float(), message=(batch, filters, channels, height))


@pytest.mark.parametrize("sizes", [(2, 3, 2, 9), (2, 3, 9, 1), (1, 3, 0, 9)])
def test_a_window_larger_than_the_image_is_refused(sizes: tuple[int, ...]) -> None:
    module = nn.Conv2d(3, 4, 3)
    program = compiled(module, torch.randn(2, 3, 8, 8))
    with pytest.raises(RuntimeError):
        module(torch.randn(*sizes))
    with pytest.raises(AnyshapeError, match=r"convolution|size|axis"):
        program(torch.randn(*sizes))


def test_wrong_channels_are_refused() -> None:
    program = compiled(nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8))
    with pytest.raises(AnyshapeError):
        program(torch.randn(2, 5, 8, 8))
    with pytest.raises(anyshape.AnyshapeError):
        compiled(nn.Conv2d(3, 4, 3), torch.randn(2, 5, 8, 8))


@pytest.mark.parametrize(
    ("is_transposed", "groups", "options"),
    [
        (False, 1, ([1, 1], [1, 1], [1, 1], [0, 0])),
        (False, 2, ([2, 1], [1, 0], [1, 2], [0, 0])),
        (True, 2, ([2, 2], [1, 1], [1, 1], [1, 0])),
    ],
)
def test_gradients(is_transposed: bool, groups: int, options: tuple[list[int], ...]) -> None:
    stride, padding, dilation, behind = options
    weight = torch.randn(4, 4 // groups, 3, 3)

    def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution.default(x, w, None, stride, padding, dilation, is_transposed, behind, groups)

    def backward(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        rest = (stride, padding, dilation, is_transposed, behind, groups, [True, True, True])
        return list(torch.ops.aten.convolution_backward.default(gradient, x, w, [4], *rest))

    def inputs(batch: int, height: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = torch.randn(batch, 4, height, 9)
        return torch.randn_like(forward(x, weight)), x, weight

    program = compiled(backward, *inputs(2, 8))
    for batch, height in ((1, 7), (3, 10)):
        gradient, x, w = inputs(batch, height)
        expected = [each.float() for each in backward(gradient.double(), x.double(), w.double())]
        assert_same(program(gradient, x, w), expected, tolerance=1e-4, message=(batch, height))
