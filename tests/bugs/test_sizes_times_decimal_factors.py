"""Sizes scaled by decimal factors: the floor of a product of floats, as PyTorch rounds it, for every size."""

from __future__ import annotations

from math import floor

import numpy as np
import pytest
import torch
from torch.nn import functional

from anyshape.frontends.torch.sizes import _rational  # pyright: ignore[reportPrivateUsage]
from tests.end_to_end.eager import assert_same, compiled


@pytest.mark.parametrize(("factor", "mode"), [(1.7, "nearest"), (0.6, "bilinear")])
def test_interpolation_by_a_factor(factor: float, mode: str) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, scale_factor=factor, mode=mode)

    program = compiled(scaled, torch.randn(2, 3, 6, 7))
    for height, width in ((6, 7), (10, 20), (2, 3), (33, 50)):
        x = torch.randn(1, 2, height, width)
        assert_same(program(x), scaled(x), message=f"{height} x {width}")


def test_factors_that_round_otherwise_are_not_taken() -> None:
    assert floor(0.29 * 100) == 28  # 29 by the rational
    assert _rational(0.29) is None
    sizes = np.arange(1 << 20)
    taken = [factor for factor in (hundredths / 100 for hundredths in range(1, 400)) if _rational(factor)]
    assert {1.7, 0.6} <= set(taken) and len(taken) > 150
    for factor in taken:
        ratio = _rational(factor)
        assert ratio is not None
        assert np.array_equal(np.floor(sizes * factor), sizes * ratio.numerator // ratio.denominator), factor
        assert np.array_equal(np.ceil(sizes * factor), -(-sizes * ratio.numerator // ratio.denominator)), factor
