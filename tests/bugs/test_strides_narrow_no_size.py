"""PyTorch works out the strides of a bf16 activation by max(w, 1) > 1, where w is the width of a convolution's result: that w was 2 or more
became a condition of the program, though values hang on no strides."""

import pytest
import torch
from torch import nn

import anyshape
from tests.end_to_end.eager import assert_same


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU()], ids=lambda module: type(module).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_result_of_one_column(activation: nn.Module, dtype: torch.dtype) -> None:
    convolution = nn.Conv2d(2, 3, 5, stride=3, padding=2, dilation=2)
    model = nn.Sequential(convolution, activation).eval().to(dtype)
    free = dict.fromkeys((0, 2, 3), torch.export.Dim.AUTO)
    program = anyshape.compile(model, (torch.randn(2, 2, 14, 16).to(dtype),), dynamic_shapes=(free,))
    with torch.no_grad():
        for b, h, w in ((1, 5, 5), (3, 5, 9), (2, 8, 7), (1, 30, 5), (0, 6, 5)):
            x = torch.randn(b, 2, h, w).to(dtype)
            assert_same(program(x), model(x), message=(b, h, w))
