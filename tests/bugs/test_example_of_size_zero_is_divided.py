"""An example of size 0, which every number divides, leaves free the sizes that the model divides into blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.end_to_end.eager import check, compiled

DIVIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "blocks": lambda x: x.view(x.shape[0], x.shape[1] // 4, 4).mean(2),
    "halves": lambda x: x.unflatten(1, (-1, 2)).sum(-1) + 1,
    "heads": lambda x: x.reshape(x.shape[0], 2, x.shape[1] // 2).transpose(1, 2).flatten(1),
}


@pytest.mark.parametrize("kind", DIVIDED)
@pytest.mark.parametrize("rows", (0, 1, 3))
def test_any_multiple(kind: str, rows: int) -> None:
    f = DIVIDED[kind]
    program = compiled(f, torch.randn(rows, 0))
    for shape in ((1, 4), (3, 8), (5, 12), (7, 0), (0, 4)):
        check(program, f, torch.randn(shape))
