"""F11, the kinds that have no op yet: integer division that rounds towards zero, the remainder of a number by a tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import UnsupportedOps
from tests.end_to_end.eager import check, compiled

MISSING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "trunc": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "number % tensor": lambda x: 7 % x,
}


@pytest.mark.xfail(raises=UnsupportedOps, strict=True, reason="no op for it")
@pytest.mark.parametrize("kind", MISSING)
def test_signs(kind: str) -> None:
    x = torch.tensor([7, -7, 1, -1, 3, -3, 40])
    check(compiled(MISSING[kind], x), MISSING[kind], x)
