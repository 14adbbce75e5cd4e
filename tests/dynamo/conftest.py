"""Every test starts as a new process would, as far as compiled graphs go, and without gradients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from anyshape.driver import dynamo
from anyshape.driver.instances import Instances
from anyshape.driver.remarks import JOURNAL


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    torch.compiler.reset()
    JOURNAL.clear()
    monkeypatch.setattr(dynamo, "_INSTANCES", Instances())
    with torch.no_grad():
        yield
