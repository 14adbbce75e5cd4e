"""The first path: a two-layer perceptron and a softmax, every axis dynamic, at small, odd, empty and larger sizes."""

import itertools

import pytest
import torch
from torch import nn

from anyshape.driver.api import CompiledModule
from tests.end_to_end.eager import check, compiled

SIZES = (0, 1, 2, 7, 33, 300)


class Perceptron(nn.Module):
    """softmax(gelu(x W1 + b1) W2 + b2); a free width has its weights among the inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(33, 50), nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(nn.functional.gelu(self.first(x))), -1)


def free_perceptron(
    x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor
) -> torch.Tensor:
    return torch.relu(x @ w1 + b1) @ w2 + b2


def free_arguments(rows: int, depth: int, hidden: int, width: int) -> list[torch.Tensor]:
    torch.manual_seed(rows + 7 * depth + 49 * hidden + width)
    shapes = [(rows, depth), (depth, hidden), (hidden,), (hidden, width), (width,)]
    return [torch.randn(shape) / max(1, shape[0]) ** 0.5 for shape in shapes]


@pytest.fixture(scope="module")
def perceptron() -> tuple[CompiledModule, Perceptron]:
    module = Perceptron()
    return compiled(module, torch.randn(2, 33)), module


@pytest.fixture(scope="module")
def free() -> CompiledModule:
    return compiled(free_perceptron, *free_arguments(5, 6, 7, 8))


@pytest.fixture(scope="module")
def softmax() -> CompiledModule:
    return compiled(lambda x: torch.softmax(x, -1), torch.randn(2, 33))


@pytest.mark.parametrize("rows", SIZES)
def test_perceptron(perceptron: tuple[CompiledModule, Perceptron], rows: int) -> None:
    program, module = perceptron
    check(program, module, torch.randn(rows, 33))


def test_perceptron_with_every_axis_free(free: CompiledModule) -> None:
    """Each pair of axes takes each pair of sizes, among them 0 for the depth of a product."""
    assert set(free.report().symbols.values()) >= {"args[0], axis 0", "args[0], axis 1"}
    assert not [guard for guard in free.report().guards if guard.split()[-1].isdigit()], "no size may be fixed"
    for first, second in itertools.product(SIZES, SIZES):
        for sizes in ((first, second, 7, 33), (33, first, second, 2), (2, 7, first, second)):
            check(free, free_perceptron, *free_arguments(*sizes))


@pytest.mark.parametrize(("rows", "width"), list(itertools.product(SIZES, SIZES)))
def test_softmax(softmax: CompiledModule, rows: int, width: int) -> None:
    torch.manual_seed(rows * 301 + width)
    check(softmax, lambda x: torch.softmax(x, -1), 3 * torch.randn(rows, width))


def test_one_program_serves_them_all(softmax: CompiledModule, perceptron: tuple[CompiledModule, Perceptron]) -> None:
    report = softmax.report()
    assert (report.kernels, report.guards) == (1, ())
    assert perceptron[0].report().launches == 3
