"""Python numbers that the data say are what a model returns, not tensors: `x.item()`, and how many elements were found."""

import pytest
import torch

import anyshape


class _Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[int, float, torch.Tensor]:
        return x.nonzero().shape[0], x.sum().item(), x + 1


class _Item(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> float:
        return x.item()


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_counts_and_sums(size: int) -> None:
    program = anyshape.compile(_Numbers(), (torch.tensor([2.5, 0.0]),))
    x = torch.arange(size, dtype=torch.float32)
    _check(program(x), x)


class _Total(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        return x.sum().item(), x + 1


def test_sums_inside_pytorch() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        program = torch.compile(_Total(), backend="anyshape", dynamic=True, fullgraph=True, options={"strict": True})
        for size in (2, 7):
            total, more = program(torch.arange(size, dtype=torch.float32))
            assert type(total) is float
            assert total == size * (size - 1) / 2
            assert more.tolist() == [each + 1 for each in range(size)]


def _check(got: object, x: torch.Tensor) -> None:
    count, total, more = _Numbers()(x)
    assert isinstance(got, tuple)
    assert type(got[0]) is int
    assert type(got[1]) is float
    assert got[0] == count
    assert got[1] == total
    torch.testing.assert_close(got[2], more, rtol=0, atol=0)


@pytest.mark.parametrize("value", [3.25, 3, 1 + 2**40])
def test_item_of_an_argument(value: float) -> None:
    program = anyshape.compile(_Item(), (torch.tensor(type(value)(2)),))
    got = program(torch.tensor(value))
    assert type(got) is type(value)
    assert got == value
