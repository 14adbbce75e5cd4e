"""A convolution asks which axes have more than one place, to see whether its channels are last: an image that stages have made one place
high was refused. Found by ConvNeXt at 32 × 40."""

import torch
from torch import nn

from tests.end_to_end.eager import check, compiled


class Stages(nn.Module):
    """Halves an image again and again, with its channels normalised in between, as ConvNeXt does."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(4))
        self.halve = nn.ModuleList(nn.Conv2d(8, 8, 2, 2) for _ in range(2))
        self.mix = nn.ModuleList(nn.Conv2d(8, 8, 7, padding=3, groups=8) for _ in range(2))
        self.widen = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in range(2):
            x = self.halve[stage](self.norms[stage](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
            y = self.widen[stage](self.norms[2 + stage](self.mix[stage](x).permute(0, 2, 3, 1)))
            x = x + y.permute(0, 3, 1, 2)
        return x


def test_images_of_one_place() -> None:
    module = Stages().eval()
    program = compiled(module, torch.randn(2, 3, 10, 10))
    for height, width in ((8, 8), (8, 17), (16, 9), (27, 16)):
        for batch in (0, 1, 3):
            check(program, module, torch.randn(batch, 3, height, width))
