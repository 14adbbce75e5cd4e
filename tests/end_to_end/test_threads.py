"""One compiled program in many threads, and on different numbers of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import anyshape
from anyshape.driver.api import CompiledModule
from anyshape.support.errors import GuardError, IndexOutOfRange
from tests.end_to_end.eager import assert_same, compiled

WIDTH = 48


class Model(nn.Module):
    """An embedding, an attention, a product and a row reduction."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.qkv = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.norm(x + self.out(mixed))


def tokens(batch: int, length: int) -> torch.Tensor:
    return (torch.arange(batch * length) * 31 % 100).reshape(batch, length)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model().eval()


@pytest.fixture(scope="module")
def programs(model: Model) -> dict[int, CompiledModule]:
    """By number of threads."""
    return {count: compiled(model, tokens(2, 3), threads=count) for count in (1, 2)}


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Runs work(0), …, work(count − 1) at once; raises what the first of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("kernel_threads", [1, 2])
def test_four_threads_with_different_sizes(
    programs: dict[int, CompiledModule], model: Model, kernel_threads: int
) -> None:
    """Each thread makes its own calls, good and bad, and gets its own results, bytes and all."""
    program = programs[kernel_threads]
    shapes = [(1, 1), (2, 9), (5, 33), (16, 4)]
    expected = [program(tokens(*shape)) for shape in shapes]
    with torch.no_grad():
        for shape, value in zip(shapes, expected, strict=True):
            assert_same(value, model(tokens(*shape)), message=shape)

    def work(number: int) -> None:
        for turn in range(25):
            index = (number + turn) % 4
            assert torch.equal(program(tokens(*shapes[index])), expected[index])
            if turn % 5 == number:
                with pytest.raises(IndexOutOfRange, match=rf"\b{200 + number}\b"):
                    program(torch.full((2, 3), 200 + number))

    in_threads(work, 4)


def test_results_on_one_and_two_threads(programs: dict[int, CompiledModule]) -> None:
    for shape in ((1, 1), (1, 200), (7, 3), (16, 60), (0, 5)):
        one, two = (programs[count](tokens(*shape)) for count in (1, 2))
        assert_same(two, one, tolerance=1e-6, message=shape)
        assert torch.equal(programs[2](tokens(*shape)), two), "with as many threads, every bit is the same"


def test_compiling_in_four_threads() -> None:
    """Compilations at once do not disturb each other."""
    programs: dict[int, CompiledModule] = {}
    lock = threading.Lock()  # PyTorch's export is not made for several threads

    def work(number: int) -> None:
        with lock:
            programs[number] = compiled(lambda x, n=number: x * (n + 2) + x.sum(-1, keepdim=True), torch.randn(2, 3))
        assert_same(programs[number](torch.ones(5, 7)), torch.full((5, 7), number + 9.0))

    in_threads(work, 4)
    for number, program in programs.items():
        assert_same(program(torch.ones(1, 2)), torch.full((1, 2), number + 4.0))


def test_an_error_in_one_thread_stays_there(programs: dict[int, CompiledModule]) -> None:
    program = anyshape.compile(nn.ReLU(), (torch.randn(3, 4),), dynamic_shapes=None)

    def work(number: int) -> None:
        for _ in range(50):
            if number == 0:
                with pytest.raises(GuardError):
                    program(torch.randn(3, 5))
            else:
                x = torch.randn(3, 4)
                assert torch.equal(program(x), x.relu())

    in_threads(work, 4)
