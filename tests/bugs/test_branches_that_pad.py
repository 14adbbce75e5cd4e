"""A branch in the model's Python whose two sides are one program: no padding is padding by 0, so neither side may fix the size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

SIZES = ((6, 7), (8, 7), (6, 4), (8, 12), (1, 4), (5, 1), (3, 16))


class Windows(nn.Module):
    """Means of windows of 4 × 4, repeated: padded to whole windows, and cut to the size of x [b, h, w] afterwards."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[1:]
        bottom, right = (4 - height % 4) % 4, (4 - width % 4) % 4
        if right or bottom:
            x = F.pad(x, (0, right, 0, bottom))
        rows, columns = x.shape[1] // 4, x.shape[2] // 4
        means = x.view(-1, rows, 4, columns, 4).mean((2, 4))
        x = x - means.repeat_interleave(4, 1).repeat_interleave(4, 2)
        if right > 0 or bottom > 0:
            x = x[:, :height, :width].contiguous()
        return x


class ByRemainder(nn.Module):
    """Pairs of neighbours' sums of x [b, h, w], where one or both axes may lack a neighbour, and fours of columns of the rest."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[1:]
        if (height % 2 == 1) or (width % 2 == 1):
            x = F.pad(x, (0, width % 2, 0, height % 2))
        x = x[:, 0::2] + x[:, 1::2]
        if x.shape[2] % 4 != 0:
            x = F.pad(x, (0, 4 - x.shape[2] % 4))
        return x.view(*x.shape[:2], x.shape[2] // 4, 4).sum(3)


@pytest.mark.parametrize("example", [(6, 7), (8, 12)])
@pytest.mark.parametrize("model", [Windows, ByRemainder])
def test_sizes_that_need_padding_and_sizes_that_do_not(
    model: Callable[[], nn.Module], example: tuple[int, int]
) -> None:
    module = model()
    program = compiled(module, torch.randn(2, *example))
    for batch, (height, width) in enumerate(SIZES):
        check(program, module, torch.randn(batch, height, width))


def test_a_branch_that_computes_something_else_is_still_a_condition() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 4 != 0:
            x = F.pad(x, (0, 4 - x.shape[0] % 4)) + 1
        return x.reshape(-1, 4).sum(1)

    program = compiled(f, torch.randn(6))
    check(program, f, torch.randn(9))
    with pytest.raises(GuardError):
        program(torch.randn(8))


def test_a_branch_behind_weights_of_zero_is_still_a_condition() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (1 + self.gate * (2 if x.shape[0] % 4 else 3))

    module = Gated()
    program = compiled(module, torch.randn(6))
    check(program, module, torch.randn(9))
    with pytest.raises(GuardError):
        program(torch.randn(8))


class HiddenBehindTheBranch(nn.Module):
    """Fours of x [b, n], padded; of one length that needs no padding, far from all others, something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        missing = (4 - x.shape[1] % 4) % 4
        if missing > 0:
            x = F.pad(x, (0, missing))
        elif x.shape[1] == LENGTH:
            x = x + 1
        return x.view(x.shape[0], -1, 4).sum(2)


LENGTH = 4000


def test_a_condition_behind_the_branch_keeps_the_guard() -> None:
    """At no size near the example do graph and model differ."""
    module = HiddenBehindTheBranch()
    program = compiled(module, torch.randn(2, 6))
    check(program, module, torch.randn(3, 9))
    for length in (8, LENGTH):
        with pytest.raises(GuardError):
            program(torch.randn(3, length))


class HiddenBehindTwoBranches(nn.Module):
    """Means of windows of 4 × 4; where neither axis of x [b, h, w] needs padding, a square of one size is something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bottom, right = (4 - x.shape[1] % 4) % 4, (4 - x.shape[2] % 4) % 4
        if right:
            x = F.pad(x, (0, right))
        if bottom:
            x = F.pad(x, (0, 0, 0, bottom))
        if not right and not bottom and x.shape[1] == LENGTH:
            x = -x
        return x.view(x.shape[0], x.shape[1] // 4, 4, x.shape[2] // 4, 4).mean((2, 4))


def test_a_condition_behind_two_branches_is_not_passed_by() -> None:
    module = HiddenBehindTwoBranches()
    program = compiled(module, torch.randn(2, 6, 7))
    for height, width in ((6, 7), (9, 10), (LENGTH, 4)):
        x = torch.randn(1, height, width)
        try:
            got = program(x)
        except GuardError:
            assert (height, width) == (LENGTH, 4)
        else:
            torch.testing.assert_close(got, module(x))


def test_a_condition_on_one_size_behind_the_branch_keeps_the_guard() -> None:
    """Of a batch of one, which export takes for one of two or more without a question that it notes as a guard."""

    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 4 != 0:
            x = F.pad(x, (0, 4 - x.shape[1] % 4))
        elif x.shape[0] == 1:
            x = x + 1
        return x.view(x.shape[0], -1, 4).sum(2)

    program = compiled(f, torch.randn(3, 6))
    check(program, f, torch.randn(1, 9))
    with pytest.raises(GuardError):
        program(torch.randn(1, 8))


def test_a_size_that_differs_far_from_the_example_keeps_the_guard() -> None:
    """No question: on the other side a quotient of the size that is 0 at all sizes nearby."""

    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 4 != 0:
            x = F.pad(x, (0, 4 - x.shape[1] % 4))
        else:
            x = x * (x.shape[1] // LENGTH + 1)
        return x.view(x.shape[0], -1, 4).sum(2)

    program = compiled(f, torch.randn(2, 6))
    check(program, f, torch.randn(3, 9))
    with pytest.raises(GuardError):
        program(torch.randn(3, LENGTH))


def test_padding_by_concatenation() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 4 != 0:
            x = torch.cat([x, x.new_zeros(x.shape[0], 4 - x.shape[1] % 4)], 1)
        return x.view(x.shape[0], -1, 4).sum(2)

    program = compiled(f, torch.randn(2, 6))
    for length in (1, 4, 7, 8):
        check(program, f, torch.randn(3, length))


def test_writing_on_the_other_side_of_a_rounded_size_keeps_the_guard() -> None:
    """4 - n % 4 is 4 where n % 4 is 0, and graphs that write cannot be compared: what is right on one side only may not serve both."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        if x.shape[1] % 4 != 0:
            x = F.pad(x, (0, 4 - x.shape[1] % 4))
        else:
            x.add_(x.shape[1] // LENGTH)
        return x.view(x.shape[0], -1, 4).sum(2)

    program = compiled(f, torch.randn(2, 6))
    check(program, f, torch.randn(3, 9))
    for length in (8, LENGTH):
        with pytest.raises(GuardError):
            program(torch.randn(3, length))


def test_a_remainder_asked_behind_many_branches_keeps_the_guards() -> None:
    """More combinations of answers than are exported one by one, and one of them asks for a remainder that no size near the example has."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for axis in range(4):
            missing = (4 - x.shape[axis] % 4) % 4
            if missing:
                x = F.pad(x, (0, 0) * (3 - axis) + (0, missing))
            elif axis == 3 and x.shape[axis] % LENGTH == 0:
                x = x + 1
        a, b, c, d = x.shape
        return x.view(a // 4, 4, b // 4, 4, c // 4, 4, d // 4, 4).sum((1, 3, 5, 7))

    program = compiled(f, torch.randn(5, 6, 7, 9))
    check(program, f, torch.randn(2, 3, 5, 7))
    for sizes in ((5, 6, 7, 8), (1, 2, 3, LENGTH), (4, 4, 4, 4)):
        x = torch.randn(sizes)
        try:
            got = program(x)
        except GuardError:
            continue
        torch.testing.assert_close(got, f(x))


class ShiftedWindows(nn.Module):
    """Sums over windows of 4 of x [b, n], padded, and shifted by 2, where a mask, written in parts, tells the ends apart."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        missing = (4 - length % 4) % 4
        if missing:
            x = F.pad(x, (0, missing))
        mask = torch.zeros(1, x.shape[1])
        mask[:, -4:-2] = 1
        mask[:, -2:] = 2
        x = (torch.roll(x, -2, 1) * (1 + mask)).view(x.shape[0], x.shape[1] // 4, 4).cumsum(2)
        x = torch.roll(x.view(x.shape[0], x.shape[1] * 4), 2, 1)
        if missing:
            x = x[:, :length].contiguous()
        return x.view(x.shape[0], length, 1)


@pytest.mark.parametrize("example", [6, 8])
def test_a_mask_that_is_written_in_parts_is_the_same_on_both_sides(example: int) -> None:
    module = ShiftedWindows()
    program = compiled(module, torch.randn(2, example))
    for length in (5, 6, 7, 8, 12, 33):
        check(program, module, torch.randn(3, length))


def test_multiples_on_several_axes_are_found_among_many_sizes() -> None:
    """Of sizes at random, hardly any are multiples of 48 on both axes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for axis in (0, 1):
            missing = (48 - x.shape[axis] % 48) % 48
            if missing:
                x = F.pad(x, (0, 0) * (1 - axis) + (0, missing))
        return x.view(x.shape[0] // 48, 48, x.shape[1] // 48, 48).sum((1, 3))

    program = compiled(f, torch.randn(50, 49))
    for sizes in ((50, 49), (48, 7), (1, 96), (48, 96), (144, 48)):
        check(program, f, torch.randn(sizes))
