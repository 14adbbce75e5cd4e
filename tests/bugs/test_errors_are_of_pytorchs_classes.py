"""What PyTorch rejects is rejected with an error of ours that is an instance of the class of PyTorch's, when compiling or in a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from anyshape.support.errors import AnyshapeError, ModelError, RankError
from tests.end_to_end.eager import compiled

Function = Callable[..., Any]


def rejected(function: Function, *call: torch.Tensor) -> type[Exception]:
    """The class of the error that eager raises."""
    with pytest.raises(Exception) as caught:
        function(*call)
    return caught.type


WHEN_COMPILING: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "sizes": (torch.add, (torch.zeros(3), torch.zeros(4))),
    "axis": (lambda x: x.sum(3), (torch.zeros(2, 3),)),
    "no square": (torch.linalg.inv, (torch.zeros(2, 2, 2, 3),)),
    "value": (lambda x: functional.cross_entropy(x, x.argmax(1), reduction="most"), (torch.zeros(2, 3),)),
}


@pytest.mark.parametrize("name", WHEN_COMPILING)
def test_an_example_that_the_model_rejects(name: str) -> None:
    function, example = WHEN_COMPILING[name]
    kind = rejected(function, *example)
    with pytest.raises(kind) as caught:
        compiled(function, *example)
    assert isinstance(caught.value, ModelError)


def test_more_axes_than_pytorch_computes_with() -> None:
    x = torch.zeros([1] * 66)
    assert rejected(lambda x: x.amax(0), x) is RuntimeError
    with pytest.raises(RuntimeError) as caught:
        compiled(lambda x: x.amax(0), x)
    assert isinstance(caught.value, RankError)


def add_rows(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, torch.tensor([0, 1]), source)


def draw(weights: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(weights, 2, replacement=True)


IN_A_CALL: dict[str, tuple[Function, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {
    "rows that are turned": (add_rows, (torch.zeros(2, 3), torch.zeros(2, 3)), (torch.zeros(3, 3), torch.zeros(3, 2))),
    "extremum of nothing": (lambda x: x.amax(1), (torch.zeros(2, 3),), (torch.zeros(2, 0),)),
    "no channels": (lambda x: functional.max_pool1d(x, 2), (torch.zeros(2, 9),), (torch.zeros(0, 9),)),
    "negative weights": (draw, (torch.ones(5),), (torch.tensor([1.0, -1.0]),)),
    "weights of nothing": (draw, (torch.ones(5),), (torch.zeros(3),)),
}


@pytest.mark.parametrize("name", IN_A_CALL)
def test_a_call_that_the_model_rejects(name: str) -> None:
    function, example, call = IN_A_CALL[name]
    program = compiled(function, *example)
    with pytest.raises(rejected(function, *call)) as caught:
        program(*call)
    assert isinstance(caught.value, AnyshapeError)
    program(*example)
