"""`torch.compile`: results share memory where eager's do, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from anyshape.driver.remarks import JOURNAL

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false


def views_of_one(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y, y[0], y.view(-1), [y.t()]


def chunks(x: torch.Tensor) -> Any:
    return (x * 2).chunk(2, -1), x.exp()


def used_on(x: torch.Tensor) -> Any:
    y = x + 1
    z = y.view(-1)
    return y, z, (z * 3).sum(), z.softmax(-1)


def copies(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y.clone(), x + 1, y.contiguous(), y.reshape(-1), y * 1, y.to(torch.float32)


def of_the_input(x: torch.Tensor) -> Any:
    return x, x[1:], x.clone(), x.view(-1)


@pytest.mark.parametrize("function", [views_of_one, chunks, used_on, copies, of_the_input])
def test_a_write_to_a_result_shows_where_it_does_in_eager(function: Callable[[torch.Tensor], Any]) -> None:
    torch.compiler.reset()
    JOURNAL.clear()
    fast = torch.compile(function, backend="anyshape", dynamic=True)
    with torch.no_grad():
        for sizes in ((3, 4), (5, 6), (1, 4)):
            count = len(pytree.tree_leaves(function(torch.zeros(sizes))))
            for written in range(count):
                x = torch.randn(sizes)
                theirs, ours = function(x.clone()), fast(x.clone())
                for results in (theirs, ours):
                    pytree.tree_leaves(results)[written].fill_(7)
                torch.testing.assert_close(ours, theirs)
    assert not JOURNAL.report().remarks
