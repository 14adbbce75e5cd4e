"""The example tensors may be views with any strides, and overlap: only their dtype and rank matter."""

from __future__ import annotations

import pytest
import torch

import anyshape
from tests.end_to_end.eager import check, compiled


def combined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + y).softmax(-1) - x.sum(1, keepdim=True)


BASE = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
PARAMETER = torch.nn.Parameter(torch.randn(6, 8))
VIEWS = {
    "slices of one tensor": (BASE[:, :4], BASE[:, 1:5]),
    "steps": (BASE[::2, ::2], BASE[1::2, 1::2]),
    "transposed": (BASE.t(), BASE.t()),
    "expanded": (BASE[0].expand(6, 8), BASE[:, :1].expand(6, 8)),
    "one row": (BASE[:1], BASE[2:3]),
    "no rows": (BASE[:0], BASE[3:3]),
    "reshaped": (BASE.view(8, 6), BASE.view(-1).view(8, 6)),
    "of a parameter": (PARAMETER[:, :4], PARAMETER[:, 4:]),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_as_example(kind: str) -> None:
    program = compiled(combined, *VIEWS[kind])
    check(program, combined, *VIEWS[kind])
    for rows in (0, 1, 5):
        check(program, combined, torch.randn(rows, 7), torch.randn(7, rows).t())


def test_static_and_named_sizes() -> None:
    x = BASE[1:3, :4]
    module = torch.nn.Linear(4, 4).eval()
    check(anyshape.compile(module, (x,), dynamic_shapes=None), module, x)
    named = anyshape.compile(module, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    check(named, module, torch.randn(5, 4))
