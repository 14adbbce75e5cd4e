"""Two exports as one function, and as two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from anyshape.frontends.torch.same_graph import Reading, same_under
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.symbolic import Facts, Size

Function = Callable[[torch.Tensor], torch.Tensor]


def reading(function: Function) -> Reading:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    program = torch.export.export(Model(), (torch.randn(3, 8),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    (x,) = (node.meta["val"] for node in program.graph.nodes if node.op == "placeholder")
    called = {size.node.expr: name for size, name in zip(x.shape, ("b", "n"), strict=True)}
    return Reading(program, SizeNames(shape_environment([x]), called, {}, {}))


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, (4 - x.shape[1] % 4) % 4)).sin()


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def multiple_of_four() -> Facts:
    facts = Facts()
    facts.declare("b", lo=2)
    facts.declare("n", lo=2)
    facts.assume((Size.symbol("n") % 4).eq(0))
    return facts


def any_size() -> Facts:
    facts = Facts()
    facts.declare("b", lo=2)
    facts.declare("n", lo=2)
    return facts


def test_padding_is_none_where_the_facts_say_so() -> None:
    first, second = reading(padded), reading(plain)
    assert same_under(multiple_of_four(), first, second)
    assert not same_under(any_size(), first, second)


SAME: tuple[Function, ...] = (
    lambda x: x.reshape(x.shape[0], x.shape[1]).sin(),
    lambda x: x.contiguous()[:, : x.shape[1]].clone().sin(),
    lambda x: x.reshape(-1).view(x.shape).sin(),
)


@pytest.mark.parametrize("other", SAME)
def test_what_changes_nothing_is_nothing(other: Function) -> None:
    assert same_under(any_size(), reading(plain), reading(other))


OTHER: tuple[Function, ...] = (
    lambda x: x.cos(),
    lambda x: x.sin() + 1,
    lambda x: x[:, 1:].sin(),
    lambda x: x[:, ::2].sin(),
    lambda x: F.pad(x, (0, 1)).sin(),
    lambda x: x.reshape(x.shape[1], x.shape[0]).sin(),
)


@pytest.mark.parametrize("other", OTHER)
def test_another_computation_is_another_graph(other: Function) -> None:
    assert not same_under(multiple_of_four(), reading(plain), reading(other))


def test_numbers_have_kinds() -> None:
    assert not same_under(any_size(), reading(lambda x: x + 1), reading(lambda x: x + 1.0))


def test_what_writes_to_its_inputs_or_draws_is_equal_to_nothing() -> None:
    functions: tuple[Function, ...] = (lambda x: x.add_(1), lambda x: x + torch.rand(2, 1).sum())
    for function in functions:
        assert not same_under(any_size(), reading(function), reading(function))


def test_what_writes_is_equal_write_by_write() -> None:
    def written(*amounts: int) -> Function:
        def function(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            before = x * 2
            for amount in amounts:
                x[:, 1:].add_(amount)
            return before + x

        return function

    assert same_under(any_size(), reading(written(1, 2)), reading(written(1, 2)))
    for other in ((), (1,), (2, 1), (1, 2, 2)):
        assert not same_under(any_size(), reading(written(1, 2)), reading(written(*other)))


def test_a_value_from_before_a_write_is_another_than_from_behind_it() -> None:
    def read(*, before: bool) -> Function:
        def function(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            view = x.view(-1)
            early = view + 1
            x.mul_(3)
            return early if before else view + 1

        return function

    assert same_under(any_size(), reading(read(before=True)), reading(read(before=True)))
    assert not same_under(any_size(), reading(read(before=True)), reading(read(before=False)))
