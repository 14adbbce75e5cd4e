"""ATen ops whose results' sizes the data say, compiled, against eager PyTorch at sizes that the example did not have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.support.errors import AnyshapeError
from tests.end_to_end.test_scatter import Expressions, Family, check

CHOSEN: Expressions = {
    "nonzero": lambda x, a: torch.nonzero(a),
    "nonzero_vector": lambda x, a: torch.nonzero(a[0] > 0),
    "nonzero_number": lambda x, a: torch.nonzero(x.sum()),
    "masked_select": lambda x, a: torch.masked_select(x, a > 0),
    "masked_select_spread": lambda x, a: torch.masked_select(x, (a > 0)[:1]),
    "mask": lambda x, a: x[x > 0] * 2 + 1,
    "mask_rows": lambda x, a: x[a[:, 0] > 0].softmax(-1),
    "mask_columns": lambda x, a: x[:, a[0] > 0] + 1,
    "mask_beside": lambda x, a: x[a[:, 0] > 0, 0],
    "mask_beside_others": lambda x, a: (
        x[None].expand(2, -1, -1)[:, x > 0][:, :1].sum() + x[:, None][a[:, 0] > 0, :, torch.tensor(1)]
    ),
    "static": lambda x, a: torch.nonzero_static(a, size=5, fill_value=-7),
    "sum": lambda x, a: x[x > 0].sum() + x[x < 0].mean(),
    "twice": lambda x, a: x[x > 0][x[x > 0] > 1],
    "products": lambda x, a: x[a[:, 0] > 0] @ x[a[:, 0] <= 0].t(),
    "repeated": lambda x, a: torch.repeat_interleave(a[0].abs()),
    "repeated_rows": lambda x, a: torch.repeat_interleave(x, a[:, 0].abs(), dim=0),
    "bincount": lambda x, a: torch.bincount(a.flatten().abs(), minlength=2),
    "bincount_weights": lambda x, a: torch.bincount(a.flatten().abs(), x.flatten().double()),
    "unique": lambda x, a: torch.unique(a),
    "unique_inverse": lambda x, a: torch.unique(a, return_inverse=True)[1],
    "unique_counts": lambda x, a: torch.unique(a, return_counts=True)[1],
    "unique_rows": lambda x, a: torch.unique(a.sign(), dim=0),
    "unique_columns": lambda x, a: torch.unique(a.sign(), dim=1, return_inverse=True)[1],
    "unique_consecutive_rows": lambda x, a: torch.unique_consecutive(a.sign()[:, :1], dim=0),
    "unique_consecutive": lambda x, a: torch.unique_consecutive(a, return_counts=True)[1],
    "assigned": lambda x, a: x.index_put((x > 0,), x[x > 0] * 3),
}


def call(m: int, n: int, seed: int = 0) -> tuple[Tensor, ...]:
    """x [m, n] and whole numbers of the same sizes."""
    torch.manual_seed(seed)
    return torch.randn(m, n), torch.randint(-3, 4, (m, n))


@pytest.mark.parametrize("name", CHOSEN)
def test_sizes_by_data(name: str) -> None:
    check({name: CHOSEN[name]}, call(4, 5), [call(*sizes, seed=1) for sizes in ((7, 2), (2, 9), (40, 33))])


def test_all_and_nothing() -> None:
    module = Family({"chosen": lambda x: x[x > 0], "places": lambda x: torch.nonzero(x > 0)})
    program = anyshape.compile(module, (torch.randn(3, 4),))
    for x in (torch.ones(5, 3), torch.zeros(5, 3), torch.zeros(0, 3)):
        got, expected = program(x), module(x)
        assert all(torch.equal(got[each], expected[each]) for each in expected)


def test_an_element_as_a_size() -> None:
    class Ones(nn.Module):
        def forward(self, x: Tensor, n: Tensor) -> Tensor:
            count: Any = n.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0])
            return torch.arange(count) + torch.zeros(count) + x[0] * count

    module = Ones()
    program = anyshape.compile(module, (torch.randn(6), torch.tensor(3)))
    for count in (0, 1, 4):
        x = torch.randn(5)
        torch.testing.assert_close(program(x, torch.tensor(count)), module(x, torch.tensor(count)))
    with pytest.raises(AnyshapeError):
        program(torch.randn(5), torch.tensor(-1))


def test_calls_of_different_sizes_share_memory() -> None:
    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x[x[:, 0] > 0]
            z = torch.sort(y, dim=0).values
            return z[z[:, 0] > 1] @ z.t()

    module = Chain()
    program = anyshape.compile(module, (torch.randn(6, 3),))
    for rows in (10, 2000, 10, 300):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), module(x))
