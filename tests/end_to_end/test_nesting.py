"""What goes in and comes out besides plain tensors: nesting, None, sizes, constants, arguments, the same value twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree
from transformers.modeling_outputs import BaseModelOutput

from anyshape.driver.api import CompiledModule
from anyshape.support.errors import ArgumentError, GuardError
from tests.end_to_end.eager import assert_same, check, compiled


@dataclass
class State:
    """A dataclass that the caller registered with PyTorch's pytree."""

    hidden: torch.Tensor
    mask: torch.Tensor | None = None


pytree.register_dataclass(State)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def x(rows: int = 3, width: int = 5) -> torch.Tensor:
    return torch.arange(rows * width, dtype=torch.float32).reshape(rows, width) / 4 - 2


def nested_inputs(
    pair: tuple[torch.Tensor, list[torch.Tensor]], table: dict[str, Any], state: State, empty: None
) -> torch.Tensor:
    first, (second, third) = pair
    assert empty is None
    return first + second * third + table["scale"] * table["inner"]["shift"] + state.hidden


def nested_arguments(rows: int, width: int) -> tuple[Any, ...]:
    a = x(rows, width)
    return (a, [a + 1, a * 2]), {"scale": a - 1, "inner": {"shift": a / 3}}, State(a.abs()), None


def test_nested_inputs() -> None:
    program = compiled(nested_inputs, *nested_arguments(3, 5))
    for rows, width in ((3, 5), (1, 1), (0, 4), (33, 7)):
        check(program, nested_inputs, *nested_arguments(rows, width))
    pair, table, state, _ = nested_arguments(3, 5)
    for wrong in (
        ((pair[0], tuple(pair[1])), table, state, None),
        ((pair[0], pair[1][:1]), table, state, None),
        (pair, {"scale": table["scale"]}, state, None),
        (pair, table, state.hidden, None),
        (pair, table, state, x()),
        (pair, table, State(state.hidden, state.hidden), None),
    ):
        with pytest.raises(ArgumentError):
            program(*wrong)
    short = (pair[0], [pair[1][0], pair[1][1][:2]])
    with pytest.raises(GuardError, match=r"args\[0\]\[1\]\[1\].*axis 0|axis 0.*args\[0\]\[1\]\[1\]"):
        program(short, table, state, None)
    check(program, nested_inputs, *nested_arguments(2, 2))


def nested_outputs(a: torch.Tensor) -> Any:
    hidden = a.exp()
    return {
        "tuple": (hidden, [hidden.sum(-1)], None),
        "pair": Pair(a * 2, a - 1),
        "state": State(hidden + 1, None),
        "model": BaseModelOutput(last_hidden_state=hidden * 3, hidden_states=(a + 4, a + 5)),
        "empty": ((), {}),
    }


def test_nested_outputs() -> None:
    program = compiled(nested_outputs, x())
    for rows, width in ((3, 5), (1, 1), (0, 4), (33, 7)):
        check(program, nested_outputs, x(rows, width))
    got = program(x())
    assert isinstance(got["pair"], Pair) and isinstance(got["state"], State)
    assert isinstance(got["model"], BaseModelOutput) and got["model"].last_hidden_state is got["model"][0]
    assert got["model"].attentions is None


def aliases(a: torch.Tensor, b: torch.Tensor) -> Any:
    double = a * 2
    return {
        "input": a,
        "other": b,
        "twice": (double, double),
        "view": double.t(),
        "input view": a.reshape(-1),
        "identity": a + 0 * b,
        "sizes": (a.shape[0], a.shape[1] * 2 + 1, a.numel()),
        "python": (7, "text", 1.5, True),
        "shape": tuple(a.shape),
    }


@pytest.fixture(scope="module")
def aliasing() -> CompiledModule:
    return compiled(aliases, x(), x())


@pytest.mark.parametrize(("rows", "width"), [(3, 5), (1, 1), (0, 4), (4, 0), (33, 7)])
def test_aliases_sizes_and_constants(aliasing: CompiledModule, rows: int, width: int) -> None:
    a, b = x(rows, width), x(rows, width) + 1
    got = aliasing(a, b)
    assert_same(got, aliases(a, b))
    assert got["input"] is a and got["other"] is b
    assert all(type(size) is int for size in got["sizes"])


def test_results_do_not_share_memory_with_later_calls(aliasing: CompiledModule) -> None:
    first = aliasing(x(), x())
    kept = {name: first[name] for name in ("view", "identity")}
    copies = {name: value.clone() for name, value in kept.items()}
    aliasing(x() + 100, x())
    assert_same(kept, copies)


def test_the_inputs_stay_as_they_were(aliasing: CompiledModule) -> None:
    a, b = x(), x() + 1
    before = a.clone(), b.clone()
    aliasing(a, b)
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])
    same = aliasing(a, a)
    assert_same(same, aliases(a, a))


def constants_only(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.ones(a.shape[0], 2), torch.arange(a.shape[1]), torch.full((), 3.5, dtype=torch.float64)


def test_outputs_that_read_no_input() -> None:
    program = compiled(constants_only, x())
    for rows, width in ((3, 5), (1, 1), (0, 0), (33, 70)):
        check(program, constants_only, x(rows, width))


class Buffered(torch.nn.Module):
    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.arange(4.0))
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.steps, self.weight, a.sum() + self.steps.sum()


def test_outputs_that_are_weights() -> None:
    module = Buffered()
    program = compiled(module, x())
    got = program(x(2, 2))
    assert_same(got, tuple(value.detach() for value in module(x(2, 2))))
    got[0].add_(1)
    assert_same(program(x(2, 2))[0], torch.arange(4.0), message="a result that was changed is not the weight")


def test_gradients_are_not_recorded() -> None:
    program = compiled(lambda a: a * 2, x())
    assert not program(x().requires_grad_()).requires_grad


def test_conjugate_and_negative_views() -> None:
    program = compiled(lambda a: a * 2, x())
    negative = torch.view_as_complex(torch.stack([x(), x()], -1)).conj().imag
    assert negative.is_neg()
    check(program, lambda a: a * 2, negative)
