"""F15: compiling, loading and running programs leaves the floating-point mode of the process alone."""

from __future__ import annotations

import threading

import torch

from tests.end_to_end.eager import compiled


def assert_denormals(where: str) -> None:
    tiny = float("1e-310")
    assert tiny * 1 == 1e-310 != 0, where
    assert (torch.tensor([tiny], dtype=torch.float64) * 1).item() == 1e-310, where


def test_denormals_survive() -> None:
    assert_denormals("before")
    program = compiled(lambda x: (torch.exp(x) * x.tanh()) @ x.t(), torch.randn(2, 3), threads=2)
    assert_denormals("after loading")
    program(torch.randn(300, 300))
    assert_denormals("after a call")
    thread = threading.Thread(target=lambda: (program(torch.randn(300, 300)), assert_denormals("in a thread")))
    thread.start()
    thread.join()


def test_kernels_keep_denormals() -> None:
    """In the caller's thread, and in the threads of the pool."""
    for dtype, tiny in ((torch.float64, 2.0**-1060), (torch.float32, 2.0**-140)):
        program = compiled(lambda x: (x * 1, x * 0.5 + x * 0.5), torch.randn(4, dtype=dtype), threads=2)
        for size in (1, 7, 100_000):
            x = torch.full((size,), tiny, dtype=dtype)
            first, second = program(x)
            assert torch.equal(first, x) and torch.equal(second, x)
