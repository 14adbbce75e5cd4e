"""An example axis of size 1 beside a larger one: the program should still take any size on either."""

import pytest
import torch

from tests.end_to_end.eager import compiled


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def test_the_example_itself() -> None:
    program = compiled(Add(), torch.randn(3, 4), torch.randn(1, 4))
    for rows in (0, 1, 2, 7):
        x, y = torch.randn(rows, 4), torch.randn(1, 4)
        assert torch.equal(program(x, y), x + y)


@pytest.mark.xfail(strict=True, reason="the axis of size 1 comes out of the capture as the constant 1")
def test_equal_sizes() -> None:
    program = compiled(Add(), torch.randn(3, 4), torch.randn(1, 4))
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    assert torch.equal(program(x, y), x + y)
