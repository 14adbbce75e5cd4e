"""F25: four threads call one compiled function with different sizes; a kernel of each kind."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.end_to_end.eager import compiled


@pytest.mark.parametrize("kernel_threads", [1, 2])
def test_every_value_is_right(kernel_threads: int) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x @ w).softmax(-1), x.t().sum(0) + 1

    shapes = [(1, 3, 5), (64, 33, 40), (7, 2, 1), (300, 17, 9)]
    program = compiled(f, torch.randn(2, 3), torch.randn(3, 4), threads=kernel_threads)
    calls = [(torch.randn(rows, depth), torch.randn(depth, width)) for rows, depth, width in shapes]
    expected = [f(*call) for call in calls]
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                index = (number + turn) % len(calls)
                for got, value in zip(program(*calls[index]), expected[index], strict=True):
                    torch.testing.assert_close(got, value, rtol=2e-5, atol=2e-5)
        except BaseException as error:
            wrong.append(f"thread {number}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
