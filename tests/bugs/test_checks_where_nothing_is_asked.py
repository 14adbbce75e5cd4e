"""An index computed for an element that is not there was checked all the same: what is read there is 0, and 0 is out of range of an axis of
none. So a gather behind a slice that is written failed at the sizes at which its slice has no elements."""

import pytest
import torch

import anyshape


class ShiftedWhereMasked(torch.nn.Module):
    """Elements after the first take the one before them where the mask says so."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 1:][mask[:, 1:]] = x[:, :-1][mask[:, 1:]]
        return y


class LookedUpBehind(torch.nn.Module):
    """Rows of a table behind x: no row of the table is asked for among those of x."""

    def forward(self, x: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, table[index]])


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (0, 3), (3, 5), (5, 17)])
def test_elements_that_are_not_there_ask_for_none(sizes: tuple[int, int]) -> None:
    model = ShiftedWhereMasked()
    program = anyshape.compile(model, (torch.randn(3, 5), torch.ones(3, 5, dtype=torch.bool)))
    x, mask = torch.randn(*sizes), torch.rand(*sizes) > 0.5
    assert torch.equal(program(x, mask), model(x, mask))


def test_what_is_asked_for_is_checked_beside_what_is_not() -> None:
    model = LookedUpBehind()
    program = anyshape.compile(model, (torch.randn(4, 3), torch.randn(5, 3), torch.arange(2)))
    x, table = torch.randn(40, 3), torch.randn(0, 3)
    none = torch.zeros(0, dtype=torch.int64)
    assert torch.equal(program(x, table, none), model(x, table, none))
    with pytest.raises(anyshape.IndexOutOfRange):
        program(x, table, torch.zeros(1, dtype=torch.int64))
    with pytest.raises(anyshape.IndexOutOfRange):
        program(x, torch.randn(2, 3), torch.tensor([0, 1, 2, 0]))
