"""F07: results that are views or rolls of tensors with other strides have eager's strides, those of axes of size 1 included."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import through_torch_compile


def channels_last(n: int) -> torch.Tensor:
    return torch.arange(n * 50).view(n, 5, 2, 5).to(memory_format=torch.channels_last)


def test_roll_of_channels_last() -> None:
    program = through_torch_compile(lambda x: x.roll(-1, 0))
    for n in (2, 3, 1):
        got, expected = program(channels_last(n)), channels_last(n).roll(-1, 0)
        assert torch.equal(got, expected) and got.stride() == expected.stride()


def test_as_strided_of_the_roll() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x.roll(-1, 0), (5, 10), (4, 1), 0)

    program = through_torch_compile(f)
    for n in (2, 3):
        got, expected = program(channels_last(n)), f(channels_last(n))
        assert torch.equal(got, expected) and got.stride() == expected.stride()


def test_arguments_with_any_strides() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum(-1) + x[..., 0]

    program = through_torch_compile(f)
    for x in (
        torch.randn(4, 6).T,
        torch.randn(8, 6)[::2],
        torch.randn(1, 6).expand(5, 6),
        torch.randn(3, 1).expand(3, 4),
    ):
        torch.testing.assert_close(program(x), f(x), check_stride=True)
