"""A model may write to its arguments: the caller's tensors hold what eager leaves in them, and a result that is one of them is it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.support.errors import ArgumentError


class Accumulates(nn.Module):
    def forward(self, total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        total.add_(x.sum(0))
        return total, total * 2


class WritesAPart(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        y[1:] = x[:-1].to(y.dtype)
        return x + 1


class WritesTheFirst(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> None:
        x.copy_(y * 2)


class WritesTheSecond(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> None:
        y.copy_(x * 2)


def test_a_result_that_is_the_argument() -> None:
    program = anyshape.compile(Accumulates(), (torch.zeros(3), torch.ones(2, 3)))
    for rows, columns in ((2, 3), (0, 5), (7, 1), (4, 0)):
        x = torch.randn(rows, columns, dtype=torch.float32)
        ours, eagers = torch.ones(columns), torch.ones(columns)
        returned, doubled = program(ours, x)
        _, expected = Accumulates()(eagers, x)
        assert returned is ours
        torch.testing.assert_close(ours, eagers)
        torch.testing.assert_close(doubled, expected)


def test_a_part_through_strides_in_another_dtype() -> None:
    program = anyshape.compile(WritesAPart(), (torch.ones(4), torch.ones(4, dtype=torch.float64)))
    for size in (4, 1, 9):
        ours, eagers = torch.zeros(2 * size, dtype=torch.float64), torch.zeros(2 * size, dtype=torch.float64)
        x = torch.randn(size)
        assert torch.equal(program(x, ours[::2]), WritesAPart()(x, eagers[::2]))
        assert torch.equal(ours, eagers)


def test_programs_in_the_cache_differ_by_what_is_written(tmp_path: Path) -> None:
    options = anyshape.Options(cache=tmp_path)
    for _ in range(2):  # the second round comes from the cache
        for module in (WritesTheFirst(), WritesTheSecond()):
            ours, eagers = ([torch.tensor([1.0, 2.0]), torch.tensor([5.0, 6.0])] for _ in range(2))
            assert anyshape.compile(module, (torch.ones(3), torch.ones(3)), options=options)(*ours) is None
            module(*eagers)
            assert all(map(torch.equal, ours, eagers))


def test_memory_shared_with_another_argument_is_refused() -> None:
    program = anyshape.compile(WritesAPart(), (torch.ones(4), torch.ones(4)))
    buffer = torch.arange(8.0)
    with pytest.raises(ArgumentError, match="shares memory"):
        program(buffer[:4], buffer[2:6])
    program(buffer[:4], buffer[4:])
    assert buffer.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
