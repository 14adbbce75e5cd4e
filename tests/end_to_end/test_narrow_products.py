"""Products on narrow element types through the whole compiler: weights stay narrow, sums are wide."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.end_to_end.eager import compiled

SIZES = (1, 2, 7, 33, 130)


class IntegerProduct(nn.Module):
    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        weight = torch.randint(-128, 128, (96, 72), dtype=torch.int8, generator=generator)
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x, self.weight)  # pyright: ignore[reportPrivateImportUsage]


def test_bytes_are_summed_in_words() -> None:
    module = IntegerProduct()
    example = torch.zeros(32, 96, dtype=torch.int8)
    program = compiled(module, example)
    assert sum(name.endswith("contract") for name in program.report().kernel_launches) == 1
    for rows in SIZES:
        x = torch.randint(-128, 128, (rows, 96), dtype=torch.int8)
        expected = x.to(torch.int64) @ module.weight.to(torch.int64)
        assert torch.equal(program(x).to(torch.int64), expected)
    extreme = torch.full((5, 96), -128, dtype=torch.int8)
    assert torch.equal(program(extreme).to(torch.int64), extreme.to(torch.int64) @ module.weight.to(torch.int64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_layers_sum_in_f32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(48, 200), nn.GELU(), nn.Linear(200, 40)).to(dtype).eval()
    program = compiled(module, torch.zeros(2, 48, dtype=dtype))
    report = program.report()
    assert sum(count for name, count in report.kernel_launches.items() if name.endswith("contract")) == 2
    packed = 2 * (48 * 256 + 200 * 64) + 2 * (200 + 40)
    assert report.constant_bytes == packed, "weights keep their 16 bits"
    wide = nn.Sequential(nn.Linear(48, 200), nn.GELU(), nn.Linear(200, 40)).double().eval()
    wide.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    for rows in SIZES:
        x = torch.randn(rows, 48, dtype=dtype)
        with torch.no_grad():
            ours, eager, exact = program(x).double(), module(x).double(), wide(x.double())
        assert (ours - exact).abs().max() <= 1.5 * (eager - exact).abs().max() + torch.finfo(dtype).eps


class NarrowWeights(nn.Module):
    """Computes in f32 on weights that are kept in 16 bits, one of them transposed and one with a bias."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.up, self.bias = nn.Parameter(torch.randn(200, 100).to(dtype)), nn.Parameter(torch.randn(200).to(dtype))
        self.down = nn.Parameter(torch.randn(200, 40).to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up, bias, down = (parameter.to(x.dtype) for parameter in (self.up, self.bias, self.down))
        return functional.gelu(functional.linear(x, up, bias)) @ down


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_f32_times_weights_of_sixteen_bits(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = NarrowWeights(dtype).eval()
    program = compiled(module, torch.zeros(2, 100))
    report = program.report()
    assert dict(report.kernel_launches) == {"k0_contract": 1, "k1_contract": 1}, "no kernel widens a weight"
    packed = 2 * (100 * 256 + 200 * 64)
    assert report.constant_bytes == packed + 4 * 200, "weights keep their 16 bits, the bias is folded"
    for rows in SIZES:
        x = torch.randn(rows, 100)
        with torch.no_grad():
            ours, eager, exact = program(x).double(), module(x).double(), module(x.double())
        assert (ours - exact).abs().max() <= 4 * (eager - exact).abs().max()


class ByteWeights(nn.Module):
    """Weights of signed bytes with a scale for each row behind the product, as weight-only quantisation has them; one transposed."""

    up: torch.Tensor
    down: torch.Tensor
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        for name, shape in (("up", (200, 100)), ("down", (200, 40))):
            self.register_buffer(name, torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator))
        self.register_buffer("scale", torch.rand(200, generator=generator) / 300)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = functional.linear(x, self.up.to(x.dtype)) * self.scale
        return functional.gelu(up) @ self.down.to(x.dtype)


def test_f32_times_weights_of_bytes() -> None:
    module = ByteWeights().eval()
    program = compiled(module, torch.zeros(2, 100))
    report = program.report()
    assert dict(report.kernel_launches) == {"k0_contract": 1, "k1_contract": 1}, "no kernel widens a weight"
    assert report.constant_bytes == 100 * 256 + 200 * 64 + 4 * 200, "weights keep their bytes"
    for rows in (0, *SIZES):
        x = torch.randn(rows, 100)
        with torch.no_grad():
            torch.testing.assert_close(program(x), module(x), rtol=1e-4, atol=1e-3)
