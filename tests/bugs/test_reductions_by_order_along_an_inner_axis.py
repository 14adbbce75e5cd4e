"""Medians, modes and k-th values along an axis that is not the last: the other axes keep their order."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["median", "nanmedian", "mode", "kthvalue"])
def test_an_axis_of_four(name: str, axis: int) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        function = getattr(torch, name)
        arguments = (x, 2, axis) if name == "kthvalue" else (x, axis)
        return (*function(*arguments), *function(*arguments, keepdim=True))

    program = compiled(f, torch.randn(3, 2, 5, 4))
    for shape in ((3, 2, 5, 4), (2, 7, 3, 6)):
        x = torch.randn(shape)
        check(program, f, x)
