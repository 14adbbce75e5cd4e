"""One function through every front end that PyTorch has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyshape.driver.dynamo import backend
from tests.end_to_end.eager import assert_same, compiled

Function = Callable[..., Any]


def through_torch_compile(function: Function) -> Function:
    """As `torch.compile` runs it, every size dynamic; what has no lowering is PyTorch's."""
    torch.compiler.reset()
    program: Function = torch.compile(function, backend=backend, dynamic=True)  # pyright: ignore[reportAssignmentType]

    def call(*args: Any) -> Any:
        with torch.no_grad():
            return program(*args)

    return call


def both_ways(function: Function, *example: Any) -> dict[str, Function]:
    """Compiled from this example call, and through `torch.compile`."""
    return {"anyshape.compile": compiled(function, *example), "torch.compile": through_torch_compile(function)}


def check_both_ways(function: Function, *calls: tuple[Any, ...]) -> None:
    """Both give what eager gives for every call; the first one is the example."""
    for way, program in both_ways(function, *calls[0]).items():
        for args in calls:
            shapes = [tuple(arg.shape) for arg in args if isinstance(arg, torch.Tensor)]
            assert_same(program(*args), function(*args), message=f"{way} {shapes}")
