"""F02: one dynamic axis called with 1, 2, 0, 7, 1 is one program; 1 or n on either side broadcasts as eager."""

import itertools

import pytest
import torch

from anyshape.codegen.llvm import objects_emitted
from tests.bugs.front_ends import through_torch_compile
from tests.end_to_end.eager import check, compiled


def test_one_axis_with_one_two_zero_seven_one() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    program = compiled(f, torch.randn(3))
    emitted = objects_emitted()
    for size in (1, 2, 0, 7, 1):
        check(program, f, torch.randn(size))
    assert objects_emitted() == emitted


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_the_shape_of_the_example_does_not_matter(dtype: torch.dtype) -> None:
    """Equal sizes in the example leave equal sizes as the contract: a call with others is refused, never wrong."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, y)

    def argument(*shape: int) -> torch.Tensor:
        return torch.randint(0, 2, shape).to(dtype)

    program = compiled(f, argument(4, 4), argument(4, 4))
    for rows, columns in itertools.product((0, 1, 4, 7), (0, 1, 4, 7)):
        check(program, f, argument(rows, columns), argument(rows, columns))


@pytest.mark.parametrize("shape", [(4, 4), (1, 4), (4, 1), (1, 1), (0, 1)], ids=str)
def test_broadcasts(shape: tuple[int, int]) -> None:
    """`x + y` with `y` of this shape, compiled from this example and from a full one."""

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + y, y - x

    x, y = torch.randn(1 if shape[0] == 0 else 4, 4), torch.randn(shape)
    expected = f(x, y)
    program = compiled(f, x, y)
    for got, value in zip(program(x, y), expected, strict=True):
        torch.testing.assert_close(got, value)


def test_explicit_broadcasts_of_one() -> None:
    """Axes of size 1 made by the model itself, beside dynamic sizes that happen to be 1."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[:, None] * y[None, :] + x.sum() - y[:, None, None].amax(0)

    program = compiled(f, torch.randn(3), torch.randn(5))
    for rows, columns in itertools.product((1, 2, 7, 33), (1, 2, 7, 33)):
        check(program, f, torch.randn(rows), torch.randn(columns))


def test_no_new_kernel_through_torch_compile() -> None:
    """TorchDynamo hands over new graphs for sizes of 0 and 1: the program of the first serves them."""
    program = through_torch_compile(lambda x: x * 2 + 1)
    program(torch.randn(3))
    emitted = objects_emitted()
    for size in (1, 2, 0, 7, 1):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), x * 2 + 1)
    assert objects_emitted() == emitted


def test_broadcasts_through_torch_compile() -> None:
    program = through_torch_compile(lambda x, y: (x + y, y - x))
    shapes = ((4, 4), (1, 4), (4, 1), (1, 1), (0, 1))
    for again in (False, True):
        emitted = objects_emitted()
        for shape in shapes:
            x, y = torch.randn(1 if shape[0] == 0 else 4, 4), torch.randn(shape)
            for got, expected in zip(program(x, y), (x + y, y - x), strict=True):
                torch.testing.assert_close(got, expected)
        assert not again or objects_emitted() == emitted
