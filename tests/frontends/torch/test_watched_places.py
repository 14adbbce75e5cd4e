"""What says where a tensor lies is read natively; every change of it shows, with and without PyTorch's own functions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import cast

import pytest
import torch
from torch._subclasses import FakeTensorMode

from anyshape.frontends.torch.live import _Notes  # pyright: ignore[reportPrivateUsage]
from anyshape.frontends.torch.reader import tensor_reader

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "only strides": lambda x: setattr(x, "data", x.data.transpose(0, 1)),
    "sizes": lambda x: setattr(x, "data", x.data[:1]),
    "offset": lambda x: setattr(x, "data", x.data.as_strided(x.shape, x.stride(), 1)),
    "memory": lambda x: setattr(x, "data", x.data.clone()),
    "memory of its storage": lambda x: x.untyped_storage().resize_(1 << 22),
    "a write": lambda x: x.add_(1),
    "a write that is not counted": lambda x: x.data.add_(1),
    "in place": lambda x: x.transpose_(0, 1),
}


@pytest.fixture(params=["by their words", "by PyTorch's functions"])
def _way(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    layout = tensor_reader().layout
    words = layout.first, layout.last
    if request.param == "by PyTorch's functions":
        layout.last = layout.first
    yield
    layout.first, layout.last = words


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("rank", [2, 5, 6])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_one_of_many(kind: str, rank: int) -> None:
    def one() -> torch.Tensor:
        return torch.randn(321)[:320].view(*[2] * (rank - 2), 20, 16 // 2 ** (rank - 2)).transpose(0, 1)

    for at in (0, 30, 69):
        weights = tuple(one() for _ in range(70))
        notes = _Notes(weights, contents=True)
        assert all(notes.is_true_of(weights) for _ in range(40))
        CHANGES[kind](weights[at])
        assert not notes.is_true_of(weights)
        assert _Notes(weights, contents=True).is_true_of(weights)


@pytest.mark.usefixtures("_way")
def test_objects_that_are_no_tensors() -> None:
    weights = tuple(torch.randn(7) for _ in range(60))
    notes = _Notes(weights, contents=True)
    for at in (0, 20, 59):
        other = cast("tuple[torch.Tensor, ...]", (*weights[:at], "no tensor", *weights[at + 1 :]))
        assert not notes.is_true_of(other)
    assert notes.is_true_of(weights)


def test_the_words_are_known_for_this_pytorch() -> None:
    layout = tensor_reader().layout
    assert 0 < layout.first < layout.counter_offset < layout.last


@contextmanager
def _doubles() -> Generator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, FakeTensorMode, partial(torch.device, "meta"), _doubles]
)
def test_the_words_are_found_in_every_mode(mode: Callable[[], AbstractContextManager[object]]) -> None:
    with mode():
        layout = tensor_reader.__wrapped__().layout
    assert bytes(layout) == bytes(tensor_reader().layout)


def test_what_lies_behind_the_objects_is_not_taken_for_theirs() -> None:
    """Objects lie between others on the heap: where the words are does not depend on what those hold."""
    kept: list[torch.Tensor] = []
    for size in range(1, 20):
        kept = [*kept[size % 3 :], torch.randn(size, 2).t()]
        assert bytes(tensor_reader.__wrapped__().layout) == bytes(tensor_reader().layout)
