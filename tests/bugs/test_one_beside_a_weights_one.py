"""An example of sizes 1 where a weight's size is 1 too: what the weight fixes is fixed, and no more."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("sizes", [(1, 1), (1, 1, 1), (2, 1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["linear", "linear to one", "norm"])
def test_only_the_last_axis_is_fixed(kind: str, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = {"linear": nn.Linear(1, 3), "linear to one": nn.Linear(1, 1, bias=False), "norm": nn.LayerNorm(1)}[kind]
    program = compiled(module.eval(), torch.randn(sizes))
    for rows in (0, 1, 5):
        check(program, module, torch.randn(*(rows + place for place in range(len(sizes) - 1)), 1))
    with pytest.raises(GuardError):
        program(torch.randn(*sizes[:-1], 2))
