"""Weights stay the user's in `torch.compile`: each way to change them shows in the next call; what is kept of them is limited."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import anyshape
from anyshape.frontends.torch import live

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false

WIDTH = 16


def compiled(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    return torch.compile(function, backend="anyshape", dynamic=True, options={"strict": True, **options})  # pyright: ignore[reportArgumentType, reportCallIssue]


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)).eval()


def first(model: nn.Module) -> nn.Parameter:
    return next(model.parameters())


def square(*sizes: int) -> torch.Tensor:
    return torch.randn(*(sizes or (WIDTH, WIDTH)))


def stepped(model: nn.Module) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    with torch.enable_grad():
        model(torch.randn(3, WIDTH)).square().sum().backward()
        optimiser.step()


def in_one_storage(model: nn.Module) -> None:
    """All weights as views of one storage, none of them at its beginning."""
    memory = torch.randn(1 + sum(weight.numel() for weight in model.parameters()))
    start = 1
    for weight in model.parameters():
        weight.data = memory[start : start + weight.numel()].view(weight.shape)
        start += weight.numel()
    memory.mul_(2)


def exchanged(model: nn.Sequential) -> None:
    weights = model[0].weight, model[2].weight
    weights[0].data, weights[1].data = weights[1].data, weights[0].data  # pyright: ignore[reportAttributeAccessIssue]


def freed_and_filled(model: nn.Module) -> None:
    weight = first(model)
    storage, kept = weight.untyped_storage(), weight.detach().clone()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    weight.data.copy_(3 * kept)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a step of an optimiser": stepped,
    "a loaded state": lambda model: model.load_state_dict(layers().state_dict()),
    "an assigned state": lambda model: model.load_state_dict(layers().state_dict(), assign=True),
    "a replaced parameter": lambda model: setattr(model[0], "weight", nn.Parameter(square())),
    "swapped tensors": lambda model: torch.utils.swap_tensors(model[0].weight, nn.Parameter(square())),
    "a write": lambda model: first(model).mul_(2),
    "a write through data": lambda model: first(model).data.copy_(square()),
    "a write through numpy": lambda model: np.negative(
        first(model).detach().numpy(), out=first(model).detach().numpy()
    ),
    "a write in inference mode": torch.inference_mode()(lambda model: first(model).mul_(2)),
    "other data": lambda model: setattr(first(model), "data", square()),
    "transposed data": lambda model: setattr(first(model), "data", first(model).data.t()),
    "data with gaps": lambda model: setattr(first(model), "data", square(2 * WIDTH, 3 * WIDTH)[::2, ::3]),
    "data of one row": lambda model: setattr(first(model), "data", square(1, WIDTH).expand(WIDTH, -1)),
    "another storage": lambda model: first(model).set_(square()),  # pyright: ignore[reportArgumentType]
    "views of one storage": in_one_storage,
    "exchanged layers": exchanged,
    "a storage freed and filled": freed_and_filled,
    "tied weights": lambda model: setattr(model[2], "weight", model[0].weight),
}


def check(program: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> None:
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_shows_in_the_next_call(kind: str) -> None:
    model, x = layers(), torch.randn(5, WIDTH)
    program = compiled(model)
    check(program, model, x)
    for _ in range(2):
        before = model(x)
        CHANGES[kind](model)
        assert kind == "tied weights" or not torch.allclose(model(x), before)
        check(program, model, x)
    assert not anyshape.report().remarks and anyshape.report().graphs[0].packed_bytes > 0


def test_changes_show_where_nothing_is_packed() -> None:
    model, x = layers(), torch.randn(5, WIDTH)
    program = compiled(model, pack_weights=False)
    for kind in (
        "a write",
        "a write through data",
        "other data",
        "a replaced parameter",
        "data with gaps",
        "a step of an optimiser",
    ):
        check(program, model, x)
        CHANGES[kind](model)
        check(program, model, x)
    assert not anyshape.report().remarks and not any(graph.packed_bytes for graph in anyshape.report().graphs)


def kept_bytes() -> int:
    return sum(watch.copied_bytes for watch in live._ALL[1])


def test_what_is_kept_is_stated_and_limited() -> None:
    """One program serves all modules: the budget is for the forms of all of them."""
    modules, x = [layers() for _ in range(4)], torch.randn(5, WIDTH)
    form = 64 * WIDTH * 4  # bytes of a packed matrix, in columns of 64
    for budget, in_one, at_most in ((None, 2 * form, 8 * form), (2 * form, 2 * form, 2 * form), (0, 0, 0)):
        torch.compiler.reset()
        before = kept_bytes()
        program = compiled(lambda module, x: module(x), pack_budget_bytes=budget)
        for module in (*modules, *modules):
            check(partial(program, module), module, x)
            first(module).mul_(1.5)
        graphs = [graph for graph in anyshape.report().graphs if graph.parts]
        assert graphs[-1].packed_bytes == in_one, budget
        assert kept_bytes() - before <= at_most, budget
    assert "MiB kept" in str(anyshape.report())


def test_what_no_sample_sees_is_said_by_invalidate() -> None:
    model, x = nn.Linear(256, 256, bias=False).eval(), torch.randn(3, 256)
    program = compiled(model)
    before = program(x)
    model.weight.data[100, 9] += 10  # one cache line of 4096, of which a call samples one
    assert torch.equal(program(x), before)
    anyshape.invalidate(model)
    check(program, model, x)


def test_weights_that_are_inference_tensors() -> None:
    with torch.inference_mode():
        model, x = layers().requires_grad_(False), torch.randn(5, WIDTH)
        program = compiled(model)
        assert first(model).is_inference()
        for _ in range(2):
            check(program, model, x)
            first(model).mul_(2)
        check(program, model, x)
    assert not anyshape.report().remarks
