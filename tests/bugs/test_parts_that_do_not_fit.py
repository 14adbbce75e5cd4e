"""Sizes that PyTorch's shape rules do not compare: a part that fits in the example alone was taken, and read past its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from anyshape.support.errors import AnyshapeError, ModelError
from tests.bugs.front_ends import both_ways, check_both_ways
from tests.end_to_end.eager import compiled

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

Function = Callable[..., torch.Tensor]
FIRST = torch.tensor([True, False, True])


def put(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = v
    return x


def added(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return x.index_put((i, i), v, accumulate=True)


def places(*indices: int) -> torch.Tensor:
    return torch.tensor(indices)


X = torch.randn(3, 5)
WRONG: dict[str, tuple[Function, tuple[torch.Tensor, ...], list[tuple[torch.Tensor, ...]]]] = {
    "rows": (
        put, (X, places(0, 2, 1, 0), torch.randn(4, 5)),
        [(X, places(0, 1, 2, 0), torch.randn(3, 5)), (X, places(0, 1), torch.randn(2, 4)), (X, places(0, 1), torch.randn(0, 5))],
    ),
    "elements": (added, (X, places(0, 2, 1), torch.randn(3)), [(X, places(0, 1), torch.randn(3)), (X, places(0), torch.randn(2))]),
    "mask": (
        put, (X, FIRST, torch.randn(2, 5)),
        [(X, torch.ones(4).bool(), torch.randn(4, 5)), (X, torch.ones(2).bool(), torch.randn(2, 5)), (X, FIRST, torch.randn(2, 4))],
    ),
    "put": (
        torch.put, (X, places(0, 7, 2), torch.randn(3)), [(X, places(0, 1), torch.randn(3)), (X, places(0, 1), torch.randn(1))],
    ),
    "slice_scatter": (
        lambda x, y: torch.slice_scatter(x, y, 0, 1, 3), (torch.randn(5, 4), torch.randn(2, 4)), [(torch.randn(5, 4), torch.randn(2, 5))],
    ),
    "diagonal_scatter": (
        torch.diagonal_scatter, (torch.randn(4, 4), torch.randn(4)),
        [(torch.randn(4, 4), torch.randn(3)), (torch.randn(5, 3), torch.randn(4))],
    ),
    "masked_select": (
        torch.masked_select, (X, X > 0), [(X, torch.ones(2, 5).bool()), (X, torch.ones(3, 4).bool())],
    ),
    "fold": (lambda x: functional.fold(x, (4, 4), 2), (torch.randn(2, 12, 9),), [(torch.randn(2, 11, 9),), (torch.randn(2, 12, 8),)]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_sizes_that_do_not_fit(case: str) -> None:
    function, example, calls = WRONG[case]
    program = compiled(function, *example)
    torch.testing.assert_close(program(*example), function(*example))
    for args in calls:
        with pytest.raises((RuntimeError, IndexError)):
            function(*args)
        with pytest.raises(AnyshapeError, match="got size"):
            program(*args)


def test_a_program_of_torch_compile_refuses_them_too() -> None:
    function, example, calls = WRONG["rows"]
    program = both_ways(function, *example)["torch.compile"]
    program(*example)
    for args in calls:
        with pytest.raises((RuntimeError, IndexError)):
            program(*args)


OFFSETS = torch.tensor([0, 2, 4])
BAGS = torch.randn(6, 3)
AT_RUN_TIME: dict[str, tuple[Function, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {
    "first offset": (
        lambda i, o: functional.embedding_bag(i, BAGS, o), (places(1, 2, 3, 4), OFFSETS[:2]), (places(1, 2, 3, 4), OFFSETS[1:]),
    ),
    "first offset of ends": (
        lambda i, o: functional.embedding_bag(i, BAGS, o, mode="sum", include_last_offset=True),
        (places(1, 2, 3, 4), OFFSETS), (places(1, 2, 3, 4), OFFSETS[1:]),
    ),
    "more rows than places": (put, (X, FIRST, torch.randn(2, 5)), (X, ~FIRST, torch.randn(2, 5))),
    "more rows than no places": (put, (X, FIRST, torch.randn(2, 5)), (X, FIRST & ~FIRST, torch.randn(2, 5))),
    "fewer rows than places": (put, (X, FIRST, torch.randn(2, 5)), (X, FIRST | True, torch.randn(2, 5))),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y, 0, 2), (X, X[0]), (X[:2], X[0])),
    "select_scatter from the end": (lambda x, y: torch.select_scatter(x, y, 0, -2), (X, X[0]), (X[:1], X[0])),
}  # fmt: skip


@pytest.mark.parametrize("case", AT_RUN_TIME)
def test_what_a_call_alone_shows(case: str) -> None:
    function, example, wrong = AT_RUN_TIME[case]
    with pytest.raises((RuntimeError, IndexError)) as eager:
        function(*wrong)
    for program in both_ways(function, *example).values():
        torch.testing.assert_close(program(*example), function(*example))
        with pytest.raises(eager.type):
            program(*wrong)
    with pytest.raises(AnyshapeError):
        compiled(function, *example)(*wrong)


def test_offsets_of_no_bags_and_a_row_for_no_place() -> None:
    def bags(i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(i, BAGS, o)

    check_both_ways(bags, *((places(1, 2, 3, 4), OFFSETS[:n]) for n in (2, 1, 0)))
    check_both_ways(
        put, (X, FIRST, torch.randn(2, 5)), (X, ~FIRST, torch.randn(1, 5)), (X, FIRST & ~FIRST, torch.randn(1, 5))
    )


def test_an_index_that_is_no_vector() -> None:
    """PyTorch's rule for shapes takes it, its kernel does not."""

    def selected(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, index)

    for index in (places(0, 2).reshape(1, 2), places().long().reshape(0, 1, 1)):
        with pytest.raises(IndexError, match="supposed to be a vector"):
            selected(X, index)
        with pytest.raises(IndexError, match="supposed to be a vector") as caught:
            compiled(selected, X, index)
        assert isinstance(caught.value, ModelError)
    check_both_ways(selected, (X, places(2, 0)), (X, places().long()), (X, places(1)))
    check_both_ways(selected, (X, torch.tensor(1)), (X[1:], torch.tensor(0)))


def test_parts_that_are_broadcast() -> None:
    rows = ((4, 5), (1, 5), (4, 1), (1, 1))
    check_both_ways(put, *((torch.randn(3, 5), places(0, 2, 1, 0), torch.randn(shape)) for shape in rows))
    check_both_ways(
        put, *((torch.randn(n, 5), torch.arange(n) % 2 == 0, torch.randn((n + 1) // 2, 5)) for n in (3, 5, 2, 8))
    )
    check_both_ways(
        torch.masked_select, *((torch.randn(3, 5), torch.rand(shape) > 0.5) for shape in ((1, 5), (3, 1), (1, 1)))
    )
