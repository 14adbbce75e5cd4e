"""F05: `x *= 2; return x + y` where x and y are parts of one buffer: y sees what x wrote."""

from __future__ import annotations

import torch

from tests.bugs.front_ends import through_torch_compile


def doubled_and_added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x *= 2
    return x + y


def test_separate_first_then_one_buffer() -> None:
    program = through_torch_compile(doubled_and_added)
    assert program(torch.ones(4), torch.ones(4)).tolist() == [3, 3, 3, 3]
    b = torch.ones(8)
    assert program(b[:4], b[2:6]).tolist() == [4, 4, 3, 3]
    assert b.tolist() == [2, 2, 2, 2, 1, 1, 1, 1]


def test_other_shifts_and_sizes() -> None:
    program = through_torch_compile(doubled_and_added)
    for size in (4, 1, 7, 0):
        for shift in (0, 1, size):
            ours, eagers = torch.ones(2 * size), torch.ones(2 * size)
            got = program(ours[:size], ours[shift : shift + size])
            assert torch.equal(got, doubled_and_added(eagers[:size], eagers[shift : shift + size]))
            assert torch.equal(ours, eagers)
