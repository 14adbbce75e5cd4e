"""What an example call fixes, and what it does not: its sizes, 0 and 1 among them, leave no trace in the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import anyshape
from anyshape.support.errors import AnyshapeError, ExportError, GuardError
from tests.end_to_end.eager import check, compiled


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = mask[..., None].float()
        pooled = (self.norm(x) * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return self.head(pooled)


def call(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(batch + length)
    return torch.randn(batch, length, 8), torch.rand(batch, length) < 0.7


@pytest.mark.parametrize("example", [(1, 4), (0, 4), (1, 1), (0, 0), (4, 1), (6, 6)])
def test_any_example_serves_every_size(example: tuple[int, int]) -> None:
    """Two sizes; an axis of 1 of the mask that meets one of 1 may be broadcast as well, and has a size of its own then."""
    module = Classifier()
    program = compiled(module, *call(*example))
    assert len(set(program.report().symbols)) == 2 + example.count(1)
    if example[0] == 1:
        check(program, module, call(5, 4)[0], call(1, 4)[1])
    for batch, length in ((1, 1), (2, 7), (7, 2), (5, 33), (0, 3), (3, 0)):
        check(program, module, *call(batch, length))


class Forced(nn.Module):
    """Works for four columns only, and for an even number of rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, x.shape[0] // 2, 4).sum(0) + torch.ones(4)


def test_a_size_that_the_model_forces_is_a_guard() -> None:
    program = compiled(Forced(), torch.randn(6, 4))
    for rows in (2, 6, 8, 0):
        check(program, Forced(), torch.randn(rows, 4))
    with pytest.raises(GuardError) as raised:
        program(torch.randn(6, 5))
    for word in ("args[0]", "axis 1", "5", "d0*d1 == 8*(d0 floordiv 2)"):
        assert word in str(raised.value)
    with pytest.raises(GuardError, match="7"):
        program(torch.randn(7, 4))
    check(program, Forced(), torch.randn(4, 4))


def test_static_shapes_are_guards() -> None:
    program = anyshape.compile(nn.ReLU(), (torch.randn(3, 5),), dynamic_shapes=None)
    assert program.report().symbols == {}
    check(program, torch.relu, torch.randn(3, 5))
    for shape, axis in (((4, 5), 0), ((3, 6), 1)):
        with pytest.raises(GuardError, match=rf"axis {axis}\b"):
            program(torch.randn(shape))


def test_named_dimensions() -> None:
    shapes = ({0: Dim("batch"), 1: Dim.STATIC},)
    program = anyshape.compile(nn.ReLU(), (torch.randn(3, 5),), dynamic_shapes=shapes)
    assert program.report().symbols == {"batch": "args[0], axis 0"}
    check(program, torch.relu, torch.randn(33, 5))
    with pytest.raises(GuardError, match=r"axis 1\b"):
        program(torch.randn(3, 4))


def test_an_example_of_size_one_with_a_dimension_asked_for() -> None:
    """PyTorch itself specialises this: the program must serve another batch, or the error must name axis and mend."""
    try:
        program = anyshape.compile(nn.ReLU(), (torch.randn(1, 5),), dynamic_shapes=({0: Dim("batch")},))
    except ExportError as error:
        text = str(error)
        assert "batch" in text or "axis 0" in text, text
        assert "2 or more" in text or "example" in text, text
    else:
        check(program, torch.relu, torch.randn(6, 5))


class Branches(nn.Module):
    """Asks for the value of a size, so that some sizes take another way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 4 else x + 1


@pytest.mark.parametrize("example", [3, 9])
def test_a_branch_on_a_size_is_a_guard(example: int) -> None:
    program = compiled(Branches(), torch.randn(example, 2))
    for rows in (0, 1, 3, 4, 5, 9):
        if (rows > 4) == (example > 4):
            check(program, Branches(), torch.randn(rows, 2))
        else:
            with pytest.raises(GuardError, match=rf"\b{rows}\b"):
                program(torch.randn(rows, 2))


class DataDependent(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_a_branch_on_values_is_an_error_at_compile_time() -> None:
    with pytest.raises(AnyshapeError):
        compiled(DataDependent(), torch.randn(3))
