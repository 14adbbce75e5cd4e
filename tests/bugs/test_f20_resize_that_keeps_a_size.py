"""F20: a nearest resize by (1.3, 1.5) of a height that stays 3 leaves the rows as they are."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.bugs.front_ends import through_torch_compile


def test_rows_stay() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest")

    program = through_torch_compile(f)
    for height, width in ((3, 4), (3, 2), (5, 7), (1, 1), (10, 3)):
        x = torch.arange(height * width, dtype=torch.float32).view(1, 1, height, width)
        assert torch.equal(program(x), f(x))
    x = torch.arange(12.0).view(1, 1, 3, 4)
    assert torch.equal(program(x)[0, 0, :, 0], x[0, 0, :, 0])


def test_other_modes_and_scales() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scales = ((1.3, 1.5), (0.7, 2.0), (1.0, 0.5))
        nearest = [
            F.interpolate(x, scale_factor=scale, mode=mode) for scale in scales for mode in ("nearest", "nearest-exact")
        ]
        return (*nearest, F.interpolate(x, size=(3, 5)), F.interpolate(x, scale_factor=(1.3, 1.5), mode="bilinear"))

    program = through_torch_compile(f)
    for height, width in ((3, 4), (5, 7), (10, 3)):
        x = torch.randn(2, 1, height, width)
        for got, expected in zip(program(x), f(x), strict=True):
            torch.testing.assert_close(got, expected)
