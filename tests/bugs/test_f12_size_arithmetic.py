"""F12: arithmetic on sizes known at run time is exact, in 64 bits, and rounds as Python does."""

from __future__ import annotations

import torch

from tests.end_to_end.eager import check, compiled


def quotients(x: torch.Tensor) -> tuple[int | torch.Tensor, ...]:
    n = x.shape[0]
    return n // 10, -(-n // 10), (n + 9) // 10, n % 10, -n // 7, -n % 7, n * 3 - 5, max(n, 4), min(n, 4)


def test_quotients() -> None:
    program = compiled(quotients, torch.empty(24))
    assert program(torch.empty(24))[1] == 3
    for size in (0, 1, 2, 7, 9, 10, 11, 24, 33, 300):
        check(program, quotients, torch.empty(size))


def test_products_do_not_wrap() -> None:
    def f(x: torch.Tensor) -> tuple[int, int, torch.Tensor]:
        n = x.shape[0]
        return n * 2**20, n * 2**40, torch.full((1,), n * 2**20, dtype=torch.int64) + x.shape[0] * 2**33

    program = compiled(f, torch.empty(5))
    for size in (0, 1, 4097, 10000):
        assert program(torch.empty(size))[:2] == (size << 20, size << 40)
        check(program, f, torch.empty(size))


def test_sizes_as_values() -> None:
    """A size used as a number in a kernel, in floats and integers."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, m = x.shape
        return x * n, x / (m + 1), x.new_ones(2) * (n * m), torch.arange(m) + n

    program = compiled(f, torch.randn(3, 4))
    for shape in ((1, 1), (7, 2), (33, 5), (0, 3), (3, 0)):
        check(program, f, torch.randn(shape))


def blocks(x: torch.Tensor) -> torch.Tensor:
    """Ceil-division used for shapes: pad to a multiple of 8, cut into blocks, reduce."""
    n = x.shape[0]
    count = (n + 7) // 8
    return torch.nn.functional.pad(x, (0, count * 8 - n)).reshape(count, 8).sum(-1)


def test_blocks_of_a_run_time_length() -> None:
    program = compiled(blocks, torch.randn(21))
    for size in (1, 7, 8, 9, 16, 33, 64):
        check(program, blocks, torch.randn(size))
