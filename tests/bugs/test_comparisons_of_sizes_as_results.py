"""`x.shape[0] > 2` among the results of a compiled graph was the comparison of symbols, not the answer of the call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import anyshape

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

FUNCTIONS: dict[str, Callable[[torch.Tensor], tuple[object, ...]]] = {
    "beside a tensor": lambda x: (x.shape[0] > 2, (x * 2).sum(), x.shape[0] == 3),
    "alone": lambda x: (x.shape[0] > 2,),
    "with a number": lambda x: (x.shape[0] * 2, x.shape[0] != x.shape[1], x.sum()),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_answers_are_those_of_the_call(kind: str) -> None:
    torch.compiler.reset()
    function = FUNCTIONS[kind]
    program = torch.compile(function, backend="anyshape", dynamic=True, options={"strict": True})
    remarks = len(anyshape.report().remarks)
    for rows in (3, 2, 5, 1, 0):
        got, expected = program(torch.ones(rows, 2)), function(torch.ones(rows, 2))
        assert got == expected and [type(each) for each in got] == [type(each) for each in expected]
    assert len(anyshape.report().remarks) == remarks
