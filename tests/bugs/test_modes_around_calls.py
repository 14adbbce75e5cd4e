"""A mode or a function transform around a call saw how outputs are allocated: one that returned another tensor, such as a mode that
rounds all results to half precision, had the program write past the end of that; others left outputs without memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.end_to_end.eager import CompiledModule, assert_same, compiled


class Halved(TorchDispatchMode):
    """Every floating-point result in half precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.half() if isinstance(result, torch.Tensor) and result.is_floating_point() else result


class Elsewhere(TorchFunctionMode):
    """Every new tensor on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        return func(*args, **(kwargs | {"device": "meta"} if func is torch.empty else kwargs))


def f(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.t() + 1, x[at], x.clamp(min=0).nonzero()


CALL = torch.randn(50, 7), torch.tensor([3, 49, 0])


@pytest.fixture(scope="module")
def program() -> CompiledModule:
    return compiled(f, *CALL)


@pytest.mark.parametrize(
    "mode", [Halved, Elsewhere, FakeTensorMode, torch.inference_mode, lambda: torch.device("meta")]
)  # fmt: skip
def test_outputs_are_those_of_the_program_in_any_mode(
    program: CompiledModule, mode: Callable[[], AbstractContextManager[Any]]
) -> None:
    for _ in range(2):  # the second time outputs are allocated before the call
        with mode():
            outputs = program(*CALL)
        for got, expected in zip(outputs, f(*CALL), strict=True):
            assert type(got) is torch.Tensor
            assert_same(got, expected)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.functionalize, torch.func.vmap])
def test_a_call_within_a_transform_gives_plain_tensors(
    program: CompiledModule, transform: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    def weighted(x: torch.Tensor) -> torch.Tensor:
        return (x * program(*CALL)[1]).sum()

    def weighted_in_eager(x: torch.Tensor) -> torch.Tensor:
        return (x * CALL[0][CALL[1]]).sum()

    x = torch.randn(4, 7)[:, None, :] if transform is torch.func.vmap else torch.randn(3, 7)
    for _ in range(2):
        assert_same(transform(weighted)(x), transform(weighted_in_eager)(x))
