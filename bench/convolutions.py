"""Convolutions, border pads and recurrent layers alone, anyshape beside PyTorch eager: paired, at one and at several batch points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

import anyshape
from anyshape.cli.timing import alternate
from bench.figures import paired_ratio, spread
from bench.settings import Settings

BATCHES = (1, 8)


class Outputs(nn.Module):
    """The outputs of a recurrent layer at all steps of x [b, s, features]."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class Bags(nn.Module):
    """Mean rows of a table for bags of indices [b, count]."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(rows, width, mode="mean")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bags(x)


class TopK(nn.Module):
    """The k largest elements of each row, and where they are."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.topk(x, self.k)


@dataclass(frozen=True)
class Case:
    """A layer, and the shape of its input behind the batch axis. All axes in `dynamic` are compiled for any size.

    Args:
        below: inputs are whole numbers below it, if given.
    """

    group: str
    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    dynamic: tuple[int, ...]
    below: int | None = None
    batches: tuple[int, ...] = BATCHES

    def input(self, batch: int, lengths: Sequence[int] | None = None) -> torch.Tensor:
        """An input of so many batch points; `lengths` instead of those of the shape."""
        shape = (batch, *(lengths or self.shape))
        return torch.randn(shape) if self.below is None else torch.randint(self.below, shape)


def _convolution(group: str, side: int, channels: int, filters: int, window: int, **options: Any) -> Case:
    """A convolution that keeps the size of its image, but for its stride."""
    options = {"padding": window // 2, **options}
    stride = f" / {options['stride']}" if "stride" in options else ""
    title = f"{channels}→{filters}, {window}×{window}{stride}, {side}×{side}"
    return Case(
        group, title, lambda: nn.Conv2d(channels, filters, window, **options), (channels, side, side), (0, 2, 3)
    )


def _depthwise(side: int, channels: int, window: int, **options: Any) -> Case:
    return _convolution("depthwise", side, channels, channels, window, groups=channels, **options)


def _depthwise_line(length: int, channels: int, window: int) -> Case:
    title = f"{channels}, {window}, {length}"
    layer = lambda: nn.Conv1d(channels, channels, window, padding=window // 2, groups=channels)  # noqa: E731
    return Case("depthwise, one axis", title, layer, (channels, length), (0, 2))


def _transposed(side: int, channels: int, filters: int, window: int, stride: int, padding: int, **rest: Any) -> Case:
    title = f"{channels}→{filters}, {window}×{window} / {stride}, {side}×{side}"
    layer = lambda: nn.ConvTranspose2d(channels, filters, window, stride, padding, **rest)  # noqa: E731
    return Case("transposed", title, layer, (channels, side, side), (0, 2, 3))


def _pad(kind: Callable[[int], nn.Module], name: str, side: int, channels: int, width: int) -> Case:
    return Case(
        "pad", f"{name} {width}, {channels}×{side}×{side}", lambda: kind(width), (channels, side, side), (0, 2, 3)
    )


def _recurrent(
    kind: type[nn.RNNBase], features: int, units: int, layers: int, steps: int, *, both: bool = False
) -> Case:
    title = f"{kind.__name__} {features}→{units}, {layers} layers{', both ways' if both else ''}, {steps} steps"

    def layer() -> nn.Module:
        return Outputs(kind(features, units, layers, batch_first=True, bidirectional=both))  # type: ignore[call-arg]

    return Case("recurrent", title, layer, (steps, features), (0, 1))


CASES = (
    _depthwise(56, 96, 7),
    _depthwise(28, 192, 7),
    _depthwise(14, 384, 7),
    _depthwise(7, 768, 7),
    _depthwise(112, 32, 3),
    _depthwise(112, 96, 3, stride=2),
    _depthwise(56, 144, 3),
    _depthwise(28, 192, 3, stride=2),
    _depthwise(14, 384, 3),
    _depthwise(7, 960, 3),
    _depthwise(28, 120, 5),
    _depthwise(28, 64, 3, dilation=2, padding=2),
    _depthwise_line(300, 256, 31),
    _depthwise_line(300, 512, 4),
    _convolution("dense", 56, 64, 64, 3),
    _convolution("dense", 28, 128, 128, 3),
    _convolution("dense", 14, 256, 256, 3),
    _convolution("dense", 7, 512, 512, 3),
    _convolution("dense", 224, 3, 64, 7, stride=2),
    _convolution("dense", 56, 64, 256, 1),
    _convolution("grouped", 28, 128, 128, 3, groups=32),
    _transposed(14, 256, 128, 4, 2, 1),
    _transposed(28, 128, 64, 3, 2, 1, output_padding=1),
    _transposed(56, 64, 32, 2, 2, 0),
    _transposed(7, 512, 256, 4, 2, 1),
    _pad(nn.ReflectionPad2d, "reflection", 56, 64, 1),
    _pad(nn.ReflectionPad2d, "reflection", 224, 3, 3),
    _pad(nn.ReplicationPad2d, "replication", 56, 64, 1),
    _pad(nn.CircularPad2d, "circular", 56, 64, 1),
    _pad(nn.ZeroPad2d, "zero", 56, 64, 1),
    _recurrent(nn.LSTM, 40, 256, 3, 160),
    _recurrent(nn.LSTM, 128, 128, 1, 100),
    _recurrent(nn.LSTM, 256, 512, 2, 50),
    _recurrent(nn.LSTM, 128, 128, 1, 100, both=True),
    _recurrent(nn.GRU, 128, 256, 2, 100),
    Case("bags", "10 of 50 000 rows of 64", lambda: Bags(50_000, 64), (10,), (0,), 50_000, (16, 512)),
    Case("bags", "40 of 5000 rows of 256", lambda: Bags(5_000, 256), (40,), (0,), 5_000, (16, 512)),
    Case("top k", "5 of 1000", lambda: TopK(5), (1000,), (0,), None, (1, 64)),
    Case("top k", "50 of 32 000", lambda: TopK(50), (32_000,), (0,), None, (1, 8)),
)


def measure_convolutions(run: Settings) -> list[dict[str, Any]]:
    """Seconds of ours and the paired ratio to eager's of every case; one compilation a case."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        run.say(f"{case.group} {case.title}")
        rows += measure_case(case, run.threads, run.layer_seconds)
    return rows


def measure_case(case: Case, threads: int, seconds: float) -> list[dict[str, Any]]:
    """A row for each number of batch points."""
    torch.manual_seed(0)
    module = case.make().eval()
    program = compiled(case, module, threads)
    rows: list[dict[str, Any]] = []
    for batch in case.batches:
        x = case.input(batch)

        def eager(x: torch.Tensor = x) -> Any:
            with torch.no_grad():
                return module(x)

        functions: Mapping[str, Callable[[], object]] = {"ours": lambda x=x: program(x), "eager": eager}
        difference = _difference(program(x), eager())
        samples = alternate(functions, seconds=seconds * len(functions), block=10)
        rows.append(
            {
                "group": case.group,
                "case": case.title,
                "batch": batch,
                "seconds": asdict(spread(samples["ours"])),
                "eager_seconds": asdict(spread(samples["eager"])),
                "eager_ratio": asdict(paired_ratio(samples["eager"], samples["ours"])),
                "difference": difference,
            }
        )
    return rows


def compiled(case: Case, module: nn.Module, threads: int) -> Any:
    """The program of a case, for any number of batch points."""
    # Strided windows of a small image may have one place only, and pads must be smaller than their image: PyTorch asks for more.
    names = {axis: torch.export.Dim(f"d{axis}", min=4 if axis > 1 else 1, max=1 << 20) for axis in case.dynamic}
    lengths = [size - 1 if axis in case.dynamic else size for axis, size in enumerate(case.shape, 1)]
    options = anyshape.Options(threads=threads)
    return anyshape.compile(module, (case.input(3, lengths),), dynamic_shapes=(names,), options=options)


def _difference(ours: Any, theirs: Any) -> float:
    """The largest difference of the first results."""
    mine, other = (each[0] if isinstance(each, tuple) else each for each in (ours, theirs))
    return float(torch.max(torch.abs(torch.sub(mine, other))))
